import type { Entry } from "../entry/kinds.ts";

/** A valid entry in which one field is missing or has a wrong value. */
export interface WrongField {
  /** Field and its value, such as `message.usage.cost.total = {}`. */
  name: string;
  /** The entry, in the form that `JSON.parse` returns, with the given `id` and `parentId`. */
  entry: Entry;
}

/** Position of a {@link WrongField} in its session. */
export interface WrongFieldPlace {
  id: string;
  parentId: string;
  /** Id of an entry above it, for kinds that refer to another entry. */
  targetId: string;
}

/** Value of a field to remove. */
const MISSING = Symbol("missing");

/** Values of each JSON type, empty and not empty, and texts that cause problems in a terminal or a strict reader. */
const WRONG_VALUES: readonly unknown[] = [
  MISSING,
  null,
  true,
  7,
  -1e300,
  "",
  // A name that every JavaScript object has, and so every lookup table that is an object.
  "constructor",
  "\u001b[31m\ud800\u202e",
  [],
  [null],
  [{ type: "text" }],
  {},
  { content: 7, toString: "none", length: 3 },
];

/** Fields that make a line an entry. With a wrong value in one of them, the line is not an entry, or another one. */
const IDENTITY: ReadonlySet<string> = new Set(["id", "parentId", "type"]);

/**
 * Yields every kind of entry with each field, at any depth, replaced by each wrong value, one at a time. Use the
 * entries to test programs that read sessions: such a line can be ignored, and must not stop a reader.
 */
export function* wrongFields(place: WrongFieldPlace): Generator<WrongField> {
  for (const sound of soundEntries(place)) {
    for (const path of fieldPaths(sound)) {
      const kind =
        sound.type === "message" ? `message of ${(sound["message"] as { role: string }).role}` : sound.type;
      for (const wrong of WRONG_VALUES) {
        const entry = structuredClone(sound);
        setField(entry, path, wrong);
        const value = wrong === MISSING ? "is missing" : `= ${JSON.stringify(wrong)}`;
        yield { name: `${kind}: ${path.join(".")} ${value}`, entry: entry as Entry & SoundEntry };
      }
    }
  }
}

type SoundEntry = Record<string, unknown> & { type: string };

function* fieldPaths(value: unknown, above: readonly string[] = []): Generator<string[]> {
  if (typeof value !== "object" || value === null) return;
  for (const [key, field] of Object.entries(value)) {
    if (above.length === 0 && IDENTITY.has(key)) continue;
    yield [...above, key];
    yield* fieldPaths(field, [...above, key]);
  }
}

function setField(entry: Record<string, unknown>, path: readonly string[], value: unknown): void {
  let holder = entry;
  for (const key of path.slice(0, -1)) holder = holder[key] as Record<string, unknown>;
  const last = path.at(-1)!;
  if (value !== MISSING) holder[last] = structuredClone(value);
  else if (Array.isArray(holder)) holder.splice(Number(last), 1);
  else delete holder[last];
}

const USAGE = {
  input: 10,
  output: 5,
  cacheRead: 1,
  cacheWrite: 1,
  totalTokens: 17,
  cost: { input: 0.001, output: 0.002, cacheRead: 0, cacheWrite: 0, total: 0.003 },
};
const TEXT = { type: "text", text: "said", textSignature: "item-1" };
const IMAGE = { type: "image", data: "iVBORw0KGgo=", mimeType: "image/png" };
const THINKING = { type: "thinking", thinking: "thought", thinkingSignature: "signed", redacted: false };

