import { checkAnthropicRequest } from "@espalier/session-tree/testing";
import { describe, expect, it } from "vitest";

const call = (id: string) => ({ type: "tool_use", id, name: "read", input: { path: "a" } });
const answer = (id: string, more = {}) => ({
  type: "tool_result",
  tool_use_id: id,
  content: "text",
  ...more,
});
const assistant = (...content: unknown[]) => ({ role: "assistant", content });
const user = (...content: unknown[]) => ({ role: "user", content });
const text = (value: string) => ({ type: "text", text: value });
const hello = { role: "user", content: "hello" };

const body = (messages: unknown[], more: Record<string, unknown> = {}) => ({
  model: "claude",
  max_tokens: 10,
  messages,
  ...more,
});

describe("checkAnthropicRequest", () => {
  it.each<[string, unknown]>([
    ["the smallest one", body([hello])],
    [
      "neighbouring messages of one role, which the API joins",
      body([hello, hello, assistant(text("a")), assistant(text("b")), hello]),
    ],
    [
      "parallel calls, their results in any order, text after them",
      body([
        hello,
        assistant(text("x"), call("1"), call("2")),
        user(answer("2"), answer("1"), text("go on")),
      ]),
    ],
    [
      "results in several messages",
      body([hello, assistant(call("1"), call("2")), user(answer("1")), user(answer("2"))]),
    ],
    [
      "thinking, signed or redacted, before a call",
      body([
        hello,
        assistant(
          { type: "thinking", thinking: "", signature: "s" },
          { type: "redacted_thinking", data: "d" },
          call("1"),
        ),
        user(answer("1")),
      ]),
    ],
    [
      "pictures, also in results, and results without content",
      body([
        user({ type: "image", source: { type: "base64", media_type: "image/png", data: "QUJD" } }),
        assistant(call("1"), call("2")),
        user(
          answer("1", {
            content: [{ type: "image", source: { type: "base64", media_type: "image/png", data: "QUJD" } }],
          }),
          answer("2", { content: [] }),
        ),
      ]),
    ],
    [
      "a system prompt, tools and cache markers",
      body([user({ ...text("hi"), cache_control: { type: "ephemeral" } })], {
        system: [text("s")],
        tools: [{ name: "read", input_schema: { type: "object" } }],
        stream: true,
      }),
    ],
    ["the beginning of an answer", body([hello, assistant(text("I"))])],
  ])("takes %s", (_, given) => {
    expect(checkAnthropicRequest(given)).toEqual([]);
  });

  it.each<[string, unknown, string]>([
    ["no body", null, "not an object"],
    ["no model", { max_tokens: 1, messages: [hello] }, "model"],
    ["no output limit", { model: "m", messages: [hello] }, "max_tokens"],
    ["no messages", body([]), "at least one message"],
    ["an assistant first", body([assistant(text("a")), hello]), "first message must be a user's"],
    ["another role", body([{ role: "system", content: "s" }, hello]), "role must be user or assistant"],
    ["an empty text", body([user(text(""))]), "non-empty"],
    ["an empty string", body([{ role: "user", content: "" }]), "non-empty"],
    ["blank text", body([user(text(" \n"))]), "non-whitespace"],
    ["an empty list", body([user()]), "non-empty content"],
    ["a call without a result", body([hello, assistant(call("1")), hello]), "without a tool_result"],
    ["a call at the end", body([hello, assistant(call("1"))]), "without a tool_result"],
    [
      "one of two results",
      body([hello, assistant(call("1"), call("2")), user(answer("1"))]),
      "tool_use 2 was found without",
    ],
    [
      "a message between call and result",
      body([hello, assistant(call("1")), user(text("wait")), assistant(text("ok")), user(answer("1"))]),
      "unexpected tool_use_id 1",
    ],
    ["a result without a call", body([user(answer("9"))]), "unexpected tool_use_id 9"],
    [
      "two results for one call",
      body([hello, assistant(call("1")), user(answer("1"), answer("1"))]),
      "single result",
    ],
    [
      "a server's result without its call",
      body([
        hello,
        assistant({ type: "web_search_tool_result", tool_use_id: "s1", content: [] }, text("so")),
      ]),
      "unexpected `tool_use_id` found in `web_search_tool_result` blocks: s1",
    ],
    [
      "a server's call without a result",
      body([hello, assistant({ type: "server_tool_use", id: "s1", name: "web_search", input: {} }), hello]),
      "without a corresponding `web_search_tool_result` block",
    ],
    [
      "a call that no program made",
      body([hello, assistant({ ...call("1"), caller: { tool_id: "s1" } }), user(answer("1"))]),
      "caller.tool_id",
    ],
    [
      "text before a result",
      body([hello, assistant(call("1")), user(text("so"), answer("1"))]),
      "before other content",
    ],
    [
      "one id twice",
      body([hello, assistant(call("1")), user(answer("1")), assistant(call("1")), user(answer("1"))]),
      "must be unique",
    ],
    ["an id with a colon", body([hello, assistant(call("a:1")), user(answer("a:1"))]), "must match"],
    [
      "input that is no object",
      body([hello, assistant({ ...call("1"), input: "x" }), user(answer("1"))]),
      "input: must be an object",
    ],
    ["a call by the user", body([user(call("1"))]), "cannot be in user messages"],
    [
      "a picture by the assistant",
      body([hello, assistant({ type: "image", source: {} })]),
      "cannot be in assistant messages",
    ],
    [
      "a picture in a failed result",
      body([
        hello,
        assistant(call("1")),
        user(answer("1", { is_error: true, content: [{ type: "image", source: { type: "url" } }] })),
      ]),
      "is_error",
    ],
    [
      "a picture of unknown type",
      body([user({ type: "image", source: { type: "base64", media_type: "image/bmp", data: "QUJD" } })]),
      "media_type",
    ],
    [
      "thinking without a signature",
      body([hello, assistant({ type: "thinking", thinking: "hm" }, text("a")), hello]),
      "signature",
    ],
    [
      "thinking at the end of an answer",
      body([hello, assistant(text("a"), { type: "thinking", thinking: "hm", signature: "s" }), hello]),
      "final block",
    ],
    [
      "fields that the API does not know",
      body([user({ ...text("a"), textSignature: "x" })]),
      "textSignature: extra inputs",
    ],
    [
      "fields of a message that it does not know",
      body([{ ...hello, timestamp: 1 }]),
      "timestamp: extra inputs",
    ],
    ["fields of a body that it does not know", body([hello], { tokens: 1 }), "tokens: extra inputs"],
    ["a lone surrogate", body([user(text("a\ud83d"))]), "no low surrogate"],
    [
      "a lone surrogate in arguments",
      body([hello, assistant({ ...call("1"), input: { "\udc00": 1 } }), user(answer("1"))]),
      "no low surrogate",
    ],
    [
      "two tools of one name",
      body([hello], {
        tools: [
          { name: "a", input_schema: { type: "object" } },
          { name: "a", input_schema: { type: "object" } },
        ],
      }),
      "tool names must be unique",
    ],
    [
      "five cache markers",
      body([
        user(...Array.from({ length: 5 }, () => ({ ...text("a"), cache_control: { type: "ephemeral" } }))),
      ]),
      "maximum of 4",
    ],
    [
      "a budget above the output limit",
      body([hello], { thinking: { type: "enabled", budget_tokens: 2_000 } }),
      "greater than thinking.budget_tokens",
    ],
    [
      "spaces at the end of an incomplete answer",
      body([hello, assistant(text("I "))]),
      "trailing whitespace",
    ],
  ])("names %s", (_, given, problem) => {
    expect(checkAnthropicRequest(given).join("\n")).toContain(problem);
  });

  it("can require a user message at the end", () => {
    expect(checkAnthropicRequest(body([hello, assistant(text("I"))]), { endsWithUser: true })).toHaveLength(
      1,
    );
  });
});
