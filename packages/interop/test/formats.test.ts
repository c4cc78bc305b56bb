import {
  fromAiSdk,
  fromAnthropic,
  fromOpenaiChat,
  fromOpenaiResponses,
  nativeFormats,
  toAiSdk,
  toAnthropic,
  toOpenaiChat,
  toOpenaiResponses,
} from "@espalier/interop";
import {
  anthropicFormat,
  buildRequest,
  memoryStore,
  message,
  openaiChatFormat,
  openaiResponsesFormat,
  type RequestFormat,
  SessionTree,
  type StoredMessage,
} from "@espalier/session-tree";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { anthropicMessages } from "./anthropic-histories.ts";
import { brokenHistory, contextOf } from "./broken-history.ts";
import { input, mostOf, PNG, rounds, text, written } from "./format-histories.ts";
import { responsesInput } from "./openai-histories.ts";

type Block = Record<string, unknown>;

const formats = {
  anthropic: { from: fromAnthropic, to: toAnthropic, provider: "anthropic", api: "anthropic-messages" },
  "openai-chat": { from: fromOpenaiChat, to: toOpenaiChat, provider: "openai", api: "openai-completions" },
  "openai-responses": {
    from: fromOpenaiResponses,
    to: toOpenaiResponses,
    provider: "openai",
    api: "openai-responses",
  },
  "ai-sdk": { from: fromAiSdk, to: toAiSdk, provider: "anthropic", api: "anthropic-messages" },
} as const;
type Name = keyof typeof formats;
const names = Object.keys(formats) as Name[];

const plain: fc.Arbitrary<Block> = text.map((said) => ({ type: "text", text: said }));
const picture = fc.constant<Block>({ type: "image", data: PNG, mimeType: "image/png" });
const remote: fc.Arbitrary<Block> = fc.webUrl().map((url) => ({ type: "imageUrl", url }));

/** Reasoning as the provider of a format signs it; none where the format has no place for it. */
const thoughts: Record<Name, fc.Arbitrary<Block[]>> = {
  anthropic: mostOf(text.map((signed) => ({ type: "thinking", thinking: "Hm", thinkingSignature: signed }))),
  "openai-chat": fc.constant([]),
  "openai-responses": mostOf(
    text.map((encrypted_content) => ({
      type: "thinking",
      thinking: "Hm",
      thinkingSignature: JSON.stringify({
        type: "reasoning",
        id: "rs_1",
        summary: [{ type: "summary_text", text: "Hm" }],
        encrypted_content,
      }),
    })),
  ),
  "ai-sdk": mostOf(
    text.map((signed) => ({ type: "thinking", thinking: "", thinkingSignature: signed, redacted: true })),
  ),
};

/** Neutral histories in which nothing needs healing: as a session has them after an import. */
function neutralHistory(name: Name): fc.Arbitrary<StoredMessage[]> {
  const isChat = name === "openai-chat";
  const { provider, api } = formats[name];
  const call = (id: string) =>
    fc.record({ input, gave: plain, pictured: fc.boolean(), failed: fc.boolean() }).map((given) => ({
      call: { type: "toolCall", id, name: "tool", arguments: given.input },
      given: {
        role: "toolResult",
        toolCallId: id,
        toolName: "tool",
        content: given.pictured && !isChat && !isFailed(given) ? [given.gave, { ...PICTURE }] : [given.gave],
        isError: isFailed(given),
        timestamp: 0,
      },
    }));
  const isFailed = ({ failed }: { failed: boolean }) => failed && (name === "anthropic" || name === "ai-sdk");
  const said = isChat
    ? fc.oneof(text, fc.tuple(plain, fc.oneof(picture, remote)))
    : mostOf(fc.oneof(plain, picture, remote), 1);
  return rounds<unknown, Block[], Block, Block>({
    said,
    answered: fc
      .tuple(thoughts[name], mostOf(plain, 1))
      .map(([thinking, texts]) => [[...thinking, ...(isChat ? texts.slice(0, 1) : texts)]]),
    call,
  }).map(
    (all) =>
      all.flatMap(({ said: [content], answered: [blocks], calls }) => [
        { role: "user", content, timestamp: 0 },
        {
          role: "assistant",
          content: [...blocks!, ...calls.map((each) => each.call)],
          api,
          provider,
          model: "the-model",
          stopReason: calls.length > 0 ? "toolUse" : "stop",
          timestamp: 0,
        },
        ...calls.map((each) => each.given),
      ]) as unknown as StoredMessage[],
  );
}

const PICTURE = { type: "image", data: PNG, mimeType: "image/png" };

describe.each(names)("neutral messages converted to %s and back", (name) => {
  const { from, to, provider } = formats[name];

  it("are unchanged if nothing needed healing", () => {
    fc.assert(
      fc.property(neutralHistory(name), (messages) => {
        const request: unknown = to(messages);
        expect(from(request, { model: { provider, modelId: "the-model" } }).messages).toEqual(messages);
      }),
    );
  });
});

