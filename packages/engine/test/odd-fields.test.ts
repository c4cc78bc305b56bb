import { getHistoryContext, slidingWindowState } from "@espalier/compaction/policies";
import {
  diagnose,
  lastAct,
  openSession,
  POLICY_NAMES,
  runStateOf,
  type Session,
  searchSessions,
} from "@espalier/engine";
import { compareBranches, historyOf, statsOf } from "@espalier/engine/reading";
import {
  anthropicFormat,
  buildRequest,
  memoryLog,
  memoryStore,
  type SessionStore,
} from "@espalier/session-tree";
import fc from "fast-check";
import { expect, test } from "vitest";

const TIME = "2026-01-01T00:00:00.000Z";
const MODEL = { provider: "p", model: "m", stopReason: "stop" };
const words = (what: string) => `${what} ${"lorem ipsum ".repeat(60)}`;
const message = (role: string, fields: object) => ({
  type: "message",
  message: { role, timestamp: 1, ...fields },
});
const usage = { input: 1, output: 2, cacheRead: 0, cacheWrite: 0, cost: { total: 1 } };

/** One entry of every kind, and of every role. */
const ENTRIES: readonly Record<string, unknown>[] = [
  message("system", { content: "Be kind.", sections: { tone: "calm" }, toolsAdded: [{ name: "dig" }] }),
  message("user", { content: words("Plant pears.") }),
  message("assistant", {
    content: [{ type: "toolCall", id: "c1", name: "read", arguments: { path: "a" } }],
    ...MODEL,
    usage,
  }),
  message("toolResult", { toolCallId: "c1", toolName: "read", content: words("Rows."), isError: false }),
  message("assistant", { content: [{ type: "text", text: words("Done.") }], ...MODEL }),
  message("bashExecution", { command: "ls", output: "seeds", exitCode: 0 }),
  message("custom", { customType: "note", content: "It rains.", display: true }),
  { type: "custom_message", customType: "note", content: "It rains.", display: true },
  { type: "context_edit", targetId: "e1", replacement: { content: "Plant." } },
  { type: "custom", customType: "espalier.pin", data: { targetId: "e1", pinned: true } },
  { type: "custom", customType: "espalier.sent", data: { leafId: "e1", model: "m" } },
  {
    type: "compaction",
    summary: "What was said.",
    firstKeptEntryId: "e4",
    tokensBefore: 9,
    usage,
    details: {
      readFiles: ["a"],
      pinned: ["e1"],
      automaticInARow: 1,
      learntWindows: { "p/m": 5_000 },
      lastConsolidated: 3,
      sessionSummary: { summary: "What was said.", id: "e11" },
    },
  },
  {
    type: "branch_summary",
    summary: "What was left.",
    fromId: "e3",
    usage,
    details: { readFiles: ["a"], merge: { entryIds: ["e1"], commonAncestorId: null } },
  },
  { type: "label", targetId: "e1", label: "here" },
  { type: "session_info", name: "garden" },
  { type: "usage", kind: "compaction", provider: "p", model: "m", usage },
  { type: "model_change", provider: "p", modelId: "m" },
  { type: "thinking_level_change", thinkingLevel: "high" },
  message("user", { content: words("And plums.") }),
  message("assistant", { content: [], ...MODEL, stopReason: "error", errorMessage: "9 tokens > 8 maximum" }),
];

/** A field of one of these entries, by its path, and what stands there instead; undefined where it is not there. */
interface Oddity {
  entry: number;
  path: readonly (string | number)[];
  value: unknown;
}

function withOddities(oddities: readonly Oddity[]): Record<string, unknown>[] {
  const entries = structuredClone(ENTRIES) as Record<string, unknown>[];
  for (const { entry, path, value } of oddities) {
    let holder: unknown = entries[entry];
    for (const key of path.slice(0, -1)) holder = (holder as Record<string, unknown> | null)?.[key];
    if (typeof holder === "object" && holder !== null)
      (holder as Record<string, unknown>)[path.at(-1)!] = value;
  }
  return entries;
}

async function stored(entries: readonly object[]): Promise<SessionStore> {
  const store = memoryStore();
  const lines = entries.map((entry, at) =>
    JSON.stringify({ ...entry, id: `e${at}`, parentId: at === 0 ? null : `e${at - 1}`, timestamp: TIME }),
  );
  const header = JSON.stringify({ type: "session", version: 3, id: "odd", timestamp: TIME, cwd: "/garden" });
  await (await store.create(header, lines)).close();
  return store;
}

const opened = (store: SessionStore): Promise<Session> =>
  openSession("odd", {
    store,
    log: { warn: () => {}, error: () => {} },
    compaction: { keepRecentTokens: 100, contextWindow: 3_000, reserveTokens: 1_000 },
    policySettings: { tailKeepSize: 2, contextSize: 4, keepLast: 2, maxMessages: 3, maxContextTokens: 500 },
  });

/** A refusal that has a name is an answer; anything else is a reader that fell over. */
async function refusedByName(act: () => unknown): Promise<void> {
  try {
    await act();
  } catch (error) {
    if (typeof (error as { code?: unknown }).code !== "string") throw error;
  }
}

