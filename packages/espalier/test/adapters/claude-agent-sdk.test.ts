import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  deleteSession,
  foldSessionSummary,
  forkSession,
  getSessionInfo,
  getSessionMessages,
  getSubagentMessages,
  InMemorySessionStore,
  importSessionToStore,
  listSessions,
  listSubagents,
  renameSession,
  type SessionKey,
  type SessionStore,
  type SessionStoreEntry,
  tagSession,
} from "@anthropic-ai/claude-agent-sdk";
import { serverPrograms, startPrivateServer } from "@espalier/store-postgres/testing";
import {
  anthropicFormat,
  buildRequest,
  drawTree,
  fileStore,
  memoryStore,
  openSession,
  openStore,
  statsOf,
} from "espalier";
import { type ClaudeSessionStore, claudeSessionStore } from "espalier/adapters/claude-agent-sdk";
import { isMessage, message, messageText } from "espalier/extend";
import { migratePostgres } from "espalier/postgres";
import { checkAnthropicRequest } from "espalier/testing";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";

/** A store with every member, as a host sees it. */
type Store = Required<SessionStore> | ClaudeSessionStore;
type Whole = SessionStore &
  Required<Pick<SessionStore, "listSessions" | "delete" | "listSubkeys" | "listSessionSummaries">>;

const whole = (store: Store): Whole => store as Whole;
const line = (fields: object): SessionStoreEntry => ({ type: "x", ...fields });
const KEY: SessionKey = { projectKey: "proj", sessionId: "sess" };
const sub = (agent: number): SessionKey => ({ ...KEY, subpath: `subagents/agent-${agent}` });

function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "espalier-claude-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

function open(
  options: Parameters<typeof claudeSessionStore>[0] = { store: memoryStore() },
): ClaudeSessionStore & Whole {
  const store = claudeSessionStore({ foldSessionSummary, ...options });
  onTestFinished(() => store.close());
  return store as ClaudeSessionStore & Whole;
}

let postgres: { url: string; remove(): void | Promise<void> } | undefined;
beforeAll(async () => {
  if (serverPrograms() === undefined) return;
  postgres = await startPrivateServer();
  await migratePostgres(postgres.url);
});
afterAll(() => postgres?.remove());
let namespaces = 0;
async function openPostgres(): Promise<ClaudeSessionStore & Whole> {
  const store = await openStore(`${postgres!.url}&namespace=test${namespaces++}`.replace(/^([^?]*)&/, "$1?"));
  onTestFinished(() => store.close());
  return open({ store });
}

const stores: [string, () => Whole | Promise<Whole>, boolean][] = [
  ["the SDK's InMemorySessionStore", () => new InMemorySessionStore(), true],
  ["sessions in memory", () => open(), true],
  ["sessions in files", () => open({ store: fileStore({ home: temporaryFolder() }) }), true],
  ["sessions in PostgreSQL", openPostgres, serverPrograms() !== undefined],
];

