import type { ContentBlockParam, MessageParam } from "@anthropic-ai/sdk/resources/messages";
import { fromAnthropic, fromOpenaiResponses, toAnthropic, toOpenaiResponses } from "@espalier/interop";
import type { ResponseInputItem } from "openai/resources/responses/responses";
import { expect, it } from "vitest";

type Block<Type> = Extract<ContentBlockParam, { type: Type }>;
const served = { tool_use_id: "srvtoolu_1" };
const call = { type: "tool_use", id: "toolu_1", name: "look", input: {} } as const;
const source = { type: "text", media_type: "text/plain", data: "plain" } as const;
const text = { type: "text", text: "Said." } as const;

const asked: MessageParam = { role: "user", content: [{ type: "text", text: "Go." }] };
const inQuestion = (block: ContentBlockParam): MessageParam[] => [{ role: "user", content: [block] }];
const inAnswer = (...blocks: ContentBlockParam[]): MessageParam[] => [
  asked,
  { role: "assistant", content: [...blocks, text] },
];

/** The provider takes no result without its call. */
const serverCall = { type: "server_tool_use", id: "srvtoolu_1", name: "web_search", input: {} } as const;
const afterServerCall = (block: ContentBlockParam): MessageParam[] => inAnswer(serverCall, block);

const blocks: { [Type in ContentBlockParam["type"]]: { messages: MessageParam[]; block: Block<Type> } } = {
  text: around({ type: "text", text: "Said." }, inQuestion),
  image: around({ type: "image", source: { type: "url", url: "https://example.com/a.png" } }, inQuestion),
  document: around({ type: "document", source, title: "Notes", context: "Ours" }, inQuestion),
  search_result: around(
    { type: "search_result", source: "https://example.com", title: "Found", content: [text] },
    inQuestion,
  ),
  container_upload: around({ type: "container_upload", file_id: "file_1" }, inQuestion),
  thinking: around({ type: "thinking", thinking: "Hm", signature: "c2ln" }, inAnswer),
  redacted_thinking: around({ type: "redacted_thinking", data: "b3BhcXVl" }, inAnswer),
  tool_use: around(call, (block) => [...answered(block), given()]),
  tool_result: around({ type: "tool_result", tool_use_id: "toolu_1", content: [text] }, (block) => [
    ...answered(call),
    given(block),
  ]),
  server_tool_use: around(
    serverCall,
    // Without its result the provider takes it only where an answer paused.
    (block) =>
      inAnswer(block, {
        type: "web_search_tool_result",
        ...served,
        content: { type: "web_search_tool_result_error", error_code: "unavailable" },
      }),
  ),
  web_search_tool_result: around(
    {
      type: "web_search_tool_result",
      ...served,
      content: { type: "web_search_tool_result_error", error_code: "unavailable" },
    },
    afterServerCall,
  ),
  web_fetch_tool_result: around(
    {
      type: "web_fetch_tool_result",
      ...served,
      content: {
        type: "web_fetch_result",
        url: "https://example.com",
        content: { type: "document", source },
      },
    },
    afterServerCall,
  ),
  code_execution_tool_result: around(
    {
      type: "code_execution_tool_result",
      ...served,
      content: { type: "code_execution_result", stdout: "1", stderr: "", return_code: 0, content: [] },
    },
    afterServerCall,
  ),
  bash_code_execution_tool_result: around(
    {
      type: "bash_code_execution_tool_result",
      ...served,
      content: { type: "bash_code_execution_result", stdout: "1", stderr: "", return_code: 0, content: [] },
    },
    afterServerCall,
  ),
  text_editor_code_execution_tool_result: around(
    {
      type: "text_editor_code_execution_tool_result",
      ...served,
      content: { type: "text_editor_code_execution_create_result", is_file_update: false },
    },
    afterServerCall,
  ),
  tool_search_tool_result: around(
    {
      type: "tool_search_tool_result",
      ...served,
      content: { type: "tool_search_tool_search_result", tool_references: [] },
    },
    afterServerCall,
  ),
};

function around<B extends ContentBlockParam>(block: B, place: (block: B) => MessageParam[]) {
  return { block, messages: place(block) };
}

function answered(block: ContentBlockParam): MessageParam[] {
  return [asked, { role: "assistant", content: [text, block] }];
}

function given(
  block: Block<"tool_result"> = { type: "tool_result", tool_use_id: "toolu_1", content: [text] },
): MessageParam {
  return { role: "user", content: [block] };
}

it.each(Object.entries(blocks))(
  "a block %s is restored unchanged from Anthropic's messages",
  (_type, { messages }) => {
    const model = { provider: "anthropic", modelId: "claude-test" };
    expect(toAnthropic(fromAnthropic(messages, { model })).messages).toEqual(messages);
  },
);

const question: ResponseInputItem = {
  type: "message",
  role: "user",
  content: [{ type: "input_text", text: "Go." }],
};
const answer: ResponseInputItem = { type: "message", role: "assistant", content: "Said." };
const done = { status: "completed" } as const;
const called = (item: ResponseInputItem): ResponseInputItem[] => [question, item, answer];
const calledAndGiven = (item: ResponseInputItem, output: ResponseInputItem): ResponseInputItem[] => [
  question,
  item,
  output,
  answer,
];

