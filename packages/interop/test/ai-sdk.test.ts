import { aiSdkFormat, fromAiSdk, toAiSdk, toAnthropic } from "@espalier/interop";
import { formatLine } from "@espalier/jsonl-stream";
import { buildRequest, type ContextMessage } from "@espalier/session-tree";
import { generateText, jsonSchema, type ModelMessage, modelMessageSchema } from "ai";
import { MockLanguageModelV3 } from "ai/test";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { aiSdkMessages } from "./ai-sdk-histories.ts";
import { brokenHistory, contextOf } from "./broken-history.ts";
import { damaged, PNG, written } from "./format-histories.ts";

const model = { provider: "anthropic", modelId: "claude-test" };

/** Every type of part, as a client that streams from Claude has them. */
const everything = [
  {
    role: "user",
    content: [
      { type: "text", text: "Look:" },
      { type: "image", image: PNG, mediaType: "image/png" },
      { type: "image", image: new URL("https://example.com/a.png") },
      { type: "file", data: "JVBERi0=", mediaType: "application/pdf", filename: "a.pdf" },
    ],
  },
  {
    role: "assistant",
    content: [
      { type: "reasoning", text: "Let me see.", providerOptions: { anthropic: { signature: "c2ln" } } },
      { type: "reasoning", text: "", providerOptions: { anthropic: { redactedData: "b3BhcXVl" } } },
      { type: "tool-call", toolCallId: "srv_1", toolName: "web_search", input: {}, providerExecuted: true },
      {
        type: "tool-result",
        toolCallId: "srv_1",
        toolName: "web_search",
        output: { type: "json", value: [] },
      },
      { type: "text", text: "I read." },
      { type: "file", data: "UklGRg==", mediaType: "audio/wav" },
      { type: "tool-call", toolCallId: "call_1", toolName: "read", input: { path: "a.ts" } },
      { type: "tool-call", toolCallId: "call_2", toolName: "look", input: {} },
      {
        type: "tool-call",
        toolCallId: "call_3",
        toolName: "fail",
        input: {},
        providerOptions: { x: { y: 1 } },
      },
      { type: "tool-call", toolCallId: "call_4", toolName: "ask", input: {} },
    ],
  },
  {
    role: "tool",
    content: [
      {
        type: "tool-result",
        toolCallId: "call_1",
        toolName: "read",
        output: { type: "json", value: { lines: [1] } },
      },
      {
        type: "tool-result",
        toolCallId: "call_2",
        toolName: "look",
        output: {
          type: "content",
          value: [
            { type: "text", text: "Here:" },
            { type: "image-data", data: PNG, mediaType: "image/png" },
          ],
        },
      },
      {
        type: "tool-result",
        toolCallId: "call_3",
        toolName: "fail",
        output: { type: "error-text", value: "no" },
      },
      { type: "tool-result", toolCallId: "call_4", toolName: "ask", output: { type: "execution-denied" } },
    ],
  },
  { role: "assistant", content: [{ type: "text", text: "Done." }] },
] satisfies ModelMessage[];

/** Sends messages through the SDK to a model that answers at once. Throws where the SDK refuses them. */
async function sendThroughSdk(messages: ModelMessage[]): Promise<void> {
  const answering = new MockLanguageModelV3({
    supportedUrls: { "*/*": [/^https:/] }, // the SDK would else fetch what stands at an address
    doGenerate: {
      content: [{ type: "text", text: "ok" }],
      finishReason: { unified: "stop", raw: "stop" },
      usage: {
        inputTokens: { total: 1, noCache: 1, cacheRead: 0, cacheWrite: 0 },
        outputTokens: { total: 1, text: 1, reasoning: 0 },
      },
      warnings: [],
    },
  });
  await generateText({ model: answering, messages });
  expect(answering.doGenerateCalls).toHaveLength(1);
}