// The contracts that the SDK's documentation names, each as a test; they hold for its own store as for ours.
describe.each(stores)("%s", (_, fresh, isHere) => {
  const contract = test.skipIf(!isHere);

  contract("gives back lines equal and in the order of the append", async () => {
    const store = await fresh();
    const lines = [line({ uuid: "b", n: 1 }), line({ uuid: "a", n: 2 })];
    await store.append(KEY, lines);
    expect(await store.load(KEY)).toEqual(lines);
  });

  contract("has null for a transcript that was never written", async () => {
    const store = await fresh();
    expect(await store.load(KEY)).toBeNull();
    await store.append(KEY, [line({ uuid: "x" })]);
    expect(await store.load({ ...KEY, subpath: "nope" })).toBeNull();
    expect(await store.load({ ...KEY, sessionId: "nope" })).toBeNull();
  });

  contract("keeps the order of appends", async () => {
    const store = await fresh();
    const lines = ["z", "a", "m", "b"].map((uuid, n) => line({ uuid, n }));
    await store.append(KEY, lines.slice(0, 1));
    await store.append(KEY, lines.slice(1, 3));
    await store.append(KEY, lines.slice(3));
    expect(await store.load(KEY)).toEqual(lines);
  });

  contract("keeps the lines of a list that the caller reuses", async () => {
    const store = await fresh();
    const lines = [line({ uuid: "a" }), line({ uuid: "b" })];
    const appended = store.append(KEY, lines);
    lines.length = 0;
    await appended;
    expect(await store.load(KEY)).toEqual([line({ uuid: "a" }), line({ uuid: "b" })]);
  });

  contract("does nothing for an append of nothing", async () => {
    const store = await fresh();
    await store.append(KEY, [line({ uuid: "a" })]);
    await store.append(KEY, []);
    expect(await store.load(KEY)).toEqual([line({ uuid: "a" })]);
  });

  contract("keeps sub-agents apart from the conversation", async () => {
    const store = await fresh();
    await store.append(KEY, [line({ uuid: "m" })]);
    await store.append(sub(1), [line({ uuid: "s" })]);
    expect(await store.load(KEY)).toEqual([line({ uuid: "m" })]);
    expect(await store.load(sub(1))).toEqual([line({ uuid: "s" })]);
  });

  contract("keeps projects apart", async () => {
    const store = await fresh();
    for (const projectKey of ["A", "B"])
      await store.append({ projectKey, sessionId: "s1" }, [line({ from: projectKey })]);
    for (const projectKey of ["A", "B"]) {
      expect(await store.load({ projectKey, sessionId: "s1" })).toEqual([line({ from: projectKey })]);
      expect(await store.listSessions(projectKey)).toHaveLength(1);
    }
  });

  contract("lists the sessions of a project, with a time in milliseconds", async () => {
    const store = await fresh();
    for (const [projectKey, sessionId] of [
      ["proj", "a"],
      ["proj", "b"],
      ["other", "c"],
    ] as const)
      await store.append({ projectKey, sessionId }, [line({ n: 1 })]);
    const sessions = await store.listSessions("proj");
    expect(sessions.map(({ sessionId }) => sessionId).sort()).toEqual(["a", "b"]);
    for (const { mtime } of sessions) expect(Number.isInteger(mtime) && mtime > 1e12).toBe(true);
    expect(await store.listSessions("never-written")).toEqual([]);
  });

  contract("lists no sub-agent as a session", async () => {
    const store = await fresh();
    await store.append(KEY, [line({ n: 1 })]);
    await store.append(sub(1), [line({ n: 1 })]);
    expect((await store.listSessions("proj")).map(({ sessionId }) => sessionId)).toEqual(["sess"]);
  });

  contract("forgets a deleted session, and one that was never written", async () => {
    const store = await fresh();
    await store.delete({ ...KEY, sessionId: "never-written" });
    await store.append(KEY, [line({ n: 1 })]);
    await store.delete(KEY);
    expect(await store.load(KEY)).toBeNull();
    await store.append(KEY, [line({ n: 2 })]);
    expect(await store.load(KEY)).toEqual([line({ n: 2 })]);
  });

  contract("deletes the sub-agents of a session with it, and nothing else", async () => {
    const store = await fresh();
    const others: SessionKey[] = [
      { ...KEY, sessionId: "sess2" },
      { ...KEY, projectKey: "other" },
    ];
    for (const key of [KEY, sub(1), sub(2), ...others]) await store.append(key, [line({ n: 1 })]);
    await store.delete(KEY);
    for (const key of [KEY, sub(1), sub(2)]) expect(await store.load(key)).toBeNull();
    for (const key of others) expect(await store.load(key)).toEqual([line({ n: 1 })]);
    expect(await store.listSubkeys(KEY)).toEqual([]);
    expect((await store.listSessions("proj")).map(({ sessionId }) => sessionId)).toEqual(["sess2"]);
  });

  contract("deletes one sub-agent alone", async () => {
    const store = await fresh();
    for (const key of [KEY, sub(1), sub(2)]) await store.append(key, [line({ n: 1 })]);
    await store.delete(sub(1));
    expect(await store.load(sub(1))).toBeNull();
    expect(await store.load(sub(2))).toEqual([line({ n: 1 })]);
    expect(await store.load(KEY)).toEqual([line({ n: 1 })]);
    expect(await store.listSubkeys(KEY)).toEqual(["subagents/agent-2"]);
  });

  contract("lists the paths of the sub-agents of a session", async () => {
    const store = await fresh();
    for (const key of [KEY, sub(1), sub(2), { ...sub(3), sessionId: "other" }])
      await store.append(key, [line({ n: 1 })]);
    expect((await store.listSubkeys(KEY)).sort()).toEqual(["subagents/agent-1", "subagents/agent-2"]);
  });

  contract("lists no path for the conversation itself", async () => {
    const store = await fresh();
    await store.append(KEY, [line({ n: 1 })]);
    expect(await store.listSubkeys(KEY)).toEqual([]);
    expect(await store.listSubkeys({ projectKey: "proj", sessionId: "never-written" })).toEqual([]);
  });

  contract("keeps summaries that the SDK folds further", async () => {
    const store = await fresh();
    const at = (second: number) => `2024-01-01T00:00:0${second}.000Z`;
    const titled = (customTitle: string, second: number) =>
      line({ type: "custom-title", timestamp: at(second), customTitle });
    await store.append(KEY, [titled("first", 0), line({ timestamp: at(1) })]);
    await store.append(KEY, [titled("second", 2)]);
    await store.append({ ...KEY, projectKey: "other" }, [line({ timestamp: at(0) })]);
    const [summary, ...others] = await store.listSessionSummaries("proj");
    expect(others).toEqual([]);
    expect(summary!.sessionId).toBe("sess");
    expect(summary!.data["customTitle"]).toBe("second");
    expect(foldSessionSummary(summary, KEY, [titled("third", 3)]).data["customTitle"]).toBe("third");
    const [{ mtime }] = (await store.listSessions("proj")) as unknown as [{ mtime: number }];
    expect(summary!.mtime).toBeGreaterThanOrEqual(mtime);
    expect(await store.listSessionSummaries("never-written")).toEqual([]);
    await store.delete(KEY);
    expect(await store.listSessionSummaries("proj")).toEqual([]);
  });
});