it("each format has its command-line name", () => {
  expect(Object.keys(nativeFormats)).toEqual(["anthropic", "openai", "openai-responses"]);
});

it.each([
  ["anthropic", toAnthropic, "anthropic", anthropicFormat],
  ["openai", toOpenaiChat, "openai", openaiChatFormat],
  ["openai-responses", toOpenaiResponses, "openai", openaiResponsesFormat],
] as const)(
  "a request in %s equals `buildRequest` if it has no content that only one format has",
  (_name, to, provider, format: RequestFormat<object>) => {
    fc.assert(
      fc.property(brokenHistory, (messages) => {
        const context = contextOf(messages, { provider, modelId: "claude-test" });
        expect(written<object>(() => to(context))).toEqual(written(() => buildRequest(context, { format })));
      }),
    );
  },
);

it.each([
  ["anthropic", toAnthropic, fromAnthropic, anthropicMessages],
  ["openai-responses", toOpenaiResponses, fromOpenaiResponses, responsesInput],
] as const)(
  "`buildRequest` with the native format of %s includes content that only that provider knows",
  (name, to, from, histories) => {
    const format: RequestFormat<object> = nativeFormats[name];
    fc.assert(
      fc.property(histories as fc.Arbitrary<unknown[]>, (history) => {
        const { messages, model } = from(history);
        const context = contextOf(messages, model);
        expect(buildRequest(context, { format })).toEqual(to(context));
      }),
      { numRuns: 50 },
    );
  },
);

describe("provenance", () => {
  const encrypted = "ZW5jcnlwdGVkLWNvbnRlbnQ";
  const openai = { provider: "openai", modelId: "gpt-test" };
  const claude = { provider: "anthropic", modelId: "claude-test" };
  const fromOpenai = fromOpenaiResponses(
    [
      { role: "user", content: "Hi" },
      { type: "compaction", id: "cmp_1", encrypted_content: `${encrypted}1` },
      { role: "user", content: "Go on" },
      { type: "reasoning", id: "rs_1", summary: [], encrypted_content: `${encrypted}2` },
      { type: "code_interpreter_call", id: "ci_1", code: `${encrypted}3`, container_id: "c", outputs: null },
      { role: "assistant", content: "Done" },
      { role: "user", content: "And?" },
    ],
    { model: openai },
  );
  const fromClaude = fromAnthropic(
    [
      { role: "user", content: "Hi" },
      {
        role: "assistant",
        content: [
          { type: "thinking", thinking: "Hm", signature: `${encrypted}4` },
          { type: "redacted_thinking", data: `${encrypted}5` },
          { type: "server_tool_use", id: "srvtoolu_1", name: "web_search", input: {} },
          {
            type: "web_search_tool_result",
            tool_use_id: "srvtoolu_1",
            content: [{ type: "web_search_result", encrypted_content: `${encrypted}6` }],
          },
          {
            type: "text",
            text: "Done",
            citations: [{ type: "web_search_result_location", encrypted_index: `${encrypted}7` }],
          },
        ],
      },
      { role: "user", content: "And?" },
    ],
    { model: claude },
  );
  const writers = [toAnthropic, toOpenaiChat, toOpenaiResponses, toAiSdk];
  const elsewhere = [
    { provider: "anthropic", modelId: "claude-test" },
    { provider: "openai", modelId: "gpt-test" },
    { provider: "azure-openai-responses", modelId: "gpt-test" },
    { provider: "openrouter", modelId: "openai/gpt-test" },
    null,
  ];

  it("a provider's encrypted content is in requests for that provider", () => {
    const [one, two, three] = [1, 2, 3].map((number) => `${encrypted}${number}`);
    const request = JSON.stringify(toOpenaiResponses(fromOpenai));
    for (const content of [one, two, three]) expect(request).toContain(content);
    const own = JSON.stringify(toAnthropic(fromClaude));
    for (const number of [4, 5, 6, 7]) expect(own).toContain(`${encrypted}${number}`);
  });

  it("a provider's encrypted content is never in a request for another one", () => {
    for (const conversation of [fromOpenai, fromClaude]) {
      for (const model of elsewhere) {
        if (model?.provider === conversation.model.provider) continue;
        for (const write of writers)
          expect(JSON.stringify(write(conversation, { model }))).not.toContain(encrypted);
      }
    }
  });

  it("a provider's encrypted content is never in a format that cannot carry it, even for the same provider", () => {
    for (const write of [toAnthropic, toOpenaiChat])
      expect(JSON.stringify(write(fromOpenai, { model: openai }))).not.toContain(encrypted);
    for (const write of [toOpenaiResponses, toOpenaiChat])
      expect(JSON.stringify(write(fromClaude, { model: claude }))).not.toContain(encrypted);
  });

  it("a format without OpenAI's compactions says that something is left out", () => {
    const request = JSON.stringify(toAnthropic(fromOpenai, { model: claude }));
    expect(request).toContain("[Content of type openai-responses.compaction left out]");
  });

  it("text with citations of one provider is plain text for the others", () => {
    for (const write of writers)
      expect(JSON.stringify(write(fromClaude, { model: openai }))).toContain("Done");
  });

  it("reasoning is kept for its model, hosted tools for their provider", () => {
    const other = { provider: "openai", modelId: "gpt-other" };
    const request = JSON.stringify(toOpenaiResponses(fromOpenai, { model: other }));
    expect(request).not.toContain(`${encrypted}2`);
    expect(request).toContain(`${encrypted}1`);
    expect(request).toContain(`${encrypted}3`);
  });
});