/** Returns messages of every role, with every known field. */
const messages = (): object[] => [
  { role: "user", content: [TEXT, IMAGE], timestamp: 1 },
  { role: "user", content: "said", timestamp: 1 },
  {
    role: "assistant",
    content: [
      THINKING,
      TEXT,
      {
        type: "toolCall",
        id: "call-1",
        name: "edit",
        arguments: {
          path: "a.ts",
          oldText: "old",
          newText: "new",
          edits: [{ oldText: "old", newText: "new" }],
          depth: 1,
        },
        thoughtSignature: "signed",
      },
    ],
    api: "anthropic-messages",
    provider: "anthropic",
    model: "claude-test",
    usage: USAGE,
    stopReason: "toolUse",
    timestamp: 1,
  },
  {
    role: "assistant",
    content: [],
    provider: "anthropic",
    model: "claude-test",
    usage: USAGE,
    stopReason: "error",
    errorMessage: "overloaded",
    timestamp: 1,
  },
  {
    role: "toolResult",
    toolCallId: "call-1",
    toolName: "edit",
    content: [TEXT, IMAGE],
    isError: true,
    details: { diff: "-old\n+new" },
    timestamp: 1,
  },
  {
    role: "bashExecution",
    command: "ls",
    output: "a.ts",
    exitCode: 1,
    cancelled: false,
    truncated: true,
    fullOutputPath: "/tmp/output",
    excludeFromContext: false,
    timestamp: 1,
  },
  {
    role: "system",
    content: "rules",
    sections: { preamble: "You are", gone: null },
    toolsAdded: [{ name: "read", description: "Read a file", parameters: { type: "object" } }],
    toolsRemoved: ["write"],
    timestamp: 1,
  },
  { role: "custom", customType: "test", content: "said", display: true, details: { a: 1 }, timestamp: 1 },
];

function soundEntries({ id, parentId, targetId }: WrongFieldPlace): SoundEntry[] {
  const base = { id, parentId, timestamp: "2026-01-01T00:00:00.000Z" };
  const details = {
    readFiles: ["a.ts"],
    modifiedFiles: ["b.ts"],
    reason: "manual",
    policy: "token-budget",
    model: { provider: "anthropic", modelId: "claude-test" },
    source: "anthropic",
    covered: { firstEntryId: targetId, lastEntryId: targetId, messages: 2 },
    kept: { firstEntryId: targetId, lastEntryId: targetId, messages: 1 },
    tokensBefore: 100,
    tokensAfter: 10,
    durationMs: 5,
    isSplitTurn: true,
    omitted: { history: { shortened: [{ entryId: targetId, characters: 5 }] } },
    learntWindows: { "anthropic/claude-test": 100_000 },
    automaticInARow: 1,
    pinned: [targetId],
    settings: { provider: "anthropic", modelId: "claude-test", thinkingLevel: "high" },
    merge: { commonAncestorId: targetId, entryIds: [targetId] },
    sessionSummary: {
      id: "summary-1",
      sessionId: "s1",
      summary: "what was said",
      startMsgId: targetId,
      endMsgId: targetId,
      msgCount: 2,
      createdAt: "2026-01-01T00:00:00.000Z",
    },
    lastConsolidated: 2,
    lastConsolidatedAt: "2026-01-01T00:00:00.000Z",
  };
  const summary = { summary: "## Goal\nwhat was said", details, usage: USAGE, fromHook: false };
  return [
    ...messages().map((message) => ({ type: "message", ...base, message })),
    {
      type: "compaction",
      ...base,
      firstKeptEntryId: targetId,
      tokensBefore: 100,
      ...summary,
      systemMessage: { role: "system", content: "rules", sections: { a: "b" }, toolsAdded: [], timestamp: 1 },
    },
    { type: "branch_summary", ...base, fromId: targetId, ...summary },
    {
      type: "custom_message",
      ...base,
      customType: "test",
      content: [TEXT],
      display: true,
      details: { a: 1 },
    },
    { type: "context_edit", ...base, targetId, replacement: { content: [TEXT] }, reason: "manual" },
    { type: "context_edit", ...base, targetId, replacement: null },
    { type: "model_change", ...base, provider: "anthropic", modelId: "claude-test" },
    { type: "thinking_level_change", ...base, thinkingLevel: "high" },
    { type: "custom", ...base, customType: "test", data: { a: [1] } },
    {
      type: "custom",
      ...base,
      customType: "espalier.sent",
      data: { leafId: targetId, model: "claude-test" },
    },
    {
      type: "custom",
      ...base,
      customType: "espalier.queued",
      data: { message: { role: "user", content: "x" } },
    },
    { type: "custom", ...base, customType: "espalier.pin", data: { targetId, pinned: true } },
    { type: "label", ...base, targetId, label: "here" },
    { type: "session_info", ...base, name: "A session" },
    { type: "usage", ...base, kind: "cache_warm", provider: "anthropic", model: "claude-test", usage: USAGE },
    { type: "leaf", ...base, targetId: parentId, undoes: targetId },
    { type: "unheard_of", ...base, says: "something" },
    { type: "constructor", ...base, says: "something" },
  ];
}