const text = fc.oneof(
  fc.string({ maxLength: 8 }),
  fc.constantFrom(
    "",
    "half a pair \ud83d",
    "\u0000",
    "__proto__",
    "a long text that is not written twice in one line of the session, but named",
  ),
);
const uuid = fc.constantFrom(null, "u1", "u2", "u3", "../u4", "nowhere");
const block = fc.oneof(
  fc.record({ type: fc.constant("text"), text }),
  fc.record({ type: fc.constant("thinking"), thinking: text, signature: text }),
  fc.record({
    type: fc.constant("tool_use"),
    id: fc.constantFrom("t1", "t2"),
    name: text,
    input: fc.jsonValue({ maxDepth: 2 }),
  }),
  fc.record({
    type: fc.constant("tool_result"),
    tool_use_id: fc.constantFrom("t1", "t2"),
    content: fc.oneof(text, fc.array(fc.record({ type: fc.constant("text"), text }), { maxLength: 2 })),
  }),
  fc.constant({ type: "document", source: { type: "text", data: "x" } }),
  fc.jsonValue({ maxDepth: 1 }),
);
const content = fc.oneof(text, fc.array(block, { maxLength: 3 }), fc.constant(undefined));
const anyLine = fc
  .oneof(
    {
      weight: 6,
      arbitrary: fc.record({
        type: fc.constantFrom("user", "assistant", "system", "attachment", "progress"),
        parentUuid: uuid,
        logicalParentUuid: uuid,
        subtype: fc.constantFrom("compact_boundary", "local_command", undefined),
        isCompactSummary: fc.constantFrom(true, undefined, undefined, undefined),
        isSidechain: fc.boolean(),
        isMeta: fc.constantFrom(true, undefined, undefined),
        timestamp: fc.constantFrom("2026-01-01T00:00:00.000Z", "never"),
        compactMetadata: fc.constantFrom(
          undefined,
          { preTokens: 7, preservedMessages: { uuids: ["u1", "u2"], anchorUuid: "u3" } },
          { preservedSegment: { headUuid: "u2" } },
        ),
        message: fc.oneof(
          fc.record({
            id: fc.constantFrom("m1", "m2", undefined),
            role: fc.constantFrom("user", "assistant"),
            model: fc.constantFrom("claude-x", "<synthetic>", undefined),
            content,
            usage: fc.constantFrom(undefined, { input_tokens: 3, output_tokens: 2 }),
          }),
          fc.jsonValue({ maxDepth: 1 }),
          fc.constant(undefined),
        ),
        toolUseResult: fc.oneof(fc.constant(undefined), fc.jsonValue({ maxDepth: 2 })),
      }),
    },
    {
      weight: 2,
      arbitrary: fc.record({
        type: fc.constantFrom(
          "custom-title",
          "ai-title",
          "summary",
          "tag",
          "last-prompt",
          "agent_metadata",
          "new type",
        ),
        customTitle: text,
        aiTitle: text,
        summary: text,
        description: text,
        leafUuid: uuid,
      }),
    },
    {
      weight: 1,
      arbitrary: fc
        .dictionary(fc.constantFrom("$stored", "a", "message", "line"), fc.jsonValue({ maxDepth: 2 }))
        .map((fields) => line(fields)),
    },
    {
      weight: 1,
      arbitrary: fc.constantFrom(
        line({ deep: JSON.parse(`${"[".repeat(300)}${"]".repeat(300)}`) }),
        JSON.parse(
          '{"type":"user","message":{"role":"user","content":[{"type":"tool_use","id":"t","name":"n","input":{"__proto__":1}}]}}',
        ) as SessionStoreEntry,
      ),
    },
  )
  .map((fields) => JSON.parse(JSON.stringify(fields)) as SessionStoreEntry);
