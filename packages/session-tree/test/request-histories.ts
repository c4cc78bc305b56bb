import {
  anthropicFormat,
  type ContextMessage,
  estimateTotal,
  isFailedAnswer,
  openaiChatFormat,
  openaiResponsesFormat,
  type SessionContext,
  toolCalls,
} from "@espalier/session-tree";
import fc from "fast-check";

/** All formats, by their names on the command line. */
export const requestFormats = {
  anthropic: anthropicFormat,
  openai: openaiChatFormat,
  "openai-responses": openaiResponsesFormat,
} as const;

export const model = { provider: "anthropic", modelId: "claude-test" };

/** A context of these messages, as if nothing before any of them had changed. */
export function contextOf(
  messages: unknown[],
  prefixChanged: boolean[] = messages.map(() => false),
): SessionContext {
  return {
    messages: messages as ContextMessage[],
    sources: messages.map((_, index) => `entry${index}`),
    prefixChanged,
    tokens: estimateTotal(messages.filter((message) => message !== null) as ContextMessage[]),
    model,
    thinkingLevel: "off",
  };
}

/** A place in a text that becomes a number found nowhere else in the history: `⟦17⟧`. */
const MARK = "§";
export const marksIn = (value: unknown): string[] => JSON.stringify(value).match(/⟦\d+⟧/g) ?? [];

const around = fc.constantFrom(
  "",
  "plain",
  " ",
  "\n\n",
  "\ud99c",
  "\udfff \ud800",
  "😀",
  "</summary>",
  "<SUMMARY>",
  "\\ud800",
  "\u2028\u0000",
);
const said = fc.tuple(around, around).map(([before, after]) => before + MARK + after);
const text = fc.oneof(
  { weight: 4, arbitrary: said },
  { weight: 1, arbitrary: fc.constantFrom("", " \n\t", "\x1f\x85") },
);
const textBlock = fc.record({ type: fc.constant("text"), text });
const imageBlock = fc.record({
  type: fc.constant("image"),
  data: fc.constantFrom("iVBORw0KGgoAAAA=", "/9j/4AAQ", "AAAA", "", "no base64!", null),
  mimeType: fc.constantFrom("image/png", "image/jpeg", "image/bmp", "text/html\nx", undefined),
});
const garbageBlock = fc.constantFrom<unknown>(
  null,
  7,
  "bare",
  {},
  { type: "text" },
  { type: "text", text: 5 },
  { type: "video" },
  { type: 3 },
  { type: "we ird" },
);
const userContent = fc.oneof(
  { weight: 3, arbitrary: text },
  {
    weight: 3,
    arbitrary: fc.array(fc.oneof({ weight: 4, arbitrary: textBlock }, imageBlock, garbageBlock), {
      maxLength: 3,
      size: "max",
    }),
  },
  { weight: 1, arbitrary: fc.constantFrom<unknown>(null, undefined, 5, { type: "text", text: "x" }) },
);
const callId = fc.oneof(
  { weight: 6, arbitrary: fc.constantFrom("a", "b", "c") },
  {
    weight: 2,
    arbitrary: fc.constantFrom<unknown>(
      "a_2",
      "a|b",
      "a/b",
      "",
      "x".repeat(70),
      "x".repeat(71),
      undefined,
      9,
    ),
  },
);
const call = fc.record({
  type: fc.constant("toolCall"),
  id: callId,
  name: fc.constantFrom<unknown>("read", "read", "fs.read", "", "n".repeat(150), undefined),
  arguments: fc.constantFrom<unknown>(
    {},
    { path: "a.ts" },
    { "k\ud800": ["\udc00", "\\ud800"] },
    "text",
    [1],
    null,
    undefined,
  ),
});
const thinking = fc.record({
  type: fc.constant("thinking"),
  thinking: fc.constantFrom<unknown>(`deep ${MARK}`, "", "lone \ud800", undefined),
  thinkingSignature: fc.oneof(
    { weight: 6, arbitrary: fc.constant(`c2ln${MARK}`) },
    { weight: 1, arbitrary: fc.constantFrom<unknown>("", " ", undefined, "\udc00") },
  ),
  redacted: fc.constantFrom(false, undefined, true),
});
const answer = fc.record({
  role: fc.constant("assistant"),
  content: fc.oneof(
    {
      weight: 8,
      arbitrary: fc.array(
        fc.oneof(textBlock, thinking, { weight: 2, arbitrary: call }, { weight: 1, arbitrary: garbageBlock }),
        { maxLength: 5, size: "max" },
      ),
    },
    { weight: 1, arbitrary: fc.oneof(text, fc.constantFrom<unknown>(null, undefined, {})) },
  ),
  provider: fc.constantFrom<unknown>("anthropic", "anthropic", "anthropic", "anthropic", "openai", undefined),
  model: fc.constantFrom("claude-test", "claude-test", "claude-test", "other"),
  stopReason: fc.constantFrom(
    "stop",
    "stop",
    "toolUse",
    "toolUse",
    "toolUse",
    "toolUse",
    "length",
    "error",
    "aborted",
  ),
});
const result = fc.record({
  role: fc.constant("toolResult"),
  toolCallId: callId,
  content: userContent,
  isError: fc.constantFrom<unknown>(true, false, undefined),
});
const other = fc.oneof(
  fc.record({ role: fc.constant("custom"), customType: fc.constant("x"), content: userContent }),
  fc.record({
    role: fc.constant("bashExecution"),
    command: fc.oneof(said, fc.constant(undefined)),
    output: fc.oneof(text, fc.constant({ toString: 1 })),
    exitCode: fc.constantFrom(0, 1, null),
    excludeFromContext: fc.constantFrom(true, false, undefined),
  }),
  fc.record({ role: fc.constant("compactionSummary"), summary: fc.oneof(said, fc.constant(undefined)) }),
  fc.record({ role: fc.constant("branchSummary"), summary: said }),
  fc.record({
    role: fc.constant("system"),
    content: text,
    sections: fc.constantFrom<unknown>(undefined, { a: "A" }, { a: null }),
    toolsAdded: fc.constantFrom<unknown>(undefined, 5, [
      null,
      { name: "read" },
      { name: "fs.read" },
      { name: "fs_read" },
    ]),
  }),
  fc.constantFrom<unknown>({}, { role: "martian", content: "?" }, null, 3),
);

