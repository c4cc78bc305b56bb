import { EspalierError } from "@espalier/jsonl-stream";
import {
  anthropicFormat,
  buildRequest,
  type ContextMessage,
  heal,
  type SessionContext,
  type ToolDefinition,
} from "@espalier/session-tree";
import { chatProblems, checkAnthropicRequest, responsesProblems } from "@espalier/session-tree/testing";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  brokenHistory,
  contextOf,
  marksIn,
  model,
  readHistory,
  requestFormats,
} from "./request-histories.ts";

const RUNS = { numRuns: 1_000 };
const problemsOf = {
  anthropic: (request: unknown) => checkAnthropicRequest(request, { strict: true }),
  openai: chatProblems,
  "openai-responses": responsesProblems,
};
const names = ["anthropic", "openai", "openai-responses"] as const;

/** The request, or undefined where there is nothing to send. */
function requestOf(context: SessionContext, name: (typeof names)[number], tools?: ToolDefinition[]) {
  try {
    return buildRequest<object>(context, { format: requestFormats[name], tools });
  } catch (error) {
    if (error instanceof EspalierError && error.code === "empty-context") return undefined;
    throw error;
  }
}

/** The history with a user message before it, so that there is always something to send. */
const asked = (messages: unknown[]) => [{ role: "user", content: "⟦ask⟧" }, ...messages];

describe.each(names)("a request in the format %s", (name) => {
  it("follows every rule of the provider, for any damaged history", () => {
    fc.assert(
      fc.property(brokenHistory, (messages) => {
        const request = requestOf(contextOf(messages), name);
        expect(request === undefined ? [] : problemsOf[name](request)).toEqual([]);
      }),
      RUNS,
    );
  });

  it("contains each text of the context once, and no removed text", () => {
    fc.assert(
      fc.property(brokenHistory.map(asked), (messages) => {
        const { kept } = readHistory(messages);
        const saying = messages.flatMap((message, index) =>
          kept.has(index) ? marksIn(withoutThinking(message)) : [],
        );
        const sent = marksIn(withoutThinking(requestOf(contextOf(messages), name)));
        expect(sent.toSorted()).toEqual(saying.toSorted());
      }),
      RUNS,
    );
  });

  it("is the same each time, and does not change the context", () => {
    fc.assert(
      fc.property(brokenHistory.map(asked), (messages) => {
        const before = JSON.stringify(messages);
        const context = deepFreeze(contextOf(messages));
        expect(JSON.stringify(requestOf(context, name))).toBe(JSON.stringify(requestOf(context, name)));
        expect(JSON.stringify(messages)).toBe(before);
      }),
      RUNS,
    );
  });
});

it("thinking is sent byte-exact, to the same model only, after an unchanged beginning or in a running tool loop", () => {
  fc.assert(
    fc.property(
      brokenHistory.map(asked),
      fc.array(fc.boolean(), { minLength: 17, maxLength: 17 }),
      (messages, changed) => {
        const history = messages as (ContextMessage | null)[];
        const { overtaken } = readHistory(messages);
        const isRunning = endsInLoop(history);
        const request = buildRequest(contextOf(messages, changed), { format: anthropicFormat });
        const mayBeSent = history.flatMap((message, index) => {
          if (
            message?.role !== "assistant" ||
            !Array.isArray(message.content) ||
            (changed[index] && !isRunning) ||
            overtaken.has(index)
          )
            return [];
          if (
            message.provider !== model.provider ||
            message.model !== model.modelId ||
            /error|aborted/.test(message.stopReason)
          )
            return [];
          return message.content.filter((block) => block?.type === "thinking");
        });
        for (const sent of request.messages.flatMap((message) =>
          message.role === "assistant" ? message.content : [],
        )) {
          if (sent.type === "thinking") {
            expect(mayBeSent).toContainEqual(
              expect.objectContaining({ thinking: sent.thinking, thinkingSignature: sent.signature }),
            );
          } else if (sent.type === "redacted_thinking") {
            expect(mayBeSent).toContainEqual(
              expect.objectContaining({ redacted: true, thinkingSignature: sent.data }),
            );
          }
        }
      },
    ),
    RUNS,
  );
});

