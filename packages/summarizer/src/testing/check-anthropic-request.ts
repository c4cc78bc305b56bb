import { isRecord } from "@espalier/session-tree";
import { checkBlock, checkCacheMarkers } from "./check-anthropic-blocks.ts";
import { checkToolPairs } from "./check-anthropic-pairs.ts";
import { type CheckedTurn, type Problems, unknownFields } from "./request-shape.ts";

/** What is checked beyond the rules that hold for every request. */
export interface CheckOptions {
  /** Whether a request may not end with an assistant message, as for models that do not take the beginning of an answer. */
  endsWithUser?: boolean;
}

const FIELDS = new Set(
  `model max_tokens messages system tools tool_choice thinking metadata stop_sequences stream temperature top_k top_p
   service_tier container output_config cache_control context_management mcp_servers speed inference_geo diagnostics
   user_profile_id workspace_id fallbacks betas`.split(/\s+/),
);

/**
 * What is wrong with a request by the rules of the Anthropic Messages API, a sentence for each problem; none for a
 * request that the API takes. Written from the API's documentation and its error messages, independently of the code that
 * builds requests.
 */
export function checkAnthropicRequest(body: unknown, options: CheckOptions = {}): string[] {
  const problems: Problems = [];
  if (!isRecord(body)) return ["the body is not an object"];
  unknownFields(body, FIELDS, "", problems);
  if (typeof body["model"] !== "string" || body["model"] === "") problems.push("model: a name is required");
  if (!isPositiveInteger(body["max_tokens"]))
    problems.push("max_tokens: a positive whole number is required");
  checkSystem(body["system"], problems);
  checkTools(body["tools"], problems);
  checkThinking(body, problems);
  const turns = checkMessages(body["messages"], problems);
  checkOrder(turns, options, problems);
  checkToolPairs(turns, problems);
  checkCacheMarkers(body, problems);
  checkText(body, problems);
  return problems;
}

const isPositiveInteger = (value: unknown) =>
  typeof value === "number" && Number.isInteger(value) && value > 0;

function checkSystem(system: unknown, problems: Problems): void {
  if (system === undefined || typeof system === "string") return;
  if (!Array.isArray(system)) return void problems.push("system: neither text nor a list of text blocks");
  for (const [index, block] of system.entries()) {
    if (!isRecord(block) || block["type"] !== "text") problems.push(`system.${index}: not a text block`);
    else checkBlock(block, "user", `system.${index}`, problems);
  }
}

function checkTools(tools: unknown, problems: Problems): void {
  if (tools === undefined) return;
  if (!Array.isArray(tools)) return void problems.push("tools: not a list");
  const names = new Set<unknown>();
  for (const [index, tool] of tools.entries()) {
    const at = `tools.${index}`;
    if (!isRecord(tool)) problems.push(`${at}: not an object`);
    else {
      if (names.has(tool["name"])) problems.push(`${at}: tool names must be unique`);
      names.add(tool["name"]);
      if (tool["type"] !== undefined && tool["type"] !== "custom") continue;
      if (!/^[a-zA-Z0-9_-]{1,128}$/.test(String(tool["name"]))) {
        problems.push(`${at}.name: must match ^[a-zA-Z0-9_-]{1,128}$`);
      }
      const schema = tool["input_schema"];
      if (!isRecord(schema) || schema["type"] !== "object")
        problems.push(`${at}.input_schema: type must be object`);
    }
  }
}

function checkThinking(body: Record<string, unknown>, problems: Problems): void {
  const thinking = body["thinking"];
  if (!isRecord(thinking) || thinking["type"] !== "enabled") return;
  const budget = thinking["budget_tokens"];
  if (typeof budget !== "number" || budget < 1_024)
    problems.push("thinking.budget_tokens: must be at least 1024");
  else if (Number(body["max_tokens"]) <= budget)
    problems.push("max_tokens: must be greater than thinking.budget_tokens");
}

/** Checks every message by itself; gives the turns that the API makes of them. */
function checkMessages(messages: unknown, problems: Problems): CheckedTurn[] {
  const turns: CheckedTurn[] = [];
  if (!Array.isArray(messages) || messages.length === 0) {
    problems.push("messages: at least one message is required");
    return turns;
  }
  for (const [index, message] of messages.entries()) {
    const at = `messages.${index}`;
    const role: unknown = isRecord(message) ? message["role"] : undefined;
    if (!isRecord(message) || (role !== "user" && role !== "assistant")) {
      problems.push(`${at}: role must be user or assistant`);
      continue;
    }
    unknownFields(message, new Set(["role", "content"]), at, problems);
    const blocks = contentOf(message["content"], at, problems).map((block, place) => ({
      block,
      at: `${at}.content.${place}`,
    }));
    for (const { block, at: place } of blocks) checkBlock(block, role, place, problems);
    const last = turns.at(-1);
    if (last?.role === role) last.blocks.push(...blocks);
    else turns.push({ role, blocks });
  }
  return turns;
}

function contentOf(content: unknown, at: string, problems: Problems): Record<string, unknown>[] {
  if (typeof content === "string") return [{ type: "text", text: content }];
  if (!Array.isArray(content)) {
    problems.push(`${at}.content: neither text nor a list of blocks`);
    return [];
  }
  if (content.length === 0) problems.push(`${at}: all messages must have non-empty content`);
  const blocks = content.filter(isRecord);
  if (blocks.length < content.length) problems.push(`${at}.content: a block is not an object`);
  return blocks;
}

function checkOrder(turns: readonly CheckedTurn[], options: CheckOptions, problems: Problems): void {
  if (turns[0] && turns[0].role !== "user") problems.push("messages: the first message must be a user's");
  const last = turns.at(-1);
  if (last?.role !== "assistant") return;
  if (options.endsWithUser) problems.push("messages: the conversation must end with a user message");
  const end = last.blocks.at(-1)?.block;
  if (end?.["type"] === "text" && /\s$/.test(String(end["text"]))) {
    problems.push("messages: final assistant content cannot end with trailing whitespace");
  }
}

/** Text with half a surrogate pair is no valid JSON for the API. */
function checkText(body: unknown, problems: Problems): void {
  const open: unknown[] = [body];
  while (open.length > 0) {
    const value = open.pop();
    if (typeof value === "string" && !value.isWellFormed()) {
      problems.push("the request body is not valid JSON: no low surrogate in string");
      return;
    }
    if (typeof value === "object" && value !== null)
      open.push(...Object.keys(value), ...Object.values(value));
  }
}