const key = fc
  .record({
    projectKey: fc.constantFrom("proj", "__proto__", "../other"),
    sessionId: fc.constantFrom("s1", "s2"),
    subpath: fc.constantFrom(undefined, undefined, "subagents/agent-1", "../../etc"),
  })
  .map(({ subpath, ...main }): SessionKey => (subpath === undefined ? main : { ...main, subpath }));
type Act =
  | { do: "append"; key: SessionKey; lines: SessionStoreEntry[] }
  | { do: "delete" | "load" | "list"; key: SessionKey };
const act: fc.Arbitrary<Act> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constant("append" as const),
      key,
      lines: fc.array(anyLine, { minLength: 1, maxLength: 5 }),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constantFrom("delete" as const, "load" as const, "list" as const, "list" as const),
      key,
    }),
  },
);

/** What a host can see of a store by one act. Times are the store's own. */
async function seen(store: Whole, act: Act): Promise<unknown> {
  const { projectKey, sessionId } = act.key;
  if (act.do === "append") await store.append(act.key, structuredClone(act.lines));
  if (act.do === "delete") await store.delete(act.key);
  if (act.do === "load") return store.load(act.key);
  const sessions = await store.listSessions(projectKey);
  const summaries = await store.listSessionSummaries(projectKey);
  return {
    lines: await store.load(act.key),
    sessions: sessions.map((session) => session.sessionId).sort(),
    summaries: summaries
      .map(({ sessionId: id, data }) => ({ id, data }))
      .sort((a, b) => (a.id < b.id ? -1 : 1)),
    subkeys: (await store.listSubkeys({ projectKey, sessionId })).sort(),
  };
}

/** The SDK's store keeps a line as often as it comes; one with a `uuid` should be kept once. */
function withFreshIds(acts: readonly Act[]): Act[] {
  let number = 0;
  return acts.map((one) => {
    if (one.do !== "append") return one;
    const lines = one.lines.map((each) =>
      each.type === "x" || number++ % 4 === 0 ? each : { ...each, uuid: ID_NAMES[number] ?? `n${number}` },
    );
    return { ...one, lines };
  });
}
const ID_NAMES = ["", "u1", "u2", "u3", "../u4"];

test("500 random sequences of calls by a host have the same results as the SDK's own store", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(act, { maxLength: 10 }).map(withFreshIds), async (acts) => {
      const memory = memoryStore();
      let store = open({ store: memory });
      const reference = whole(new InMemorySessionStore() as Store);
      for (const [at, one] of acts.entries()) {
        expect(await seen(store, one), `act ${at}`).toStrictEqual(await seen(reference, one));
        if (at % 4 === 3) {
          await store.close();
          store = open({ store: memory });
        }
      }
    }),
    { numRuns: 500, seed: 23 },
  );
}, 600_000);

test("a line with a uuid is kept once, however often it is written; one without is kept each time", async () => {
  const store = open();
  const lines = [line({ uuid: "a", n: 1 }), line({ uuid: "b", n: 2 }), line({ title: "x" })];
  await store.append(KEY, lines);
  await store.append(KEY, [
    line({ uuid: "b", n: 2 }),
    line({ uuid: "c", n: 3 }),
    line({ uuid: "c", n: 3 }),
    line({ title: "x" }),
  ]);
  expect(await store.load(KEY)).toEqual([...lines, line({ uuid: "c", n: 3 }), line({ title: "x" })]);
});

