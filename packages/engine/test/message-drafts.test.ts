import { createSession, type MessageDraft, type Session } from "@espalier/engine";
import { fromAiSdk, fromAnthropic, fromOpenaiChat, fromOpenaiResponses } from "@espalier/interop";
import { EspalierError } from "@espalier/jsonl-stream";
import {
  type AssistantMessage,
  anthropicFormat,
  buildRequest,
  memoryStore,
  type StoredMessage,
  type ToolDefinition,
  type UserMessage,
} from "@espalier/session-tree";
import { describe, expect, test } from "vitest";
import { z } from "zod";

const begun = () => createSession({ store: memoryStore() });

/** The sentence with which an append is refused; it must leave the log as it was. */
async function refusal(session: Session, draft: unknown): Promise<string> {
  const before = session.getEntries().length;
  const error = await session.appendMessages([draft as MessageDraft]).then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  expect(error).toBeInstanceOf(EspalierError);
  expect(error).toMatchObject({ code: "bad-input" });
  expect(session.getEntries()).toHaveLength(before);
  return (error as EspalierError).message;
}

describe("a prompt without content is refused when it is appended", () => {
  test.each([
    { role: "user", content: "" },
    { role: "user", content: " \n\t" },
    { role: "user", content: [] },
    { role: "user", content: [{ type: "text", text: " " }] },
    { role: "user" },
  ])("%j", async (draft) => {
    expect(await refusal(await begun(), draft)).toContain("blank");
  });

  test("a prompt with only an image is accepted", async () => {
    const session = await begun();
    const picture = { type: "image", data: "iVBORw0KGgo=", mimeType: "image/png" } as const;
    await session.appendMessages([{ role: "user", content: [picture] }]);
    expect(session.context.messages).toHaveLength(1);
  });
});

describe("a message that no model would read as intended is refused when it is appended", () => {
  test.each([
    [{ role: "assistant", content: [{ type: "tool_use", id: "a", name: "b", input: {} }] }, "fromAnthropic"],
    [{ role: "assistant", content: [{ type: "redacted_thinking", data: "x" }] }, "redacted_thinking"],
    [
      { role: "assistant", content: [{ type: "thinking", thinking: "x", signature: "s" }] },
      "thinkingSignature",
    ],
    [{ role: "assistant", content: [{ type: "tool-call", toolCallId: "a" }] }, "fromAiSdk"],
    [{ role: "assistant", content: null, tool_calls: [] }, "tool_calls"],
    [{ role: "user", content: [{ type: "image", source: { type: "base64", data: "x" } }] }, "source"],
    [{ role: "user", content: [{ type: "image_url", image_url: { url: "x" } }] }, "fromOpenaiChat"],
    [{ role: "user", content: [{ type: "tool_result", tool_use_id: "a", content: "b" }] }, "tool_result"],
    [{ role: "user", content: [{ type: "input_text", text: "a" }] }, "fromOpenaiResponses"],
    [{ role: "tool", content: "a", tool_call_id: "b" }, "fromOpenaiChat"],
    [{ role: "developer", content: "a" }, "developer"],
    [{ role: "compactionSummary", summary: "a" }, "compactionSummary"],
    [{ content: "a" }, "role"],
    [{ role: "user", contents: "a" }, "content"],
    [{ role: "user", contnet: "a" }, "content"],
    [{ role: "toolResult", tool_call_id: "a", content: "b" }, "toolCallId"],
    [{ role: "toolResult", toolCallId: "a", content: "b", is_error: true }, "isError"],
    [{ role: "assistant", content: [{ type: "toolCall", id: "a", name: "b", args: {} }] }, "arguments"],
    [{ role: "assistant", content: [{ type: "text", content: "a" }] }, "text"],
    [{ role: "user", content: [{ type: "text" }] }, "text"],
    [{ role: "user", content: ["hello"] }, "type"],
    [{ role: "user", content: { type: "text", text: "a" } }, "content"],
  ])("%j", async (draft, named) => {
    expect(await refusal(await begun(), draft)).toContain(named);
  });
});

test("messages that are no list are refused when they are appended", async () => {
  const session = await begun();
  const before = session.getEntries().length;
  for (const given of [{ role: "user", content: "a" }, "a", null, undefined])
    await expect(session.appendMessages(given as never)).rejects.toMatchObject({
      code: "bad-input",
      message: "appendMessages expects a list of messages: appendMessages([message]).",
    });
  expect(session.getEntries()).toHaveLength(before);
});

test("an id that is no text is no entry's id, for every operation", async () => {
  const session = await begun();
  for (const id of [undefined, null, 5, {}] as unknown as string[]) {
    expect(session.getEntry(id)).toBeUndefined();
    const operations = [
      () => session.hide(id),
      () => session.label(id, "x"),
      () => session.pin(id),
      () => session.fork(id),
      ...(id === null ? [] : [() => session.navigate(id)]),
    ];
    for (const operation of operations)
      await expect(operation()).rejects.toMatchObject({
        code: "unknown-entry",
        message: expect.stringMatching(
          /^There is no entry .+ in this session\. `espalier tree` lists all ids\.$/,
        ),
      });
  }
});