describe("a conversation of the AI SDK", () => {
  it("is restored with every type of part, addresses as text", () => {
    const imported = fromAiSdk({ system: "Be brief.", messages: everything }, { model });
    const expected = structuredClone(everything.slice(1)) as unknown[];
    expect(toAiSdk(imported)).toEqual({
      system: "Be brief.",
      messages: [
        {
          role: "user",
          content: everything[0]!.content.map((part) =>
            "image" in part && part.image instanceof URL ? { ...part, image: part.image.href } : part,
          ),
        },
        ...expected,
      ],
    });
  });

  it("has bytes as base64 in the normal form", () => {
    const bytes = Uint8Array.from([137, 80, 78, 71, 13, 10, 26, 10]);
    const { messages } = toAiSdk(fromAiSdk([{ role: "user", content: [{ type: "image", image: bytes }] }]));
    expect(messages).toEqual([
      { role: "user", content: [{ type: "image", image: "iVBORw0KGgo=", mediaType: "image/png" }] },
    ]);
  });

  it("reads an image that is a file, also as an object that names its kind", () => {
    const url = "https://example.com/a.png";
    const forms = [PNG, { type: "data", data: PNG }, url, { type: "url", url }];
    const content = forms.map((data) => ({ type: "file", mediaType: "image/png", data }));
    const { messages, issues } = fromAiSdk([{ role: "user", content }]);
    const image = { type: "image", mimeType: "image/png", data: PNG };
    expect(messages).toMatchObject([
      { content: [image, image, { type: "imageUrl", url }, { type: "imageUrl", url }] },
    ]);
    expect(issues).toEqual([]);
  });

  it("keeps an image at an address that only the SDK can read, and sends no other provider its address", () => {
    const content = ["file:///a.png", "gs://bucket/a.png", "data:image/svg+xml,<svg/>"].map((image) => ({
      type: "image",
      image,
      mediaType: "image/png",
    }));
    const imported = fromAiSdk([{ role: "user", content: [{ type: "text", text: "Look:" }, ...content] }]);
    expect(imported.issues).toMatchObject([{ kind: "opaque", field: "image", count: 3 }]);
    expect(toAiSdk(imported).messages).toMatchObject([{ content: [{ text: "Look:" }, ...content] }]);
    expect(JSON.stringify(toAnthropic(imported))).not.toMatch(/a\.png|svg/);
  });

  it("keeps an image in a result like one of a user: the bytes of a data address, and only the SDK's own address", () => {
    const call = { type: "tool-call", toolCallId: "c1", toolName: "look", input: {} };
    const value = [
      { type: "text", text: "Here:" },
      { type: "image-url", url: `data:image/png;base64,${PNG}` },
      { type: "image-url", url: "file:///a.png" },
    ];
    const output = { type: "content", value };
    const imported = fromAiSdk([
      { role: "user", content: [{ type: "text", text: "Look." }] },
      { role: "assistant", content: [call] },
      { role: "tool", content: [{ type: "tool-result", toolCallId: "c1", toolName: "look", output }] },
    ] as unknown as ModelMessage[]);
    expect(imported.issues).toMatchObject([{ kind: "opaque", field: "image-url" }]);
    const [, , result] = toAiSdk(imported).messages;
    expect(result!.content[0]).toMatchObject({
      output: { value: [value[0], { type: "image-data", data: PNG, mediaType: "image/png" }, value[2]] },
    });
    expect(JSON.stringify(toAnthropic(imported))).not.toMatch(/"url"|a\.png/);
  });

  it("has the paragraphs of OpenAI's reasoning as one block, and restores them separately", () => {
    const openai = { itemId: "rs_1", reasoningEncryptedContent: "ZW5j" };
    const messages: ModelMessage[] = [
      { role: "user", content: [{ type: "text", text: "Why?" }] },
      {
        role: "assistant",
        content: [
          { type: "reasoning", text: "First.", providerOptions: { openai } },
          { type: "reasoning", text: "Second.", providerOptions: { openai } },
          { type: "text", text: "So." },
        ],
      },
    ];
    const imported = fromAiSdk(messages);
    expect(imported.messages[1]).toMatchObject({
      provider: "openai",
      content: [{ type: "thinking", thinking: "First.\n\nSecond." }, { type: "text" }],
    });
    expect(toAiSdk(imported).messages).toEqual(messages);
  });

  it("gives an answer with another provider's reasoning to that provider", () => {
    const imported = fromAiSdk(everything, { model: { provider: "openai", modelId: "gpt-test" } });
    expect(imported.messages[1]).toMatchObject({ provider: "anthropic", api: "anthropic-messages" });
    expect(JSON.stringify(toAiSdk(imported))).not.toContain("c2ln");
  });

  it("can have the SDK's own types", async () => {
    const { messages } = toAiSdk(fromAiSdk(everything, { model }));
    await sendThroughSdk(messages);
  });

  it("has tools whose schema the SDK reads", () => {
    const tools = [{ name: "read", description: "Reads", inputSchema: { type: "object", properties: {} } }];
    const request = toAiSdk(fromAiSdk({ messages: everything, tools }));
    expect(request.tools).toEqual(tools);
    expect(jsonSchema(request.tools![0]!.inputSchema).jsonSchema).toEqual(tools[0]!.inputSchema);
  });
});