it("a signed thinking block before an answer's text is always sent if nothing before it changed", () => {
  const block = { type: "thinking", thinking: "why", thinkingSignature: "c2lnbmVk" };
  fc.assert(
    fc.property(brokenHistory, brokenHistory, (before, after) => {
      const thoughtful = {
        role: "assistant",
        provider: model.provider,
        model: model.modelId,
        stopReason: "stop",
        content: [block, { type: "text", text: "so" }],
      };
      const messages = [...before, thoughtful, ...after];
      fc.pre(!readHistory(messages).overtaken.has(before.length));
      const request = buildRequest(contextOf(messages), { format: anthropicFormat });
      expect(JSON.stringify(request)).toContain(
        '{"type":"thinking","thinking":"why","signature":"c2lnbmVk"},{"type":"text","text":"so"}',
      );
    }),
    RUNS,
  );
});

describe("a growing conversation", () => {
  it("keeps all messages but the last, unless a result comes late", () => {
    fc.assert(
      fc.property(brokenHistory.map(asked), (messages) => {
        const { late } = readHistory(messages);
        const options = { format: anthropicFormat, model };
        for (let length = 1; length < messages.length; length++) {
          if (late.has(length)) continue;
          const short = heal(contextOf(messages.slice(0, length)), options);
          const long = heal(contextOf(messages.slice(0, length + 1)), options);
          expect(long.slice(0, short.length - 1)).toEqual(short.slice(0, -1));
        }
      }),
      RUNS,
    );
  });

  it.each(names)("keeps the bytes of the request in the format %s, up to the last answer", (name) => {
    fc.assert(
      fc.property(brokenHistory.map(asked), (messages) => {
        const { late } = readHistory(messages);
        for (let length = 1; length < messages.length; length++) {
          if (late.has(length)) continue;
          const short = settled(requestOf(contextOf(messages.slice(0, length)), name));
          const long = JSON.stringify(
            listOf(requestOf(contextOf(messages.slice(0, length + 1)), name)).slice(0, short.length),
          );
          expect(long).toBe(JSON.stringify(short));
        }
      }),
      { numRuns: 300 },
    );
  });
});

it("the check finds a broken rule", () => {
  const strictProblems = (request: object) => checkAnthropicRequest(request, { strict: true });
  const user = { role: "user", content: [{ type: "text", text: "hi" }] };
  const call = { role: "assistant", content: [{ type: "tool_use", id: "a", name: "read", input: {} }] };
  const result = { role: "user", content: [{ type: "tool_result", tool_use_id: "a", content: [] }] };
  expect(strictProblems({ messages: [user, call, result] })).toEqual([]);
  expect(strictProblems({ messages: [user, call] })).not.toEqual([]);
  expect(strictProblems({ messages: [user, call, user] })).not.toEqual([]);
  expect(
    strictProblems({
      messages: [user, call, { role: "user", content: [...user.content, ...result.content] }],
    }),
  ).not.toEqual([]);
  expect(strictProblems({ messages: [user, call, result, call, result] })).not.toEqual([]);
  expect(strictProblems({ messages: [call, result] })).not.toEqual([]);
  expect(strictProblems({ messages: [user, user] })).not.toEqual([]);
  expect(
    strictProblems({ messages: [{ role: "user", content: [{ type: "text", text: "\ud800" }] }] }),
  ).not.toEqual([]);
});

type Items = { role?: string; type?: string; call_id?: string }[];

/** The conversation: a system prompt may change at any time. */
const listOf = (request: object | undefined): Items => {
  const { messages, input } = (request ?? {}) as { messages?: Items; input?: Items };
  return (messages ?? input ?? []).filter(({ role }) => role !== "system");
};

/** What cannot change any more: everything before the turn that the request ends with. */
function settled(request: object | undefined): Items {
  const items = listOf(request);
  const isAnswer = (item: Items[number] | undefined) =>
    item?.role === "assistant" || /^(reasoning|function_call)$/.test(item?.type ?? "");
  const ending = isAnswer(items.at(-1));
  let end = items.length;
  while (end > 0 && isAnswer(items[end - 1]) === ending) end--;
  return items.slice(0, end);
}

/** Whether the last answer calls tools: a loop runs. */
function endsInLoop(history: readonly (ContextMessage | null)[]): boolean {
  const last = history.findLast(
    (message) => message?.role === "assistant" && !/error|aborted/.test(message.stopReason),
  ) as { content?: unknown } | undefined;
  return Array.isArray(last?.content) && last.content.some((block) => block?.type === "toolCall");
}

/** Without thinking blocks, stored or sent. */
const withoutThinking = (value: unknown): unknown =>
  JSON.parse(JSON.stringify(value ?? null, (_, inner) => (/thinking$/.test(inner?.type) ? null : inner)));

function deepFreeze<Value>(value: Value): Value {
  if (typeof value === "object" && value !== null) {
    for (const inner of Object.values(value)) deepFreeze(inner);
    Object.freeze(value);
  }
  return value;
}
