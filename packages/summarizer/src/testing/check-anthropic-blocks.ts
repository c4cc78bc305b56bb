import { isRecord } from "@espalier/session-tree";
import { type Problems, unknownFields } from "./request-shape.ts";

type Block = Record<string, unknown>;

/** A type of block: who may send it, which fields it has, and what else must hold. */
interface BlockRule {
  roles: readonly string[];
  fields: string;
  check?: (block: Block, at: string, problems: Problems) => void;
}

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
export function checkBlock(block: Block, role: string, at: string, problems: Problems): void {
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

const IMAGE_TYPES = new Set(["image/jpeg", "image/png", "image/gif", "image/webp"]);

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
export function checkCacheMarkers(body: Block, problems: Problems): void {
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