describe("any conversation of the AI SDK", () => {
  it("is restored unchanged", () => {
    fc.assert(
      fc.property(aiSdkMessages, (messages) => {
        const imported = fromAiSdk(messages, { model });
        expect(toAiSdk(imported).messages).toEqual(messages);
        expect(imported.issues.filter(({ kind }) => kind !== "opaque")).toEqual([]);
      }),
    );
  });

  it("loses a text part without a text, also from a tool message, and reports it", () => {
    const call = { type: "tool-call", toolCallId: "c1", toolName: "read", input: {} };
    const result = {
      type: "tool-result",
      toolCallId: "c1",
      toolName: "read",
      output: { type: "text", value: "a" },
    };
    const { messages, issues } = fromAiSdk([
      { role: "user", content: "Read it." },
      { role: "assistant", content: [call] },
      { role: "tool", content: [result, { type: "text" }] },
    ] as unknown as ModelMessage[]);
    expect(messages.map(({ role }) => role)).toEqual(["user", "assistant", "toolResult"]);
    expect(issues).toMatchObject([{ kind: "malformed", path: "messages[2].content[1]" }]);
  });

  it("loses an image in a result without an address, and reports it", () => {
    const call = { type: "tool-call", toolCallId: "c1", toolName: "look", input: {} };
    const value = [{ type: "image-url", url: "" }];
    const output = { type: "content", value };
    const result = { type: "tool-result", toolCallId: "c1", toolName: "look", output };
    const { messages, issues } = fromAiSdk([
      { role: "user", content: "Look." },
      { role: "assistant", content: [call] },
      { role: "tool", content: [result] },
    ] as unknown as ModelMessage[]);
    expect(messages[2]).toMatchObject({ role: "toolResult", content: [] });
    expect(issues).toMatchObject([{ kind: "malformed" }]);
  });

  it("never throws for damaged input, can be written, and is in its normal form after one conversion", () => {
    fc.assert(
      fc.property(aiSdkMessages.chain(damaged), (input) => {
        const imported = fromAiSdk(input);
        for (const message of imported.messages) formatLine(message);
        const once = written(() => toAiSdk(imported));
        if (once) expect(written(() => toAiSdk(fromAiSdk(once)))).toEqual(once);
      }),
      { numRuns: 100 },
    );
  });
});

describe("messages for the AI SDK", () => {
  it("are valid for the SDK, for any damaged history", async () => {
    await fc.assert(
      fc.asyncProperty(brokenHistory, async (messages) => {
        const request = written(() => buildRequest(contextOf(messages, model), { format: aiSdkFormat }));
        if (!request) return;
        for (const message of request.messages) modelMessageSchema.parse(message);
        // A lone surrogate is what JSON escapes as \ud8xx to \udfxx; a backslash of the text comes doubled.
        expect(JSON.stringify(request).replaceAll("\\\\", "")).not.toContain("\\ud");
        await sendThroughSdk(request.messages);
      }),
      { numRuns: 100 },
    );
  });

  it("begin with the user, and each call is answered directly by messages of the role `tool`", () => {
    fc.assert(
      fc.property(brokenHistory, (messages) => {
        const request = written(() => buildRequest(contextOf(messages, model), { format: aiSdkFormat }));
        expect(pairProblems(request?.messages ?? [{ role: "user" }])).toEqual([]);
      }),
      { numRuns: 300 },
    );
  });
});

interface AnyMessage {
  role: string;
  content?: { type: string; toolCallId?: string }[];
}

/** What breaks the order of calls and results, in words. */
function pairProblems(messages: readonly object[]): string[] {
  const problems: string[] = [];
  let owed: unknown[] = [];
  const seen = new Set<unknown>();
  if ((messages[0] as AnyMessage).role !== "user") problems.push("does not begin with the user");
  for (const message of messages as AnyMessage[]) {
    const ids = (message.content ?? []).flatMap(({ toolCallId }) =>
      toolCallId === undefined ? [] : [toolCallId],
    );
    if (message.role === "tool") {
      if (JSON.stringify(ids) !== JSON.stringify(owed)) problems.push(`results ${ids} for calls ${owed}`);
      owed = [];
    } else if (owed.length > 0) problems.push(`no results for ${owed}`);
    if (message.role !== "assistant") continue;
    owed = ids;
    for (const id of ids) if (seen.has(id)) problems.push(`two calls ${id}`);
    for (const id of ids) seen.add(id);
  }
  if (owed.length > 0) problems.push(`no results for ${owed} at the end`);
  return problems;
}

it("keep the reasoning of a model without signatures for that model", () => {
  const messages: ContextMessage[] = [
    { role: "user", content: "Why?", timestamp: 0 },
    {
      role: "assistant",
      content: [
        { type: "thinking", thinking: "Because." },
        { type: "text", text: "So." },
      ],
      provider: "deepseek",
      model: "r1",
      stopReason: "stop",
      timestamp: 0,
    },
  ];
  const said = (target?: { provider: string; modelId: string }) =>
    JSON.stringify(toAiSdk(messages, target ? { model: target } : {}));
  expect(said()).toContain('{"type":"reasoning","text":"Because."}');
  expect(said(model)).not.toContain("Because.");
});
