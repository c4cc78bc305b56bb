import {
  fromOpenaiChat,
  fromOpenaiResponses,
  toAnthropic,
  toOpenaiChat,
  toOpenaiResponses,
} from "@espalier/interop";
import { formatLine } from "@espalier/jsonl-stream";
import fc from "fast-check";
import type { ChatCompletionMessageParam } from "openai/resources/chat/completions";
import type { ResponseInputItem } from "openai/resources/responses/responses";
import { describe, expect, it } from "vitest";
import { damaged, PNG, written } from "./format-histories.ts";
import { chatMessages, responsesInput } from "./openai-histories.ts";

const model = { provider: "openai", modelId: "gpt-test" };
const DATA_URL = `data:image/png;base64,${PNG}`;

/** Every type of item that a client sends or gets, as the API writes it. */
const everyItem = [
  { role: "user", content: "Find out." },
  { type: "compaction", id: "cmp_1", encrypted_content: "Y29tcGFjdA==" },
  {
    type: "message",
    role: "user",
    content: [
      { type: "input_text", text: "Look:" },
      { type: "input_image", image_url: DATA_URL, detail: "high" },
      { type: "input_image", image_url: "https://example.com/a.png", detail: "auto" },
      { type: "input_image", file_id: "file_1", detail: "low" },
      { type: "input_file", file_url: "https://example.com/a.pdf" },
    ],
  },
  {
    type: "reasoning",
    id: "rs_1",
    summary: [
      { type: "summary_text", text: "First." },
      { type: "summary_text", text: "Second." },
    ],
    encrypted_content: "ZW5jcnlwdGVk",
    status: "completed",
  },
  {
    type: "web_search_call",
    id: "ws_1",
    status: "completed",
    action: { type: "search", query: "espalier", queries: ["espalier"] },
  },
  {
    type: "message",
    id: "msg_1",
    role: "assistant",
    status: "completed",
    phase: "commentary",
    content: [
      { type: "output_text", text: "One.", annotations: [] },
      { type: "output_text", text: "Two.", annotations: [] },
    ],
  },
  {
    type: "function_call",
    id: "fc_1",
    call_id: "call_1",
    name: "read",
    arguments: '{ "path": "a.ts" }',
    status: "completed",
  },
  { type: "custom_tool_call", id: "ctc_1", call_id: "call_2", name: "patch", input: "*** Begin Patch" },
  { type: "function_call", call_id: "call_3", name: "look", arguments: "{}", namespace: "eyes" },
  { type: "function_call_output", call_id: "call_1", output: "const a = 1;" },
  { type: "custom_tool_call_output", call_id: "call_2", output: "Done" },
  {
    type: "function_call_output",
    call_id: "call_3",
    output: [
      { type: "input_text", text: "Here:" },
      { type: "input_image", image_url: DATA_URL, detail: "auto" },
    ],
  },
  {
    type: "local_shell_call",
    id: "ls_1",
    call_id: "call_4",
    action: { type: "exec", command: ["ls"], env: {} },
    status: "completed",
  },
  { type: "local_shell_call_output", id: "ls_1", output: "a.ts" },
  {
    type: "message",
    id: "msg_2",
    role: "assistant",
    status: "completed",
    content: [{ type: "refusal", refusal: "No." }],
  },
] satisfies ResponseInputItem[];