// A conversation as Claude Code writes it: an answer in parts, calls at the same time, state beside, a compaction, an edit.
const at = (second: number) => `2026-01-01T00:00:${String(second).padStart(2, "0")}.000Z`;
const common = (uuid: string, parentUuid: string | null, second: number) => ({
  ...{ uuid, parentUuid, timestamp: at(second), sessionId: "3f1c0a52-6f0e-4a55-9c5e-0d3a8f6b7c11" },
  ...{ cwd: "/home/ada/garden", version: "2.1.330", isSidechain: false, userType: "external" },
});
const prompt = (
  uuid: string,
  parentUuid: string | null,
  second: number,
  content: unknown,
  more: object = {},
) =>
  ({
    type: "user",
    ...common(uuid, parentUuid, second),
    message: { role: "user", content },
    ...more,
  }) as SessionStoreEntry;
const part = (uuid: string, parentUuid: string, second: number, id: string, block: object, output: number) =>
  ({
    type: "assistant",
    ...common(uuid, parentUuid, second),
    message: {
      ...{ id, type: "message", role: "assistant", model: "claude-sonnet-4-5", content: [block] },
      ...{ stop_reason: null, usage: { input_tokens: 10, output_tokens: output } },
    },
  }) as SessionStoreEntry;
const transcript: SessionStoreEntry[] = [
  { type: "file-history-snapshot", messageId: "u1", snapshot: {} },
  prompt("u1", null, 0, "What grows here?"),
  part("a1", "u1", 1, "m1", { type: "thinking", thinking: "Two looks.", signature: "c2ln" }, 3),
  part("a2", "a1", 2, "m1", { type: "tool_use", id: "t1", name: "Read", input: { file_path: "east.md" } }, 5),
  part("a3", "a2", 3, "m1", { type: "tool_use", id: "t2", name: "Read", input: { file_path: "west.md" } }, 9),
  prompt(
    "r1",
    "a2",
    4,
    [{ type: "tool_result", tool_use_id: "t1", content: "Pears in the east. ".repeat(20) }],
    { toolUseResult: { file: { content: "Pears in the east. ".repeat(20) } } },
  ),
  prompt("r2", "a3", 5, [{ type: "tool_result", tool_use_id: "t2", content: "Plums in the west." }]),
  part("a4", "r1", 6, "m2", { type: "text", text: "Pears and plums." }, 4),
  { type: "last-prompt", lastPrompt: "What grows here?", sessionId: "s" },
  { type: "custom-title", customTitle: "The garden", sessionId: "s" },
  { type: "ai-title", aiTitle: "A talk of fruit", sessionId: "s" },
  prompt("u2", "a4", 7, "And there?"),
  part("a5", "u2", 8, "m3", { type: "text", text: "Nothing." }, 2),
  prompt("u3", "a4", 9, "And behind the house?"),
  part("a6", "u3", 10, "m4", { type: "text", text: "A quince." }, 2),
  {
    type: "system",
    subtype: "compact_boundary",
    ...common("b1", null, 11),
    logicalParentUuid: "a6",
    content: "Conversation compacted",
    compactMetadata: {
      trigger: "auto",
      preTokens: 900,
      preservedMessages: { anchorUuid: "s1", uuids: ["u3", "a6"] },
    },
  },
  prompt("s1", "b1", 12, "They spoke of pears and plums.", {
    isCompactSummary: true,
    isVisibleInTranscriptOnly: true,
  }),
  prompt("u4", "a6", 13, "Is it ripe?"),
  part("a7", "u4", 14, "m5", { type: "text", text: "It is." }, 1),
];