/** Histories as broken as files get: results that are missing, doubled, late or nobody's, failed answers, odd content. */
export const brokenHistory: fc.Arbitrary<unknown[]> = fc
  .array(
    fc.oneof(
      { weight: 3, arbitrary: fc.record({ role: fc.constant("user"), content: userContent }) },
      { weight: 5, arbitrary: answer },
      { weight: 5, arbitrary: result },
      { weight: 2, arbitrary: other },
    ),
    { maxLength: 16, size: "max" },
  )
  .map((messages) => {
    let number = 0;
    return JSON.parse(JSON.stringify(messages).replaceAll(MARK, () => `⟦${number++}⟧`));
  });

/** What a careful reader says of a history, by looking back from each result: slow, simple, and not how it is built. */
export function readHistory(messages: unknown[]): {
  kept: Set<number>;
  late: Set<number>;
  overtaken: Set<number>;
} {
  const history = messages as (ContextMessage | null)[];
  const taken = new Set<object>();
  const kept = new Set<number>();
  const late = new Set<number>();
  const overtaken = new Set<number>();
  const idOf = (id: unknown) => (typeof id === "string" ? id : "");
  history.forEach((message, index) => {
    if (message?.role === "assistant") {
      if (!isFailedAnswer(message)) kept.add(index);
    } else if (message?.role !== "toolResult") {
      if (!(message?.role === "bashExecution" && message.excludeFromContext)) kept.add(index);
    } else {
      for (let before = index - 1; before >= 0; before--) {
        const asking = history[before];
        if (!asking) continue;
        const call = toolCalls(asking).find(
          (candidate) => idOf(candidate.id) === idOf(message.toolCallId) && !taken.has(candidate),
        );
        if (!call) continue;
        taken.add(call);
        if (isFailedAnswer(asking)) return;
        kept.add(index);
        for (let between = before + 1; between < index; between++) {
          const answered = history[between];
          if (answered?.role !== "assistant" || isFailedAnswer(answered)) continue;
          late.add(index);
          overtaken.add(between);
        }
        return;
      }
    }
  });
  return { kept, late, overtaken };
}