describe("a conversation of the Responses API", () => {
  it("is restored with every type of item, in the normal form", () => {
    const imported = fromOpenaiResponses({ instructions: "Be brief.", input: everyItem }, { model });
    expect(toOpenaiResponses(imported)).toEqual({
      instructions: "Be brief.",
      input: [
        { type: "message", role: "user", content: [{ type: "input_text", text: "Find out." }] },
        everyItem[1],
        everyItem[2],
        {
          type: "reasoning",
          id: "rs_1",
          summary: [
            { type: "summary_text", text: "First." },
            { type: "summary_text", text: "Second." },
          ],
          encrypted_content: "ZW5jcnlwdGVk",
        },
        everyItem[4],
        { type: "message", role: "assistant", content: "One.", phase: "commentary" },
        { type: "message", role: "assistant", content: "Two.", phase: "commentary" },
        { type: "function_call", call_id: "call_1", name: "read", arguments: '{"path":"a.ts"}' },
        { type: "custom_tool_call", call_id: "call_2", name: "patch", input: "*** Begin Patch" },
        { type: "function_call", call_id: "call_3", name: "look", arguments: "{}", namespace: "eyes" },
        ...everyItem.slice(9, 14),
        { type: "message", role: "assistant", content: [{ type: "refusal", refusal: "No." }] },
      ],
    });
    expect(imported.issues.map(({ kind, field }) => `${kind} ${field}`)).toEqual([
      "opaque compaction",
      "opaque input_image",
      "opaque input_file",
      "opaque web_search_call",
      "opaque local_shell_call",
      "opaque local_shell_call_output",
    ]);
  });

  it("reports left out content", () => {
    const { issues, messages, system } = fromOpenaiResponses([
      { role: "developer", content: "Rules" },
      {
        role: "user",
        content: [{ type: "input_text", text: "Hi", prompt_cache_breakpoint: { mode: "explicit" } }],
      },
      {
        type: "message",
        role: "assistant",
        content: [
          { type: "output_text", text: "Yes", annotations: [{ type: "file_path", file_id: "f", index: 0 }] },
        ],
      },
      { role: "developer", content: "Late rules" },
      { type: "function_call", call_id: "a", name: "x", arguments: "not json" },
      { type: "reasoning", id: "rs_1", summary: [{ type: "summary_text", text: "Hm" }] },
      { type: "item_reference", id: "msg_9" },
    ]);
    expect(system).toBe("Rules");
    expect(messages.map(({ role }) => role)).toEqual(["user", "assistant", "system", "assistant"]);
    expect(messages.at(-1)).toMatchObject({
      content: [{ arguments: { value: "not json" } }, { thinking: "Hm" }],
    });
    expect(issues.map(({ kind, field, path }) => `${kind} ${field} ${path}`)).toEqual([
      "dropped prompt_cache_breakpoint input[1].content[0]",
      "dropped annotations input[2].content[0]",
      "changed system input[3]",
      "changed arguments input[4]",
      "changed reasoning input[5]",
      "malformed item input[6]",
    ]);
  });
});

const everyMessage = [
  { role: "developer", content: "Be brief." },
  {
    role: "user",
    content: [
      { type: "text", text: "Look:" },
      { type: "image_url", image_url: { url: DATA_URL, detail: "high" } },
      { type: "image_url", image_url: { url: "https://example.com/a.png" } },
      { type: "input_audio", input_audio: { data: "UklGRg==", format: "wav" } },
      { type: "file", file: { file_id: "file_1" } },
    ],
  },
  {
    role: "assistant",
    content: "I read.",
    tool_calls: [
      { id: "call_1", type: "function", function: { name: "read", arguments: '{"path":"a.ts"}' } },
      { id: "call_2", type: "custom", custom: { name: "patch", input: "*** Begin Patch" } },
    ],
  },
  { role: "tool", tool_call_id: "call_1", content: "const a = 1;" },
  { role: "tool", tool_call_id: "call_2", content: "Done" },
  { role: "user", content: "And now?" },
  { role: "assistant", content: null, refusal: "No." },
  { role: "user", content: "Why?" },
] satisfies ChatCompletionMessageParam[];