test("the library's own messages are accepted, also by the compiler", async () => {
  const session = await begun();
  const asked: UserMessage = { role: "user", content: "Look.", timestamp: 1 };
  const answered: AssistantMessage = {
    role: "assistant",
    content: [{ type: "toolCall", id: "c1", name: "look", arguments: {} }],
    provider: "anthropic",
    model: "claude",
    stopReason: "toolUse",
    timestamp: 2,
  };
  const stored: StoredMessage[] = [asked, answered];
  await session.appendMessages(stored);
  const image = { type: "image" as const, data: "iVBORw0KGgo=", mimeType: "image/png" };
  for (const { messages } of [
    fromAnthropic([{ role: "user", content: [{ type: "document", source: { type: "text", data: "a" } }] }]),
    fromOpenaiChat([{ role: "assistant", refusal: "No.", content: null }]),
    fromOpenaiResponses([{ type: "web_search_call", id: "w", status: "completed" }]),
    fromAiSdk([{ role: "user", content: [{ type: "image", image: "https://example.com/a.png" }] }]),
  ])
    await session.appendMessages(messages);
  await session.appendMessages([{ role: "custom", customType: "note", content: [image], display: true }]);
  expect(session.context.messages).toHaveLength(7);
  await session.appendMessages(session.context.messages as StoredMessage[]);
  expect(session.context.messages).toHaveLength(14);
});

test("a message keeps the fields it has, and gets those it lacks", async () => {
  const session = await begun();
  const usage = { input: 1, output: 2, cacheRead: 3, cacheWrite: 4, totalTokens: 10 };
  const whole = {
    role: "assistant",
    content: [{ type: "text", text: "Hi." }],
    api: "test",
    provider: "acme",
    model: "one",
    usage,
    stopReason: "length",
    timestamp: 7,
  } as const;
  const called = (id: string, name: string) => ({ type: "toolCall", id, name, arguments: {} });
  await session.appendMessages([whole]);
  await session.appendMessages([
    { role: "assistant", content: [called("c0", "dig"), called("c1", "look"), called("c2", "dig")] },
    { role: "toolResult", toolCallId: "c1", content: "a mole" },
    { role: "toolResult", toolCallId: "c2", content: "nothing", toolName: "dig", isError: true },
    { role: "assistant", content: "A mole." },
  ]);
  const model = { api: "unknown", provider: "acme", model: "one", timestamp: expect.any(Number) };
  expect(session.context.messages).toMatchObject([
    whole,
    { ...model, stopReason: "toolUse", usage: { totalTokens: 0 } },
    { toolName: "look", isError: false, content: [{ type: "text", text: "a mole" }] },
    { toolName: "dig", isError: true },
    { ...model, stopReason: "stop" },
  ]);
});

test("an interrupted call of Pi is accepted as Pi wrote it", async () => {
  const session = await begun();
  const call = { type: "toolCall", id: "c1", name: "edit", arguments: {}, partialJson: '{"path": "a' };
  const broken = { role: "assistant", content: [call], stopReason: "aborted" } as unknown as StoredMessage;
  await session.appendMessages([broken]);
  expect(session.context.messages.at(-1)).toMatchObject({ content: [call] });
});

describe("a tool whose schema would be sent empty is refused by name", () => {
  const schema = { type: "object", properties: { path: { type: "string" } } };
  test.each([
    [{ name: "read", input_schema: schema }, "input_schema"],
    [{ name: "read", inputSchema: schema }, "inputSchema"],
    [{ type: "function", function: { name: "read", parameters: schema } }, "function"],
    [{ name: "read", parameters: { path: { type: "string" } } }, "parameters"],
    [{ name: "read", parameters: { type: "string" } }, "parameters"],
    [{ name: "read", parameters: z.object({ path: z.string() }) }, "z.toJSONSchema"],
  ])("%j", async (given, named) => {
    const tools = [given] as unknown as ToolDefinition[];
    const session = await begun();
    await session.appendMessages([{ role: "user", content: "Read." }]);
    await expect(session.prepareRequest({ tools })).rejects.toMatchObject({
      code: "bad-tool",
      message: expect.stringContaining(named),
    });
    expect(() => buildRequest(session.context, { format: anthropicFormat, tools })).toThrow(named);
  });

  test("a tool without arguments is accepted, and the compiler refuses a tool in Anthropic's shape", async () => {
    const session = await begun();
    await session.appendMessages([{ role: "user", content: "When?" }]);
    const tools: ToolDefinition[] = [{ name: "now" }, { name: "then", parameters: { type: "object" } }];
    // @ts-expect-error its schema has another name
    tools.concat({ name: "read", input_schema: schema });
    await session.prepareRequest({ tools });
    expect(buildRequest(session.context, { format: anthropicFormat, tools }).tools).toHaveLength(2);
  });
});
