// Approvals of the AI SDK, through the SDK itself: what it sends to a model is what a strict provider takes.
import { fromAiSdk, toAiSdk } from "@espalier/interop";
import { memoryStore, message, type SessionHeader, SessionTree } from "@espalier/session-tree";
import * as six from "ai";
import { MockLanguageModelV3 } from "ai/test";
import * as seven from "ai-7";
import { MockLanguageModelV4 } from "ai-7/test";
import { describe, expect, test } from "vitest";
import { z } from "zod";

type Part = Record<string, unknown>;
type Sent = { role: string; content: Part[] }[];

const usage = {
  inputTokens: { total: 1, noCache: 1, cacheRead: 0, cacheWrite: 0 },
  outputTokens: { total: 1, text: 1, reasoning: 0 },
};
const answering = {
  content: [{ type: "text" as const, text: "done" }],
  finishReason: { unified: "stop" as const, raw: "stop" },
  usage,
  warnings: [],
};
const described = { description: "removes a file", inputSchema: z.object({ path: z.string() }) };

/** Lets a version of the SDK go on with messages; says what its model was sent, and which files the tool removed. */
const sdks = {
  "ai 6": async (messages: six.ModelMessage[]) => {
    const removed: string[] = [];
    const model = new MockLanguageModelV3({ doGenerate: answering });
    const remove = six.tool({
      ...described,
      needsApproval: true,
      execute: async ({ path }) => removed.push(path) && `removed ${path}`,
    });
    const { response } = await six.generateText({ model, messages, tools: { remove } });
    return {
      removed,
      sent: model.doGenerateCalls[0]!.prompt as unknown as Sent,
      answered: response.messages,
    };
  },
  "ai 7": async (messages: six.ModelMessage[]) => {
    const removed: string[] = [];
    const model = new MockLanguageModelV4({ doGenerate: answering });
    const remove = seven.tool({
      ...described,
      needsApproval: true,
      execute: async ({ path }) => removed.push(path) && `removed ${path}`,
    });
    const given = messages as seven.ModelMessage[];
    const { response } = await seven.generateText({ model, messages: given, tools: { remove } });
    return {
      removed,
      sent: model.doGenerateCalls[0]!.prompt as unknown as Sent,
      answered: response.messages,
    };
  },
};

/** What a provider would refuse: calls without a result, or with more than one. */
function pairProblems(sent: Sent): string[] {
  const count = (type: string) => {
    const ids = sent.flatMap(({ content }) => (Array.isArray(content) ? content : []));
    return ids.flatMap((part) => (part["type"] === type ? [part["toolCallId"]] : []));
  };
  const results = count("tool-result");
  const problems = count("tool-call").flatMap((id) => {
    const given = results.filter((one) => one === id).length;
    return given === 1 ? [] : [`${id} has ${given} results`];
  });
  return sent.at(-1)?.role === "assistant" ? [...problems, "ends with an answer"] : problems;
}

const call = (toolCallId: string): Part => ({
  type: "tool-call",
  toolCallId,
  toolName: "remove",
  input: { path: `${toolCallId}.txt` },
});
const asks = (toolCallId: string): Part => ({
  type: "tool-approval-request",
  approvalId: `ask-${toolCallId}`,
  toolCallId,
});
const says = (toolCallId: string, approved: boolean): Part => ({
  type: "tool-approval-response",
  approvalId: `ask-${toolCallId}`,
  approved,
});
const gave = (toolCallId: string): Part => ({
  type: "tool-result",
  toolCallId,
  toolName: "remove",
  output: { type: "text", value: `removed ${toolCallId}.txt` },
});
const asked = { role: "user", content: [{ type: "text", text: "Clean up." }] };
const answer = (...content: Part[]) => ({ role: "assistant", content });
const tool = (...content: Part[]) => ({ role: "tool", content });

const model = { provider: "anthropic", modelId: "claude-test" };
const sentAs = (messages: object[], options: { model?: typeof model } = {}) =>
  toAiSdk(fromAiSdk(messages, options), { model }).messages as six.ModelMessage[];