/** Every way to cut the transcript into appends that matters: all at once, line by line, and by threes. */
test.each([100, 1, 3])(
  "a transcript written %i lines at a time is a tree with the same messages",
  async (size) => {
    const home = temporaryFolder();
    const store = open({ home });
    for (let from = 0; from < transcript.length; from += size)
      await store.append(KEY, transcript.slice(from, from + size));
    expect(await store.load(KEY)).toEqual(transcript);
    await store.close();

    const session = await openSession(store.sessionId(KEY), { home });
    onTestFinished(() => session.close());
    expect(session.name).toBe("The garden");
    // The first line names no folder.
    expect(session.header?.cwd).toBe(size === 1 ? process.cwd() : "/home/ada/garden");
    const said = (path = session.getBranch()) =>
      path.flatMap((entry) =>
        message.is(entry) ? `${entry.message.role} ${messageText(entry.message)}`.slice(0, 30).trim() : [],
      );
    expect(said()).toEqual(
      [
        ...["user What grows here?", "assistant", "assistant", "assistant"],
        ...["toolResult Pears in the east. ", "toolResult Plums in the west.", "assistant Pears and plums."],
        ...["user And behind the house?", "assistant A quince.", "user Is it ripe?", "assistant It is."],
      ].map((words) => words.trim()),
    );
    // The prompt that was edited is a branch, and the only one.
    expect(session.branches().map(({ lastUserText }) => lastUserText)).toEqual(["And there?", "Is it ripe?"]);
    // The model reads the summary and what the compaction kept.
    expect(session.context.messages.map((one) => one.role)).toEqual([
      "compactionSummary",
      "user",
      "assistant",
      "user",
      "assistant",
    ]);
    expect(session.context.model).toEqual({ provider: "anthropic", modelId: "claude-sonnet-4-5" });
    const results = session
      .getEntries()
      .flatMap((entry) => (isMessage(entry, "toolResult") ? entry.message.toolName : []));
    expect(results).toEqual(["Read", "Read"]);
    // Each part of an answer repeats the tokens of the whole, which count once.
    expect(statsOf(session.tree).total).toMatchObject({ input: 50, output: 9 + 4 + 2 + 2 + 1 });
    expect(drawTree(session)).toContain("s1 (compaction, keeps from u3)");
    // Another agent can go on, from here and from before the compaction.
    for (const id of [session.leafId, "a4", "r2"]) {
      const request = buildRequest(session.contextAt(id), { format: anthropicFormat });
      expect(checkAnthropicRequest({ model: "m", max_tokens: 1, ...request })).toEqual([]);
    }
    // Texts that an entry shows are not written twice.
    const bytes = readFileSync(session.file, "utf8");
    expect(bytes.split("Pears in the east. ".repeat(20))).toHaveLength(3);
  },
);

describe("the SDK's own functions", () => {
  const sessionId = "3f1c0a52-6f0e-4a55-9c5e-0d3a8f6b7c11";
  let configFolder: string | undefined;
  beforeAll(() => {
    configFolder = process.env["CLAUDE_CONFIG_DIR"];
  });
  afterAll(() => {
    if (configFolder === undefined) delete process.env["CLAUDE_CONFIG_DIR"];
    else process.env["CLAUDE_CONFIG_DIR"] = configFolder;
  });

  /** A transcript of Claude Code on disk, with a sub-agent. */
  function writeTranscript(): string {
    const folder = temporaryFolder();
    const work = join(folder, "garden");
    const project = join(folder, "config/projects", work.replace(/[^a-zA-Z0-9]/g, "-"));
    mkdirSync(join(project, sessionId, "subagents"), { recursive: true });
    mkdirSync(work);
    process.env["CLAUDE_CONFIG_DIR"] = join(folder, "config");
    const text = (lines: readonly object[]) => lines.map((each) => `${JSON.stringify(each)}\n`).join("");
    const valid = transcript.map((each) => ({ ...each, ...("sessionId" in each ? { sessionId } : {}) }));
    writeFileSync(join(project, `${sessionId}.jsonl`), text(valid));
    const agent = join(project, sessionId, "subagents/agent-a1");
    const side = { isSidechain: true, agentId: "a1" };
    writeFileSync(
      `${agent}.jsonl`,
      text([
        prompt("x1", null, 1, "Look east.", side),
        { ...part("x2", "x1", 2, "n1", { type: "text", text: "Pears." }, 1), ...side },
      ]),
    );
    writeFileSync(`${agent}.meta.json`, JSON.stringify({ agentType: "explore", description: "The east" }));
    return work;
  }

  test("import a transcript, list it, read it, name it, fork it and delete it", async () => {
    const dir = writeTranscript();
    const home = temporaryFolder();
    const ours = open({ home });
    const theirs = new InMemorySessionStore();
    const both = async <Result>(act: (sessionStore: SessionStore) => Promise<Result>) => {
      const result = await act(ours);
      expect(result).toEqual(await act(theirs));
      return result;
    };
    const withoutTimes = <Info extends { lastModified: number }>({ lastModified, ...info }: Info) => {
      expect(lastModified).toBeGreaterThan(1e12);
      return info;
    };
    await importSessionToStore(sessionId, ours, { dir, batchSize: 4 });
    await importSessionToStore(sessionId, theirs, { dir });
    const [info] = await both(async (sessionStore) =>
      (await listSessions({ dir, sessionStore })).map(withoutTimes),
    );
    expect(info).toMatchObject({ sessionId, customTitle: "The garden" });
    await both((sessionStore) => getSessionMessages(sessionId, { dir, sessionStore }));
    expect(await both((sessionStore) => listSubagents(sessionId, { dir, sessionStore }))).toEqual(["a1"]);
    expect(
      await both((sessionStore) => getSubagentMessages(sessionId, "a1", { dir, sessionStore })),
    ).toHaveLength(2);
    await both((sessionStore) => renameSession(sessionId, "The orchard", { dir, sessionStore }));
    await both((sessionStore) => tagSession(sessionId, "fruit", { dir, sessionStore }));
    const named = await both(async (sessionStore) =>
      withoutTimes((await getSessionInfo(sessionId, { dir, sessionStore }))!),
    );
    expect(named).toMatchObject({ customTitle: "The orchard", tag: "fruit" });

    const forked = await forkSession(sessionId, { dir, sessionStore: ours, upToMessageId: "a4" });
    const copied = await getSessionMessages(forked.sessionId, { dir, sessionStore: ours });
    expect(copied.length).toBeGreaterThan(4);
    await ours.close();

    const again = open({ home });
    const agent = await openSession(
      again.sessionId({ ...(await keyOf(again, dir)), subpath: "subagents/agent-a1" }),
      { home, mode: "read" },
    );
    expect(agent.name).toBe("The east");
    expect(agent.header?.parent).toMatchObject({
      kind: "subagent",
      sessionId: again.sessionId(await keyOf(again, dir)),
    });
    await agent.close();
    await deleteSession(sessionId, { dir, sessionStore: again });
    expect((await listSessions({ dir, sessionStore: again })).map((one) => one.sessionId)).toEqual([
      forked.sessionId,
    ]);
  });

  /** The key that the SDK makes of a folder. */
  async function keyOf(store: Whole, dir: string): Promise<SessionKey> {
    let key: SessionKey | undefined;
    const spy: SessionStore = {
      append: async () => {},
      load(asked) {
        key ??= asked;
        return store.load(asked);
      },
    };
    await getSessionMessages(sessionId, { dir, sessionStore: spy });
    return key!;
  }
});