describe("a conversation of Chat Completions", () => {
  it("is restored with every type of message, with `system` for `developer`", () => {
    const imported = fromOpenaiChat({ messages: everyMessage }, { model });
    expect(imported.system).toBe("Be brief.");
    expect(toOpenaiChat(imported)).toEqual({
      messages: [{ role: "system", content: "Be brief." }, ...everyMessage.slice(1)],
    });
  });

  it("is restored with its tools", () => {
    const tools = [
      {
        type: "function",
        function: { name: "read", description: "Reads", parameters: { type: "object", properties: {} } },
      },
    ];
    expect(toOpenaiChat(fromOpenaiChat({ messages: everyMessage, tools })).tools).toEqual(tools);
  });

  it("has a refusal as a failed answer, and leaves it out for other providers", () => {
    const asked = [
      { role: "user", content: "How?" },
      { role: "assistant", content: null, refusal: "No." },
      { role: "user", content: "Why?" },
    ];
    const imported = fromOpenaiChat(asked, { model });
    expect(imported.messages[1]).toMatchObject({
      stopReason: "error",
      errorMessage: "The model stopped: refusal.",
      content: [{ type: "text", text: "No." }],
    });
    expect(toOpenaiChat(imported).messages).toEqual(asked);
    expect(toAnthropic(imported, { model: { provider: "anthropic", modelId: "m" } }).messages).toEqual([
      {
        role: "user",
        content: [
          { type: "text", text: "How?" },
          { type: "text", text: "Why?" },
        ],
      },
    ]);
    const call = { id: "call_1", type: "function", function: { name: "read", arguments: "{}" } };
    const calling = { role: "assistant", refusal: "No.", tool_calls: [call] };
    expect(fromOpenaiChat([calling]).messages[0]).toMatchObject({ stopReason: "toolUse" });
  });

  it("has its lists of texts as one string in the normal form, also with a refusal", () => {
    const imported = fromOpenaiChat([
      {
        role: "user",
        content: [
          { type: "text", text: "a" },
          { type: "text", text: "b" },
        ],
      },
      {
        role: "assistant",
        content: [
          { type: "text", text: "c" },
          { type: "refusal", refusal: "d" },
        ],
      },
    ]);
    expect(toOpenaiChat(imported).messages).toEqual([
      { role: "user", content: "a\n\nb" },
      { role: "assistant", content: "c\n\nd" },
    ]);
  });

  it("keeps the reasoning of servers that show it, and never sends it", () => {
    const imported = fromOpenaiChat([
      { role: "user", content: "a" },
      { role: "assistant", content: "b", reasoning_content: "because", name: "bot", audio: null },
    ]);
    expect(imported.messages[1]).toMatchObject({
      content: [{ type: "thinking", thinking: "because" }, { text: "b" }],
    });
    expect(JSON.stringify(toOpenaiChat(imported))).not.toContain("because");
    expect(imported.issues.map(({ kind, field }) => `${kind} ${field}`)).toEqual([
      "changed reasoning_content",
      "dropped name",
    ]);
  });
});

describe.each([
  {
    name: "the Responses API",
    histories: responsesInput,
    key: "input",
    from: fromOpenaiResponses,
    to: toOpenaiResponses,
  },
  {
    name: "Chat Completions",
    histories: chatMessages,
    key: "messages",
    from: fromOpenaiChat,
    to: toOpenaiChat,
  },
] as const)("any conversation of $name", ({ histories, key, from, to }) => {
  it("is restored unchanged", () => {
    fc.assert(
      fc.property(histories as fc.Arbitrary<unknown[]>, (items) => {
        const imported = from(items, { model });
        expect(to(imported)).toEqual({ [key]: items });
        expect(imported.issues.filter(({ kind }) => kind !== "opaque")).toEqual([]);
      }),
    );
  });

  it("never throws for damaged input, can be written, and is in its normal form after one conversion", () => {
    fc.assert(
      fc.property(
        (histories as fc.Arbitrary<unknown[]>).chain((items) => damaged({ [key]: items })),
        (input) => {
          const imported = from(input);
          for (const message of imported.messages) formatLine(message);
          const once = written<object>(() => to(imported));
          if (once) expect(written<object>(() => to(from(once)))).toEqual(once);
        },
      ),
      { numRuns: 200 },
    );
  });
});

it("an answer of Chat Completions that has only parts of another server is left out of a request", () => {
  const thinking = { type: "thinking", thinking: [{ type: "text", text: "Hm." }] };
  const answer = (...content: object[]) => ({ role: "assistant", content });
  const asked = { role: "user", content: "Hi" };
  const sent = (...messages: object[]) =>
    toOpenaiChat(fromOpenaiChat(messages, { model }), { model }).messages;
  expect(sent(asked, answer(thinking), asked)).toEqual([{ role: "user", content: "Hi\n\nHi" }]);
  const whole = sent(asked, answer(thinking, { type: "text", text: "Hello." }));
  expect(whole).toEqual([asked, { role: "assistant", content: "Hello." }]);
});

