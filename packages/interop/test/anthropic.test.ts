import type { MessageParam } from "@anthropic-ai/sdk/resources/messages";
import { fromAnthropic, toAnthropic } from "@espalier/interop";
import { formatLine } from "@espalier/jsonl-stream";
import { checkAnthropicRequest } from "@espalier/session-tree/testing";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { anthropicMessages } from "./anthropic-histories.ts";
import { damaged, PNG, written } from "./format-histories.ts";

const model = { provider: "anthropic", modelId: "claude-test" };

/** A conversation with every type of block, in the form in which it is written. */
const everything = [
  {
    role: "user",
    content: [
      { type: "text", text: "Look at these." },
      { type: "image", source: { type: "base64", media_type: "image/png", data: PNG } },
      { type: "image", source: { type: "url", url: "https://example.com/a.png" } },
      {
        type: "document",
        source: { type: "base64", media_type: "application/pdf", data: "JVBERi0=" },
        title: "A paper",
      },
      {
        type: "document",
        source: { type: "text", media_type: "text/plain", data: "plain" },
        citations: { enabled: true },
      },
      {
        type: "search_result",
        source: "https://example.com",
        title: "Found",
        content: [{ type: "text", text: "x" }],
      },
      { type: "container_upload", file_id: "file_1" },
    ],
  },
  {
    role: "assistant",
    content: [
      { type: "thinking", thinking: "Let me see.", signature: "c2lnbmF0dXJl" },
      { type: "redacted_thinking", data: "b3BhcXVl" },
      { type: "server_tool_use", id: "srvtoolu_1", name: "web_search", input: { query: "espalier" } },
      {
        type: "web_search_tool_result",
        tool_use_id: "srvtoolu_1",
        content: [
          {
            type: "web_search_result",
            title: "T",
            url: "https://example.com",
            encrypted_content: "ZW5j",
            page_age: null,
          },
        ],
      },
      {
        type: "text",
        text: "A tree on a wall.",
        citations: [
          {
            type: "web_search_result_location",
            cited_text: "a tree",
            encrypted_index: "aWR4",
            title: "T",
            url: "https://example.com",
          },
        ],
      },
      { type: "tool_use", id: "toolu_1", name: "read", input: { path: "a.ts" } },
      { type: "tool_use", id: "toolu_2", name: "look", input: {}, caller: { type: "direct" } },
      { type: "tool_use", id: "toolu_3", name: "fail", input: { deep: { list: [1, null, "x"] } } },
    ],
  },
  {
    role: "user",
    content: [
      { type: "tool_result", tool_use_id: "toolu_1", content: [{ type: "text", text: "const a = 1;" }] },
      {
        type: "tool_result",
        tool_use_id: "toolu_2",
        content: [
          { type: "text", text: "Here:" },
          { type: "image", source: { type: "base64", media_type: "image/png", data: PNG } },
          { type: "document", source: { type: "url", url: "https://example.com/a.pdf" } },
          { type: "tool_reference", tool_name: "grep" },
        ],
      },
      {
        type: "tool_result",
        tool_use_id: "toolu_3",
        content: [{ type: "text", text: "no such file" }],
        is_error: true,
      },
      { type: "text", text: "And now?" },
    ],
  },
  { role: "assistant", content: [{ type: "text", text: "Done." }] },
] satisfies MessageParam[];

describe("a conversation of the Messages API", () => {
  it("is restored with every type of block", () => {
    const imported = fromAnthropic({ messages: everything }, { model });
    expect(toAnthropic(imported).messages).toEqual(everything);
  });

  it("is restored with its system prompt and tools", () => {
    const request = {
      system: "Be brief.",
      messages: everything,
      tools: [
        {
          name: "read",
          description: "Reads",
          input_schema: { type: "object", properties: { path: { type: "string" } } },
        },
      ],
    };
    const imported = fromAnthropic(request);
    expect(imported.system).toBe("Be brief.");
    expect(toAnthropic(imported)).toEqual(request);
  });

  it("has its text as a string, its results as text, and its prompt as blocks in the normal form of the API", () => {
    const imported = fromAnthropic({
      system: [
        { type: "text", text: "One." },
        { type: "text", text: "Two." },
      ],
      messages: [
        { role: "user", content: "Hello" },
        { role: "assistant", content: "Hi" },
        { role: "user", content: "Go" },
        { role: "assistant", content: [{ type: "tool_use", id: "a", name: "run", input: {} }] },
        {
          role: "user",
          content: [{ type: "tool_result", tool_use_id: "a", content: "fine", is_error: false }],
        },
      ],
    });
    expect(toAnthropic(imported)).toEqual({
      system: "One.\n\nTwo.",
      messages: [
        { role: "user", content: [{ type: "text", text: "Hello" }] },
        { role: "assistant", content: [{ type: "text", text: "Hi" }] },
        { role: "user", content: [{ type: "text", text: "Go" }] },
        { role: "assistant", content: [{ type: "tool_use", id: "a", name: "run", input: {} }] },
        {
          role: "user",
          content: [{ type: "tool_result", tool_use_id: "a", content: [{ type: "text", text: "fine" }] }],
        },
      ],
    });
    expect(imported.issues).toEqual([]);
  });
});