/** Everything that reads a session or plans for it. */
async function readAll(session: Session, store: SessionStore): Promise<void> {
  buildRequest(session.context, { format: anthropicFormat });
  for (const { policy } of session.comparePolicies())
    await refusedByName(() => session.planCompaction({ policy: policy as never, reason: "overflow" }));
  for (const { verified } of session.replay({ verify: true })) expect(verified).toBe(true);
  session.pinned();
  session.branches();
  expect(Number.isFinite(statsOf(session.tree).total.cost)).toBe(true);
  expect(Number.isFinite(compareBranches(session.tree, null, session.leafId).b.cost ?? 0)).toBe(true);
  historyOf(session, "x");
  getHistoryContext(session);
  slidingWindowState(session);
  lastAct(session.tree, session.leafId);
  runStateOf(session);
  await diagnose(session.log);
  for await (const hit of searchSessions("e", { store })) expect(hit.file).toBe(session.file);
}

/** Everything that writes something about what stands there. */
async function actOnAll(session: Session): Promise<void> {
  const end = session.leafId;
  const ids = session.getEntries().map(({ id }) => id);
  for (const policy of POLICY_NAMES) {
    await refusedByName(() => session.prepareRequest({ policy }));
    await refusedByName(() => session.compact({ policy }));
    await session.navigate(end, { summarize: true });
  }
  await refusedByName(() => session.navigate(ids[4]!, { summarize: true }));
  await refusedByName(() => session.merge(end!));
  await refusedByName(() => session.fork(ids[6]!, { summarize: true, position: "before" }));
  for (const id of ids) await refusedByName(() => session.hide(id));
  await refusedByName(() => session.undo());
}

async function examine(oddities: readonly Oddity[]): Promise<void> {
  const store = await stored(withOddities(oddities));
  const session = await opened(store);
  await readAll(session, store);
  await actOnAll(session);
  await session.close();
}

const RESULT = { role: "toolResult", toolCallId: "c9", content: [{ type: "text" }], timestamp: 1 };
const SYSTEM = { role: "system", content: "", toolsAdded: [null, { name: 5 }], timestamp: 1 };

test.each<[string, Oddity]>([
  ["a message that is not an object", { entry: 19, path: ["message"], value: null }],
  ["a tool that is not an object", { entry: 11, path: ["systemMessage"], value: SYSTEM }],
  ["a text that is not a string", { entry: 18, path: ["message"], value: RESULT }],
  ["an output that is a number", { entry: 5, path: ["message", "output"], value: 0 }],
  ["a branch summary without text", { entry: 12, path: ["summary"], value: { said: "nothing" } }],
  ["a compaction without text", { entry: 11, path: ["summary"], value: {} }],
  ["pins that are not ids", { entry: 11, path: ["details", "pinned"], value: [null, 5, {}] }],
  ["a cost that is a text", { entry: 2, path: ["message", "usage", "cost", "total"], value: "1" }],
])("%s does not stop reading", (_, oddity) => examine([oddity]));

const pathsIn = (value: unknown, above: readonly string[] = []): (readonly string[])[] =>
  typeof value === "object" && value !== null
    ? Object.entries(value).flatMap(([key, inner]) => [[...above, key], ...pathsIn(inner, [...above, key])])
    : [];
const FIELDS = ENTRIES.flatMap((fields, entry) =>
  pathsIn(fields)
    .filter(([first]) => first !== "type")
    .map((path) => ({ entry, path })),
);
const odd = fc.oneof(
  fc.constantFrom(
    undefined,
    null,
    0,
    -1,
    1e308,
    "",
    "text",
    true,
    [],
    {},
    [null],
    [{ type: "text", text: 5 }],
  ),
  fc.constantFrom([{ type: "toolCall" }], [{ type: "image", data: 3 }], { content: [5] }, { total: "x" }),
  fc.jsonValue({ maxDepth: 2 }),
);

test("property: with any values in the fields of its lines, a session can be read, planned for and continued", async () => {
  const oddity = fc.tuple(fc.constantFrom(...FIELDS), odd).map(([field, value]) => ({ ...field, value }));
  await fc.assert(
    fc.asyncProperty(fc.array(oddity, { minLength: 1, maxLength: 4 }), (oddities) => examine(oddities)),
    { numRuns: 60 },
  );
});

test("a log with many thousand invalid entries is diagnosed", async () => {
  const label = { type: "label", timestamp: TIME, targetId: "nobody", label: "lost" };
  const lines = Array.from({ length: 150_000 }, (_, at) =>
    JSON.stringify({ ...label, id: `e${at}`, parentId: at === 0 ? null : `e${at - 1}` }),
  );
  const header = JSON.stringify({ type: "session", version: 3, id: "s", timestamp: TIME, cwd: "/garden" });
  const bytes = new TextEncoder().encode(`${[header, ...lines].join("\n")}\n`);
  const { issues } = await diagnose(memoryLog(bytes));
  expect(issues.filter(({ kind }) => kind === "bad-reference")).toHaveLength(lines.length);
});