describe("a call that is not of a function", () => {
  const user = (text: string) => ({ type: "message", role: "user", content: [{ type: "input_text", text }] });
  const pair = (kind: string, call_id: string) => [
    { type: `${kind}_call`, call_id, id: `${kind}_1`, status: "completed" },
    { type: `${kind}_call_output`, call_id, output: [] },
  ];
  const program = { type: "program", id: "p_1", call_id: "call_p", code: "look()", fingerprint: "f" };
  const caller = { type: "program", caller_id: "call_p" };
  const made = { type: "function_call", call_id: "call_f", name: "look", arguments: "{}", caller };
  const output = { type: "function_call_output", call_id: "call_f", output: "Seen." };
  const ended = { type: "program_output", id: "p_2", call_id: "call_p", result: "1", status: "completed" };
  const said = { type: "message", role: "assistant", content: "Done." };
  const whole = [
    user("Go."),
    ...pair("computer", "call_1"),
    ...pair("shell", "call_2"),
    ...pair("apply_patch", "call_3"),
    { type: "mcp_approval_request", id: "ap_1", name: "look", server_label: "eyes", arguments: "{}" },
    { type: "mcp_approval_response", approval_request_id: "ap_1", approve: true },
    program,
    made,
    output,
    ended,
    said,
  ];

  it("is restored with its output, and a program also while its call has just been answered", () => {
    for (const input of [whole, whole.slice(0, whole.indexOf(ended))])
      expect(toOpenaiResponses(fromOpenaiResponses(input, { model }))).toEqual({ input });
  });

  it("and its output are one answer when the provider gives both", () => {
    const searched = [
      { type: "tool_search_call", call_id: null, execution: "server", arguments: {} },
      { type: "tool_search_output", call_id: null, execution: "server", tools: [] },
    ];
    const input = [user("Go."), ...searched, made, output, program, ended, said];
    const { messages } = fromOpenaiResponses(input, { model });
    expect(messages.map(({ role }) => role)).toEqual(["user", "assistant", "toolResult", "assistant"]);
  });

  it("is in every request together with its output, or not at all", () => {
    const { messages } = fromOpenaiResponses([...whole, user("And?")], { model });
    const wounds = fc.array(
      fc.record({ at: fc.nat({ max: messages.length }), how: fc.constantFrom("hide", "fail", "move") }),
      { maxLength: 3 },
    );
    fc.assert(
      fc.property(fc.nat({ max: messages.length }), wounds, (length, list) => {
        const kept = messages.slice(0, length).flatMap((message, at) => {
          const how = list.find((wound) => wound.at === at)?.how;
          if (how === "hide") return [];
          if (message.role !== "assistant" || how === undefined) return [message];
          return [
            { ...message, ...(how === "fail" ? { stopReason: "aborted" as const } : { provider: "azure" }) },
          ];
        });
        const { input = [] } = written(() => toOpenaiResponses(kept, { model })) ?? {};
        const items = input as { type: string; call_id?: string; caller?: { caller_id: string } }[];
        const called = items
          .filter(({ type }) => /_call$|^program$/.test(type))
          .map(({ call_id }) => call_id);
        const given = items.filter(({ type }) => type.endsWith("_output")).map(({ call_id }) => call_id);
        const running = items.at(-1)?.type === "function_call_output" && !given.includes("call_p");
        expect(called.filter((id) => !(running && id === "call_p")).sort()).toEqual(given.sort());
        for (const item of items) if (item.caller) expect(called).toContain(item.caller.caller_id);
        const asked = items.some(({ type }) => type === "mcp_approval_request");
        if (!asked) expect(items.some(({ type }) => type === "mcp_approval_response")).toBe(false);
      }),
      { numRuns: 300 },
    );
  });
});
