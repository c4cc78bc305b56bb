import type { IncomingMessage } from "node:http";
import { isRecord } from "@espalier/session-tree";

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

type Block = Record<string, unknown>;

/** A type of block: who may send it, which fields it has, and what else must hold. */
interface BlockRule {
  roles: readonly string[];
  fields: string;
  check?: (block: Block, at: string, problems: Problems) => void;
}

const IMAGE_TYPES = new Set(["image/jpeg", "image/png", "image/gif", "image/webp"]);

const RULES: Record<string, BlockRule> = {
  text: { roles: ["user", "assistant"], fields: "text citations", check: checkTextBlock },
  image: { roles: ["user"], fields: "source transformations", check: checkImage },
  document: { roles: ["user"], fields: "source citations context title" },
  search_result: { roles: ["user"], fields: "content source title citations" },
  tool_result: {
    roles: ["user"],
    fields: "tool_use_id content is_error toolset_name",
    check: checkToolResult,
  },
  tool_use: { roles: ["assistant"], fields: "id name input caller toolset_name", check: checkToolUse },
  thinking: { roles: ["assistant"], fields: "thinking signature", check: checkThinkingBlock },
  redacted_thinking: { roles: ["assistant"], fields: "data", check: checkRedacted },
};

/** Checks one block of a message. Types of server tools are let pass: nothing here sends them. */
function checkBlock(block: Block, role: string, at: string, problems: Problems): void {
  const type = block["type"];
  if (typeof type !== "string") return void problems.push(`${at}.type: a type is required`);
  const rule = RULES[type];
  if (!rule) {
    if (!type.startsWith("server_tool") && !type.endsWith("_tool_result"))
      problems.push(`${at}: unknown type ${type}`);
    return;
  }
  if (!rule.roles.includes(role)) problems.push(`${at}: ${type} blocks cannot be in ${role} messages`);
  unknownFields(block, new Set(["type", "cache_control", ...rule.fields.split(" ")]), at, problems);
  rule.check?.(block, at, problems);
}

function checkTextBlock(block: Block, at: string, problems: Problems): void {
  const { text } = block;
  if (typeof text !== "string") problems.push(`${at}.text: text is required`);
  else if (text === "") problems.push(`${at}: text content blocks must be non-empty`);
  else if (text.trim() === "") problems.push(`${at}: text content blocks must contain non-whitespace text`);
}

function checkImage(block: Block, at: string, problems: Problems): void {
  const { source } = block;
  if (!isRecord(source)) return void problems.push(`${at}.source: a source is required`);
  if (source["type"] !== "base64") return;
  if (!IMAGE_TYPES.has(String(source["media_type"]))) {
    problems.push(`${at}.source.media_type: must be image/jpeg, image/png, image/gif or image/webp`);
  }
  const { data } = source;
  if (typeof data !== "string" || data === "" || !/^[A-Za-z0-9+/]+={0,2}$/.test(data)) {
    problems.push(`${at}.source.data: must be base64`);
  }
}

function checkToolUse(block: Block, at: string, problems: Problems): void {
  if (!/^[a-zA-Z0-9_-]+$/.test(String(block["id"] ?? "")))
    problems.push(`${at}.id: must match ^[a-zA-Z0-9_-]+$`);
  if (!/^[a-zA-Z0-9_-]{1,200}$/.test(String(block["name"] ?? "")))
    problems.push(`${at}.name: must match ^[a-zA-Z0-9_-]{1,200}$`);
  if (!isRecord(block["input"])) problems.push(`${at}.input: must be an object`);
}

function checkToolResult(block: Block, at: string, problems: Problems): void {
  if (typeof block["tool_use_id"] !== "string") problems.push(`${at}.tool_use_id: an id is required`);
  const { content, is_error: isError } = block;
  if (isError !== undefined && typeof isError !== "boolean")
    problems.push(`${at}.is_error: must be true or false`);
  if (content === undefined || typeof content === "string") return;
  if (!Array.isArray(content)) return void problems.push(`${at}.content: neither text nor a list of blocks`);
  for (const [index, inner] of content.entries()) {
    const place = `${at}.content.${index}`;
    if (!isRecord(inner)) problems.push(`${place}: not an object`);
    else if (!["text", "image", "document", "search_result"].includes(String(inner["type"]))) {
      problems.push(`${place}: ${String(inner["type"])} blocks cannot be in a tool result`);
    } else {
      if (isError === true && inner["type"] !== "text") {
        problems.push(`${at}: all content must be type "text" if "is_error" is true`);
      }
      checkBlock(inner, "user", place, problems);
    }
  }
}

function checkThinkingBlock(block: Block, at: string, problems: Problems): void {
  if (typeof block["thinking"] !== "string") problems.push(`${at}.thinking: text is required`);
  if (typeof block["signature"] !== "string" || block["signature"] === "") {
    problems.push(`${at}.signature: a signature is required`);
  }
  if (block["cache_control"] !== undefined) problems.push(`${at}: thinking cannot carry cache_control`);
}

function checkRedacted(block: Block, at: string, problems: Problems): void {
  if (typeof block["data"] !== "string" || block["data"] === "")
    problems.push(`${at}.data: data is required`);
}