const functionCall: ResponseInputItem = {
  type: "function_call",
  call_id: "call_1",
  name: "look",
  arguments: "{}",
};
const functionOutput: ResponseInputItem = {
  type: "function_call_output",
  call_id: "call_1",
  output: "Seen.",
};
const customCall: ResponseInputItem = {
  type: "custom_tool_call",
  call_id: "call_1",
  name: "patch",
  input: "***",
};
const customOutput: ResponseInputItem = {
  type: "custom_tool_call_output",
  call_id: "call_1",
  output: "Done.",
};
const computerCall: ResponseInputItem = {
  type: "computer_call",
  id: "cu_1",
  call_id: "call_1",
  pending_safety_checks: [],
  action: { type: "screenshot" },
  ...done,
};
const computerOutput: ResponseInputItem = {
  type: "computer_call_output",
  call_id: "call_1",
  output: { type: "computer_screenshot", file_id: "file_1" },
};
const searchCall: ResponseInputItem = { type: "tool_search_call", call_id: "call_1", arguments: {} };
const searchOutput: ResponseInputItem = { type: "tool_search_output", call_id: "call_1", tools: [] };
const localShell: ResponseInputItem = {
  type: "local_shell_call",
  id: "ls_1",
  call_id: "call_1",
  action: { type: "exec", command: ["ls"], env: {} },
  ...done,
};
const localOutput: ResponseInputItem = { type: "local_shell_call_output", id: "ls_1", output: "a.ts" };
const shell: ResponseInputItem = { type: "shell_call", call_id: "call_1", action: { commands: ["ls"] } };
const shellOutput: ResponseInputItem = { type: "shell_call_output", call_id: "call_1", output: [] };
const patch: ResponseInputItem = {
  type: "apply_patch_call",
  call_id: "call_1",
  operation: { type: "delete_file", path: "a.ts" },
  ...done,
};
const patchOutput: ResponseInputItem = { type: "apply_patch_call_output", call_id: "call_1", ...done };
const approval: ResponseInputItem = {
  type: "mcp_approval_request",
  id: "ap_1",
  name: "look",
  server_label: "eyes",
  arguments: "{}",
};
const approved: ResponseInputItem = {
  type: "mcp_approval_response",
  approval_request_id: "ap_1",
  approve: true,
};
const program: ResponseInputItem = {
  type: "program",
  id: "p_1",
  call_id: "call_1",
  code: "1",
  fingerprint: "f",
};
const programOutput: ResponseInputItem = {
  type: "program_output",
  id: "p_2",
  call_id: "call_1",
  result: "1",
  ...done,
};

/** A reference is nothing that could be kept: what it names lies with the provider. */
type Kept = Exclude<NonNullable<ResponseInputItem["type"]>, "item_reference">;

const conversations: { [Type in Kept]: ResponseInputItem[] } = {
  message: [question, answer],
  reasoning: called({ type: "reasoning", id: "rs_1", summary: [], encrypted_content: "ZW5j" }),
  compaction: [
    question,
    { type: "compaction", id: "cmp_1", encrypted_content: "ZW5j" },
    { ...question },
    answer,
  ],
  compaction_trigger: [question, { type: "compaction_trigger" }],
  additional_tools: [question, { type: "additional_tools", role: "developer", tools: [] }, answer],
  function_call: calledAndGiven(functionCall, functionOutput),
  function_call_output: calledAndGiven(functionCall, functionOutput),
  custom_tool_call: calledAndGiven(customCall, customOutput),
  custom_tool_call_output: calledAndGiven(customCall, customOutput),
  computer_call: calledAndGiven(computerCall, computerOutput),
  computer_call_output: calledAndGiven(computerCall, computerOutput),
  tool_search_call: calledAndGiven(searchCall, searchOutput),
  tool_search_output: calledAndGiven(searchCall, searchOutput),
  local_shell_call: calledAndGiven(localShell, localOutput),
  local_shell_call_output: calledAndGiven(localShell, localOutput),
  shell_call: calledAndGiven(shell, shellOutput),
  shell_call_output: calledAndGiven(shell, shellOutput),
  apply_patch_call: calledAndGiven(patch, patchOutput),
  apply_patch_call_output: calledAndGiven(patch, patchOutput),
  mcp_approval_request: calledAndGiven(approval, approved),
  mcp_approval_response: calledAndGiven(approval, approved),
  program: calledAndGiven(program, programOutput),
  program_output: calledAndGiven(program, programOutput),
  file_search_call: called({ type: "file_search_call", id: "fs_1", queries: ["espalier"], ...done }),
  web_search_call: called({
    type: "web_search_call",
    id: "ws_1",
    action: { type: "search", query: "espalier" },
    ...done,
  }),
  image_generation_call: called({ type: "image_generation_call", id: "ig_1", result: "iVBORw0K", ...done }),
  code_interpreter_call: called({
    type: "code_interpreter_call",
    id: "ci_1",
    code: "1",
    container_id: "c",
    outputs: null,
    ...done,
  }),
  mcp_list_tools: called({ type: "mcp_list_tools", id: "ml_1", server_label: "eyes", tools: [] }),
  mcp_call: called({ type: "mcp_call", id: "mc_1", name: "look", server_label: "eyes", arguments: "{}" }),
};

it.each(Object.entries(conversations))(
  "an item %s is restored unchanged from OpenAI's input",
  (_type, input) => {
    const model = { provider: "openai", modelId: "gpt-test" };
    const { input: again } = toOpenaiResponses(fromOpenaiResponses(input, { model }));
    expect(again).toEqual(input);
  },
);
