import type { Sprout } from "./tree-language.ts";

/** What an entry can find out about those before it. */
interface Surroundings {
  /** The leaf as it is before the entry. */
  leafId: string | null;
  /** The first call above the entry that has no result yet. */
  openCall(): { id: string; name: string } | undefined;
  /** Epoch milliseconds. */
  time: number;
}

type Grow = (sprout: Sprout, around: Surroundings) => { type: string; [field: string]: unknown };

const USAGE = { input: 10, output: 5, cacheRead: 0, cacheWrite: 0, totalTokens: 15, cost: { total: 0.001 } };
const MODEL = { api: "test", provider: "anthropic", model: "claude-test", usage: USAGE };

const said = (message: Record<string, unknown>, { time }: Surroundings) => ({
  type: "message",
  message: { ...message, timestamp: time },
});

const answer = (content: unknown[], stopReason: string, around: Surroundings) =>
  said({ role: "assistant", content, ...MODEL, stopReason }, around);

const text = ({ name, words }: Sprout, at = 0): string => words[at] ?? name;

/** What the first letter of a name makes of it; words in parentheses as told. */
export const grownKinds: Readonly<Record<string, Grow>> = {
  /** `u1("text")`: a user message. */
  u: (sprout, around) => said({ role: "user", content: text(sprout) }, around),
  /** `a1("text")`: an answer. */
  a: (sprout, around) => answer([{ type: "text", text: text(sprout) }], "stop", around),
  /** `c1(2)`: an answer that calls so many tools (default 1). */
  c: ({ name, words: [count = "1"] }, around) => {
    const calls = Array.from({ length: Number(count) }, (_, at) => ({
      type: "toolCall",
      id: `${name}-${at + 1}`,
      name: "read",
      arguments: { path: `${name}.txt` },
    }));
    return answer(calls, "toolUse", around);
  },
  /** `t1("text")`: the result of the first call above that has none; without one, of a call that nobody made. */
  t: (sprout, around) => {
    const { id, name } = around.openCall() ?? { id: `${sprout.name}-orphan`, name: "read" };
    const content = [{ type: "text", text: text(sprout) }];
    return said({ role: "toolResult", toolCallId: id, toolName: name, content, isError: false }, around);
  },
  /** `f1(aborted "text")`: an answer that failed (`error`, the default) or was aborted. */
  f: (sprout, around) =>
    answer([{ type: "text", text: text(sprout, 1) }], sprout.words[0] ?? "error", around),
  /** `b1("command")`: a shell run of the user. */
  b: (sprout, around) =>
    said(
      {
        role: "bashExecution",
        command: text(sprout),
        output: "done",
        exitCode: 0,
        cancelled: false,
        truncated: false,
      },
      around,
    ),
  /** `y1("text")`: a system message. */
  y: (sprout, around) => said({ role: "system", content: text(sprout) }, around),
  /** `k1(u2 "summary")`: a compaction with its first kept entry; without one it keeps nothing. */
  k: ({ name, words: [firstKept = name, summary = `Summary ${name}`] }) => ({
    type: "compaction",
    summary,
    firstKeptEntryId: firstKept,
    tokensBefore: 1_000,
  }),
  /** `s1(a5 "summary")`: the summary of the branch that ends in an entry; default: the leaf before. */
  s: ({ name, words: [fromId, summary = `Summary ${name}`] }, { leafId }) => ({
    type: "branch_summary",
    summary,
    fromId: fromId ?? leafId ?? "root",
  }),
  /** `e1(u2 "text")`: an edit; without a text it leaves the entry out. */
  e: ({ words: [targetId, content] }) => ({
    type: "context_edit",
    targetId,
    replacement: content === undefined ? null : { content },
  }),
  /** `l1(u2 "label")`: a label; without a text it is cleared. */
  l: ({ words: [targetId, label] }) => ({
    type: "label",
    targetId,
    ...(label === undefined ? {} : { label }),
  }),
  /** `n1("name")`: the session's name. */
  n: (sprout) => ({ type: "session_info", name: text(sprout) }),
  /** `m1(provider model)`: another model. */
  m: ({ words: [provider = "anthropic", modelId = "claude-test"] }) => ({
    type: "model_change",
    provider,
    modelId,
  }),
  /** `h1(high)`: another thinking level. */
  h: ({ words: [thinkingLevel = "high"] }) => ({ type: "thinking_level_change", thinkingLevel }),
  /** `x1(type "data")`: state of an extension. */
  x: ({ name, words: [customType = "test", data = name] }) => ({ type: "custom", customType, data }),
  /** `i1("text")`: a message that an extension put in. */
  i: (sprout) => ({ type: "custom_message", customType: "test", content: text(sprout), display: true }),
  /** `g1`: what a call was billed whose answer is no message. */
  g: () => ({ type: "usage", kind: "test", provider: "anthropic", model: "claude-test", usage: USAGE }),
  /** `z1`: an entry of a type that nobody knows. */
  z: ({ name }) => ({ type: "unheard_of", says: name }),
};