test("a session written without summaries has them once they are requested", async () => {
  const memory = memoryStore();
  const plain = claudeSessionStore({ store: memory });
  expect(plain.listSessionSummaries).toBeUndefined();
  await plain.append(KEY, transcript.slice(0, 11));
  await plain.close();
  const store = open({ store: memory });
  const titles = async () =>
    (await store.listSessionSummaries("proj")).map(({ data }) => data["customTitle"]);
  expect(await titles()).toEqual(["The garden"]);
  await store.append(KEY, transcript.slice(11));
  expect(await titles()).toEqual(["The garden"]);
});

test("keys that name no transcript are refused in one sentence, and none leads to a file or to another tenant", async () => {
  const home = temporaryFolder();
  const store = open({ home });
  for (const sessionId of ["../other", "/etc/passwd", "__proto__", "", "x".repeat(10_000), null as never])
    for (const call of [
      () => store.append({ ...KEY, sessionId }, transcript),
      () => store.load({ ...KEY, sessionId }),
      () => store.delete({ ...KEY, sessionId }),
    ])
      await expect(call()).rejects.toThrow(
        /^The sessionId .{1,70} of a transcript cannot be used: it has at most 80 letters, digits and \. _ - inside\.$/,
      );
  for (const projectKey of ["", "x".repeat(10_000), 7 as never])
    await expect(store.listSessions(projectKey)).rejects.toThrow(
      /^The projectKey .{1,70} of a transcript cannot be used: it is a text of 1 to 1000 characters\.$/,
    );
  await expect(store.load({ ...KEY, subpath: "" })).rejects.toThrow(
    'The subpath "" of a transcript cannot be used',
  );
  await store.append({ ...KEY, projectKey: "tenant-a" }, transcript);
  for (const projectKey of ["tenant-b", "tenant-a/sess", "tenant", "../tenant-a", "__proto__"]) {
    expect(await store.load({ ...KEY, projectKey })).toBeNull();
    expect(await store.listSessions(projectKey)).toEqual([]);
    await store.delete({ ...KEY, projectKey });
  }
  expect(await store.load({ ...KEY, projectKey: "tenant-a" })).toEqual(transcript);
});

