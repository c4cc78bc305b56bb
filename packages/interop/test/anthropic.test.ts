import type { MessageParam } from "@anthropic-ai/sdk/resources/messages";
import { fromAnthropic, toAnthropic } from "@espalier/interop";
import { formatLine } from "@espalier/jsonl-stream";
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