it("imported messages can be appended to a session, and the reopened session has the same messages", async () => {
  await fc.assert(
    fc.asyncProperty(anthropicMessages, async (history) => {
      const store = memoryStore();
      const header = {
        type: "session",
        version: 3,
        id: "imported",
        timestamp: "2026-01-01T00:00:00.000Z",
        cwd: "/",
      } as const;
      const session = await SessionTree.open(await store.create(header));
      const model = { provider: "anthropic", modelId: "claude-test" };
      const imported = fromAnthropic(history, { model });
      await session.append(imported.messages.map((said) => message.of({ message: said })));
      const again = await SessionTree.open(await store.open("imported", "read"));
      expect(toAnthropic(again.context).messages).toEqual(history);
    }),
    { numRuns: 50 },
  );
});

it.each([
  [fromAnthropic, { messages: [], tools: [{ type: "bash_20250124", name: "bash" }] }, "server runs"],
  [fromAnthropic, { messages: [], system: [{ type: "image" }] }, "system prompt is not a text"],
  [fromOpenaiResponses, { input: [], tools: [{ type: "web_search" }] }, "not a function"],
  [fromAiSdk, { messages: [], tools: { read: { execute: () => 1 } } }, "names and JSON Schemas only"],
  [fromAiSdk, [{ role: "system", content: [] }], "system message is not a text"],
] as const)("%o: %j is left out, and the report says so", (from, request, message) => {
  const { messages, system, tools, issues } = from(request);
  expect({ messages, system, tools }).toEqual({ messages: [] });
  expect(issues.map((issue) => issue.message).join(" ")).toContain(message);
});

const addressed: Record<string, (url: string) => Block> = {
  anthropic: (url) => ({ type: "image", source: { type: "url", url } }),
  "openai-chat": (url) => ({ type: "image_url", image_url: { url } }),
  "openai-responses": (url) => ({ type: "input_image", image_url: url, detail: "auto" }),
  "ai-sdk": (url) => ({ type: "image", image: url }),
};

it.each(names)("%s: only the same format gets an image at an address that is not on the web", (name) => {
  const { from, to } = formats[name];
  const pictures = ["file:///a.png", "gs://bucket/a.png", "data:image/svg+xml,<svg/>"].map(addressed[name]!);
  const imported = from([{ role: "user", content: pictures }] as never);
  expect(imported.issues).toMatchObject([{ kind: "opaque", count: 3 }]);
  expect(JSON.stringify(to(imported))).toContain(JSON.stringify(pictures).slice(1, -1));
  for (const other of names.filter((each) => each !== name))
    expect(JSON.stringify(formats[other].to(imported))).not.toMatch(/a\.png|svg/);
});

it.each(names)(
  "%s: a developer's message is system prompt, one of an unknown role is only reported",
  (name) => {
    const { from } = formats[name];
    const stranger = { role: "stranger", content: [{ type: "document" }, 7] };
    const { system, messages, issues } = from([
      { role: "developer", content: "Be brief." },
      stranger,
    ] as never);
    expect([system, messages]).toEqual(["Be brief.", []]);
    expect(issues).toMatchObject([{ kind: "malformed", field: "role", count: 1 }]);
  },
);

const odd = { toString: 1 };
it.each([
  [
    fromOpenaiChat,
    { role: "assistant", tool_calls: [{ id: "a", type: "custom", custom: { name: "x", input: odd } }] },
  ],
  [fromOpenaiResponses, { type: "custom_tool_call", call_id: "a", name: "x", input: odd }],
  [fromAiSdk, { role: "user", content: [{ type: "file", mediaType: odd, data: PNG }] }],
] as const)("%o reads an object that cannot be a string, where a text belongs", (from, message) => {
  expect(JSON.stringify(from([message]).messages)).toContain("toString");
});

it("an approval whose ids are no texts can be written", () => {
  const request = { type: "tool-approval-request", approvalId: odd, toolCallId: odd };
  const asked = { role: "user", content: [{ type: "text", text: "Go." }] };
  const answer = { role: "assistant", content: [{ type: "text", text: "May I?" }, request] };
  expect(toAiSdk(fromAiSdk([asked, answer])).messages).toHaveLength(2);
});