test("two stores write one transcript in turns, and it can be read while one holds it", async () => {
  const home = temporaryFolder();
  const [one, two] = [open({ home, idleMs: 0 }), open({ home, idleMs: 0 })];
  const lines = Array.from({ length: 24 }, (_, n) =>
    line({ uuid: `n${n}`, parentUuid: n === 0 ? null : `n${n - 1}`, n }),
  );
  await Promise.all(lines.flatMap((each) => [one.append(KEY, [each]), two.append(KEY, [each])]));
  const kept = (await one.load(KEY))!;
  expect(kept.map(({ uuid }) => uuid).sort()).toEqual(lines.map(({ uuid }) => uuid).sort());
  const [holder, waiter] = [open({ home, idleMs: 60_000 }), open({ home, waitMs: 0 })];
  await holder.append(KEY, [line({ uuid: "held" })]);
  await expect(waiter.append(KEY, [line({ uuid: "late" })])).rejects.toMatchObject({ code: "busy" });
  expect(await waiter.load(KEY)).toHaveLength(25);
});

test("a write cut by a crash leaves a beginning of whole lines, and the SDK can repeat it", async () => {
  const home = temporaryFolder();
  const files = fileStore({ home });
  const first = claudeSessionStore({ store: files, foldSessionSummary });
  await first.append(KEY, transcript.slice(0, 3));
  await first.close();
  let ref = "";
  for await (const listing of files.list()) ({ ref } = listing);
  const start = readFileSync(ref).length;
  const second = claudeSessionStore({ store: files, foldSessionSummary });
  await second.append(KEY, transcript.slice(3, 8));
  await second.close();
  const whole = readFileSync(ref);
  for (let end = whole.length; end >= start; end -= 97) {
    writeFileSync(ref, whole.subarray(0, end));
    const store = claudeSessionStore({ store: files, foldSessionSummary }) as ClaudeSessionStore & Whole;
    const lines = (await store.load(KEY))!;
    expect(lines, `cut at ${end}`).toEqual(transcript.slice(0, lines.length));
    await store.append(KEY, transcript.slice(3, 8));
    expect(await store.load(KEY), `repeated after ${end}`).toEqual(transcript.slice(0, 8));
    const [summary] = await store.listSessionSummaries("proj");
    expect(summary!.data["firstPrompt"]).toBe("What grows here?");
    await store.close();
  }
});

test("a line of several entries that a crash cut is read once after it is repeated", async () => {
  const store = fileStore({ home: temporaryFolder() });
  const results = ["t1", "t2"].map((id) => ({ type: "tool_result", tool_use_id: id, content: `Of ${id}.` }));
  const lines = [
    prompt("u1", null, 0, "What grows here?"),
    part("a1", "u1", 1, "m1", { type: "tool_use", id: "t1", name: "Read", input: {} }, 5),
    part("a2", "a1", 2, "m1", { type: "tool_use", id: "t2", name: "Read", input: {} }, 5),
    prompt("r1", "a2", 3, [...results, { type: "text", text: "And there?" }]),
    part("a3", "r1", 4, "m2", { type: "text", text: "Nothing." }, 2),
  ];
  const read = async () => {
    const session = await openSession(open({ store }).sessionId(KEY), { store, mode: "read" });
    const { messages } = session.context;
    const { file } = session;
    await session.close();
    return { file, said: messages.map((one) => [one.role, messageText(one)]) };
  };
  const append = async (given: SessionStoreEntry[]) => {
    const adapter = open({ store });
    await adapter.append(KEY, given);
    await adapter.close();
  };
  await append(lines.slice(0, 3));
  const { file } = await read();
  const start = readFileSync(file).length;
  await append(lines.slice(3));
  const { said } = await read();
  expect(said).toHaveLength(7);
  const bytes = readFileSync(file);
  for (let end = bytes.length; end > start; end -= 41) {
    writeFileSync(file, bytes.subarray(0, end));
    await append(lines.slice(3));
    expect((await read()).said, `cut at ${end}`).toEqual(said);
  }
});

test("a text with half characters or __proto__ is read like any other", async () => {
  const memory = memoryStore();
  const store = open({ store: memory });
  const code = prompt("u1", null, 0, String.raw`const face = "\ud83d\ude00"; object.__proto__ = null;`);
  await store.append(KEY, [code]);
  expect(await store.load(KEY)).toEqual([code]);
  const session = await openSession(store.sessionId(KEY), { store: memory, mode: "read" });
  expect(messageText(session.context.messages[0]!)).toContain("__proto__");
});
