import { isRecord } from "../entry/message.ts";
import { checkUnicode, isReadable, MEDIA_TYPES, type Must } from "./anthropic-rules.ts";

/** A parsed request whose shape is not checked yet. */
// biome-ignore lint/suspicious/noExplicitAny: a checker reads what it does not trust, and a test fails where it stumbles
export type Json = Record<string, any>;

/**
 * Returns the rules of OpenAI's Chat Completions that a request breaks:
 * https://platform.openai.com/docs/api-reference/chat
 */
export function chatProblems(request: Json): string[] {
  const problems: string[] = [];
  const must: Must = (holds, rule) => Boolean(holds || problems.push(rule));
  const messages: Json[] = request["messages"].slice(request["messages"][0]?.["role"] === "system" ? 1 : 0);
  const ids = new Set<string>();
  let owed: string[] = [];
  let previous = "";

  must(messages[0]?.["role"] === "user", "the conversation begins with the user");
  messages.forEach((message, at) => {
    const { role, content } = message;
    if (role === "tool") {
      must(
        owed.shift() === message["tool_call_id"],
        `${at}: messages with role 'tool' must be a response to a preceding message with 'tool_calls'`,
      );
      must(isReadable(content), `${at}: a result says something`);
    } else {
      must(
        owed.length === 0,
        `${at}: an assistant message with 'tool_calls' must be followed by tool messages responding to each`,
      );
      must(role !== previous, `${at}: roles alternate`);
    }
    if (role === "assistant") {
      const calls: Json[] = message["tool_calls"] ?? [];
      must(content === null ? calls.length > 0 : isReadable(content), `${at}: content or calls`);
      must(message["tool_calls"] === undefined || calls.length > 0, `${at}: tool_calls: an empty list`);
      for (const call of calls) {
        checkCall(call["id"], call["function"].name, 40, at, must, ids);
        must(isRecord(JSON.parse(call["function"].arguments)), `${at}: arguments are the JSON of an object`);
      }
      owed = calls.map(({ id }) => id);
    } else if (role === "user") {
      const parts: Json[] = typeof content === "string" ? [{ type: "text", text: content }] : content;
      must(parts.length > 0, `${at}: no parts`);
      for (const part of parts) {
        if (part["type"] === "image_url") must(isDataUrl(part["image_url"].url), `${at}: not an image`);
        else must(part["type"] === "text" && isReadable(part["text"]), `${at}: empty part`);
      }
    } else must(role === "tool", `${at}: unknown role`);
    previous = role;
  });
  must(owed.length === 0, "the last calls have no results");
  checkTools(request["tools"], (tool) => tool["function"], must);
  checkUnicode(request, must);
  return problems;
}

/** Returns the rules of OpenAI's Responses that a request breaks: https://platform.openai.com/docs/api-reference/responses */
export function responsesProblems(request: Json): string[] {
  const problems: string[] = [];
  const must: Must = (holds, rule) => Boolean(holds || problems.push(rule));
  const input: Json[] = request["input"];
  const ids = new Set<string>();
  const owed: string[] = [];

  must(input[0]?.["role"] === "user", "the conversation begins with the user");
  input.forEach((item, at) => {
    must(
      (item["id"] === undefined) === (item["type"] !== "reasoning"),
      `${at}: Item with id not found, or reasoning without its id`,
    );
    if (item["type"] === "function_call_output") {
      must(owed.shift() === item["call_id"], `${at}: No tool call found for function call output`);
      must(isContent(item["output"]), `${at}: empty output`);
    } else if (item["type"] === "function_call") {
      checkCall(item["call_id"], item["name"], 64, at, must, ids);
      must(isRecord(JSON.parse(item["arguments"])), `${at}: arguments are the JSON of an object`);
      owed.push(item["call_id"]);
    } else if (item["type"] === "reasoning") {
      must(
        typeof item["encrypted_content"] === "string" && Array.isArray(item["summary"]),
        `${at}: no content`,
      );
      const next = input[at + 1] ?? {};
      must(
        ["reasoning", "function_call"].includes(next["type"]) || next["role"] === "assistant",
        `${at}: reasoning was provided without its required following item`,
      );
    } else {
      must(owed.length === 0, `${at}: No tool output found for function call`);
      must(item["type"] === "message", `${at}: unknown item`);
      if (item["role"] === "assistant") must(isReadable(item["content"]), `${at}: empty answer`);
      else must(item["role"] === "user" && isContent(item["content"]), `${at}: empty message`);
    }
  });
  must(owed.length === 0, "No tool output found for function call");
  checkTools(request["tools"], (tool) => tool, must);
  checkUnicode(request, must);
  return problems;
}

/** Returns whether a content is valid. A text is a short form for one part. */
function isContent(content: string | Json[]): boolean {
  const parts = typeof content === "string" ? [{ type: "input_text", text: content }] : content;
  return Array.isArray(parts) && parts.length > 0 && parts.every(isPart);
}

function isPart(part: Json): boolean {
  return part["type"] === "input_text"
    ? isReadable(part["text"])
    : part["type"] === "input_image" && isDataUrl(part["image_url"]);
}

function isDataUrl(url: string): boolean {
  const [, mediaType, data] = /^data:([^;]*);base64,(.*)$/.exec(url) ?? [];
  return MEDIA_TYPES.has(mediaType ?? "") && /^[A-Za-z0-9+/]+=*$/.test(data ?? "");
}

const ID = /^[a-zA-Z0-9_-]+$/;

function checkCall(
  id: string,
  name: string,
  idLength: number,
  at: number,
  must: Must,
  ids: Set<string>,
): void {
  must(ID.test(id) && id.length <= idLength, `${at}: id should match pattern`);
  must(ID.test(name) && name.length <= 64, `${at}: name should match pattern`);
  must(!ids.has(id), `${at}: ids of calls must be unique`);
  ids.add(id);
}

function checkTools(tools: Json[] | undefined, inner: (tool: Json) => Json, must: Must): void {
  if (tools === undefined) return;
  must(tools.length > 0, "tools: an empty list");
  const names = tools.map((tool) => inner(tool)["name"]);
  must(
    names.every((name) => ID.test(name) && name.length <= 64),
    "tools: name should match pattern",
  );
  must(new Set(names).size === names.length, "tools: tool names must be unique");
  for (const tool of tools) {
    const { parameters } = inner(tool);
    must(
      parameters?.type === "object" && isRecord(parameters.properties),
      "tools: schema is not of an object",
    );
  }
}