/** At most four markers in one request. */
function checkCacheMarkers(body: Block, problems: Problems): void {
  let markers = body["cache_control"] ? 1 : 0;
  const lists = [body["tools"], body["system"], ...messagesOf(body).map(({ content }) => content)];
  for (const list of lists) {
    if (!Array.isArray(list)) continue;
    for (const item of list) {
      if (!isRecord(item)) continue;
      if (item["cache_control"]) markers++;
      const inner = item["type"] === "tool_result" && Array.isArray(item["content"]) ? item["content"] : [];
      markers += inner.filter((block) => isRecord(block) && block["cache_control"]).length;
    }
  }
  if (markers > 4)
    problems.push(`a maximum of 4 blocks with cache_control may be provided, found ${markers}`);
}

const messagesOf = (body: Block): Block[] =>
  Array.isArray(body["messages"]) ? body["messages"].filter(isRecord) : [];

/**
 * Every call is followed at once by its result: the next turn is the user's, begins with exactly the results of the calls
 * before it, in any order, and no other result. Ids are unique in the whole conversation.
 */
function checkToolPairs(turns: readonly CheckedTurn[], problems: Problems): void {
  const used = new Set<string>();
  let open = new Set<string>();
  for (const turn of turns) {
    if (turn.role === "user") open = checkResults(turn, open, problems);
    else open = checkCalls(turn, used, problems);
  }
  missing(open, problems);
}

function checkCalls(turn: CheckedTurn, used: Set<string>, problems: Problems): Set<string> {
  const calls = new Set<string>();
  for (const { block, at } of turn.blocks) {
    if (block["type"] !== "tool_use") continue;
    const id = String(block["id"]);
    if (used.has(id)) problems.push(`${at}.id: tool_use ids must be unique`);
    used.add(id);
    calls.add(id);
  }
  const end = turn.blocks.at(-1);
  if (end && (end.block["type"] === "thinking" || end.block["type"] === "redacted_thinking")) {
    problems.push(`${end.at}: the final block in an assistant message cannot be thinking`);
  }
  return calls;
}

/** Returns the calls that still have no result, after saying so: nothing can answer them any more. */
function checkResults(turn: CheckedTurn, open: ReadonlySet<string>, problems: Problems): Set<string> {
  const waiting = new Set(open);
  const answered = new Set<string>();
  let others = 0;
  for (const { block, at } of turn.blocks) {
    if (block["type"] !== "tool_result") {
      others++;
      continue;
    }
    const id = String(block["tool_use_id"]);
    if (answered.has(id))
      problems.push(`${at}: each tool_use must have a single result, found more for ${id}`);
    else if (!waiting.delete(id))
      problems.push(`${at}: unexpected tool_use_id ${id} in tool_result: no such call just before`);
    else if (others > 0) problems.push(`${at}: tool_result blocks must come before other content`);
    answered.add(id);
  }
  missing(waiting, problems);
  return new Set();
}

function missing(open: ReadonlySet<string>, problems: Problems): void {
  for (const id of open)
    problems.push(`tool_use ${id} was found without a tool_result block immediately after`);
}

/** Sentences about what is wrong, in the order in which it was found. */
type Problems = string[];

/** The API refuses fields that it does not know. */
function unknownFields(
  value: Record<string, unknown>,
  known: ReadonlySet<string>,
  at: string,
  problems: Problems,
): void {
  for (const field of Object.keys(value)) {
    if (!known.has(field))
      problems.push(`${at === "" ? "" : `${at}.`}${field}: extra inputs are not permitted`);
  }
}

/** One turn: neighbouring messages of one role, which the API joins. */
interface CheckedTurn {
  role: "user" | "assistant";
  blocks: { block: Record<string, unknown>; at: string }[];
}

/** A request as it came in. */
export interface ReceivedRequest {
  /** Its number among requests of its kind, from 1. */
  n: number;
  headers: Readonly<Record<string, string | string[] | undefined>>;
  /** The bytes of the body. */
  raw: Buffer;
  /** The body parsed; an empty object where it is no JSON object. */
  body: Record<string, unknown>;
  /** What is wrong with it by the rules of the API. */
  problems: string[];
  /** Milliseconds (`performance.now`) when it was read. */
  receivedAt: number;
  /** Milliseconds when its answer ended, however it ended. */
  answeredAt?: number;
  /** Requests that were being answered when it came, itself included. */
  inFlight: number;
}

/** Makes a record of a request and puts it at the end of `kind`. */
export function receiveRequest(
  incoming: IncomingMessage,
  raw: Buffer,
  kind: ReceivedRequest[],
): ReceivedRequest {
  const body = parseBody(raw);
  const request: ReceivedRequest = {
    n: kind.length + 1,
    headers: incoming.headers,
    raw,
    body,
    problems: [],
    receivedAt: performance.now(),
    inFlight: 0,
  };
  kind.push(request);
  return request;
}

/** The problems of a request for a message, or (`isCount`) of one to count tokens, which names no output limit. */
export function problemsOf({ body }: ReceivedRequest, isCount: boolean): string[] {
  return checkAnthropicRequest(isCount ? { max_tokens: 1, ...body } : body, { endsWithUser: !isCount });
}

/** The bytes of a body; undefined where there are more than `largest`. */
export async function readBody(incoming: IncomingMessage, largest: number): Promise<Buffer | undefined> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of incoming as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes <= largest) chunks.push(chunk);
  }
  return bytes > largest ? undefined : Buffer.concat(chunks);
}

function parseBody(raw: Buffer): Record<string, unknown> {
  try {
    const body: unknown = JSON.parse(raw.toString("utf8"));
    return typeof body === "object" && body !== null ? (body as Record<string, unknown>) : {};
  } catch {
    // What is no JSON has no fields; the check then names everything that is missing.
    return {};
  }
}