describe.each(Object.entries(sdks))("%s", (_name, goOn) => {
  test.each([
    ["alone, approved", [answer(call("c1"), asks("c1")), tool(says("c1", true))], ["c1.txt"]],
    ["alone, denied", [answer(call("c1"), asks("c1")), tool(says("c1", false))], []],
    [
      "in parallel, one approved and one denied",
      [answer(call("c1"), call("c2"), asks("c1"), asks("c2")), tool(says("c1", true), says("c2", false))],
      ["c1.txt"],
    ],
    [
      "of the second of two calls whose ids differ in a number",
      [
        answer(call("call_1"), call("call_2"), asks("call_1"), asks("call_2")),
        tool(says("call_1", false), says("call_2", true)),
      ],
      ["call_2.txt"],
    ],
    [
      "beside a call that has its result",
      [answer(call("c1"), call("c2"), asks("c2")), tool(gave("c1")), tool(says("c2", true))],
      ["c2.txt"],
    ],
    [
      "beside a call that nobody ran",
      [answer(call("c1"), call("c2"), asks("c2")), tool(says("c2", true))],
      ["c2.txt"],
    ],
    ["after the tool ran", [answer(call("c1"), asks("c1")), tool(says("c1", true)), tool(gave("c1"))], []],
    [
      "with something said behind the approval",
      [answer(call("c1"), asks("c1")), tool(says("c1", true)), asked],
      [],
    ],
    ["of a call that is not in the conversation", [tool(says("c1", true))], []],
  ])("an approval %s: each call has one result, and runs once", async (_case, messages, runs) => {
    const { removed, sent } = await goOn(sentAs([asked, ...messages]));
    expect(pairProblems(sent)).toEqual([]);
    expect(removed).toEqual(runs);
  });

  test("an approval counts for any answering provider, also if its call's id is too long for it", async () => {
    const long = `call_${"x".repeat(60)}`;
    const messages = [asked, answer(call(long), asks(long)), tool(says(long, true))];
    for (const provider of ["anthropic", "openai"]) {
      const other = { model: { provider, modelId: "m" } };
      const { removed, sent } = await goOn(sentAs(messages, other));
      expect(pairProblems(sent)).toEqual([]);
      expect(removed).toEqual([`${long}.txt`]);
    }
  });

  test("the SDK's answer is written into the session, and the call does not run again", async () => {
    const first = [asked, answer(call("c1"), asks("c1")), tool(says("c1", true))];
    const { removed, answered } = await goOn(sentAs(first));
    expect(removed).toEqual(["c1.txt"]);
    const header = { type: "session", version: 3, id: "s1", timestamp: "2026-01-01T00:00:00.000Z", cwd: "/" };
    const tree = await SessionTree.open(await memoryStore().create(header as SessionHeader));
    for (const part of [first, answered])
      await tree.append(fromAiSdk(part).messages.map((each) => message.of({ message: each })));
    const context = toAiSdk(tree.context, { model }).messages as six.ModelMessage[];
    const again = await goOn([...context, { role: "user", content: "And now?" }]);
    expect(pairProblems(again.sent)).toEqual([]);
    expect(again.removed).toEqual([]);
  });
});

test("a result keeps the name of its tool, even if its call is not among the messages", () => {
  const { messages } = fromAiSdk([tool(gave("c1"))]);
  expect(messages).toMatchObject([{ role: "toolResult", toolCallId: "c1", toolName: "remove" }]);
});

test("approvals are converted and back unchanged", () => {
  const messages = [
    asked,
    answer(call("c1"), asks("c1")),
    tool(says("c1", true)),
    tool(gave("c1")),
    answer({ type: "text", text: "Gone." }, call("c2"), asks("c2")),
    tool(says("c2", false)),
  ];
  expect(sentAs(messages)).toEqual(messages);
});

test("an approval without its call leaves a valid request: the user begins, and roles alternate", () => {
  const said = (text: string) => answer({ type: "text", text });
  const roles = (messages: object[]) => sentAs(messages).map(({ role }) => role);
  expect(roles([tool(says("c1", true)), said("Gone.")])).toEqual(["user", "assistant"]);
  expect(roles([asked, said("Gone."), tool(says("c1", true)), said("And more.")])).toEqual([
    "user",
    "assistant",
  ]);
});