describe("any conversation of the Messages API", () => {
  it("is restored unchanged", () => {
    fc.assert(
      fc.property(anthropicMessages, (messages) => {
        const imported = fromAnthropic(messages, { model });
        expect(toAnthropic(imported).messages).toEqual(messages);
        expect(imported.issues.filter(({ kind }) => kind !== "opaque")).toEqual([]);
      }),
    );
  });

  it("never throws for damaged input, can be written, and is in its normal form after one conversion", () => {
    fc.assert(
      fc.property(
        anthropicMessages.chain((messages) => damaged({ system: "x", messages })),
        (input) => {
          const imported = fromAnthropic(input);
          for (const message of imported.messages) formatLine(message);
          const once = written(() => toAnthropic(imported));
          if (once) expect(written(() => toAnthropic(fromAnthropic(once)))).toEqual(once);
        },
      ),
      { numRuns: 200 },
    );
  });
});

describe("a tool that the provider runs", () => {
  const asked = { role: "user", content: [{ type: "text", text: "Which region sold most?" }] };
  const code = { type: "server_tool_use", id: "srvtoolu_1", name: "code_execution", input: { code: "q()" } };
  const query = (id: string) => ({
    type: "tool_use",
    id,
    name: "query",
    input: {},
    caller: { type: "code_execution_20250825", tool_id: "srvtoolu_1" },
  });
  const rows = (id: string) => ({
    role: "user",
    content: [{ type: "tool_result", tool_use_id: id, content: [{ type: "text", text: "rows" }] }],
  });
  const ran = {
    type: "code_execution_tool_result",
    tool_use_id: "srvtoolu_1",
    content: { type: "code_execution_result", stdout: "West", stderr: "", return_code: 0, content: [] },
  };
  const said = { type: "text", text: "West." };
  const whole = [
    asked,
    { role: "assistant", content: [{ type: "text", text: "I query." }, code, query("toolu_1")] },
    rows("toolu_1"),
    { role: "assistant", content: [query("toolu_2")] },
    rows("toolu_2"),
    { role: "assistant", content: [ran, said] },
  ];

  it.each([3, 5, 6])(
    "waits for the results of the calls that it made: %i messages are restored",
    (length) => {
      const messages = whole.slice(0, length);
      expect(toAnthropic(fromAnthropic(messages, { model })).messages).toEqual(messages);
      expect(checkAnthropicRequest({ messages }, { strict: true })).toEqual([]);
    },
  );

  it("runs after a call of the client that it stands next to", () => {
    const { caller: _, ...alone } = query("toolu_1");
    const messages = [asked, { role: "assistant", content: [code, alone] }, rows("toolu_1")];
    expect(toAnthropic(fromAnthropic(messages, { model })).messages).toEqual(messages);
  });

  it("and the calls that it made are plain calls, when the user speaks before it goes on", () => {
    const stopped = [...whole.slice(0, 3), { role: "user", content: [{ type: "text", text: "Stop." }] }];
    const { messages } = toAnthropic(fromAnthropic(stopped, { model }));
    expect(JSON.stringify(messages)).not.toContain("srvtoolu_1");
    expect(JSON.stringify(messages)).toContain("toolu_1");
  });

  it("is in every request together with its result, or not at all", () => {
    const wounds = fc.array(
      fc.record({ at: fc.nat({ max: 8 }), how: fc.constantFrom("hide", "fail", "of another provider") }),
      { maxLength: 3 },
    );
    const searched = { ...code, id: "srvtoolu_2", name: "web_search" };
    const found = { type: "web_search_tool_result", tool_use_id: "srvtoolu_2", content: [] };
    const { messages } = fromAnthropic(
      [
        ...whole,
        asked,
        { role: "assistant", content: [{ type: "text", text: "I search." }, searched] },
        { role: "assistant", content: [found, said] },
      ],
      { model },
    );
    fc.assert(
      fc.property(fc.nat({ max: 9 }), wounds, (length, list) => {
        const kept = messages.slice(0, length).flatMap((message, at) => {
          const how = list.find((wound) => wound.at === at)?.how;
          if (how === "hide") return [];
          if (message.role !== "assistant" || how === undefined) return [message];
          return how === "fail"
            ? [{ ...message, stopReason: "aborted" as const }]
            : [{ ...message, provider: "openai" }];
        });
        const request = written(() => toAnthropic(kept, { model }));
        if (request) expect(checkAnthropicRequest(request, { strict: true })).toEqual([]);
      }),
      { numRuns: 300 },
    );
  });
});
