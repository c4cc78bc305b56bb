/**
 * What providers refuse, written down from their documentation and error messages and without a look at the code that
 * builds requests. Each function returns the rules that a request breaks, in words; none when it is valid.
 */
import {
  checkCall,
  checkTools,
  checkUnicode,
  idOf,
  isObject,
  isReadable,
  type Json,
  MEDIA,
  type Must,
} from "./request-rules.ts";

/** Anthropic: https://docs.anthropic.com/en/api/messages */
export function messagesProblems(request: Json): string[] {
  const problems: string[] = [];
  const must: Must = (holds, rule) => holds || problems.push(rule);
  const messages: Json[] = request["messages"];
  const ids = new Set<string>();

  must(messages.length > 0, "messages: at least one message is required");
  must(messages[0]?.["role"] === "user", "messages: first message must use the user role");
  messages.forEach((message, at) => {
    const content: Json[] = message["content"];
    const before = at > 0 ? messages[at - 1]! : undefined;
    must(["user", "assistant"].includes(message["role"]), `messages.${at}: unknown role`);
    must(message["role"] !== before?.["role"], `messages.${at}: roles must alternate`);
    must(Array.isArray(content) && content.length > 0, `messages.${at}: content must not be empty`);

    const owed = before?.["role"] === "assistant" ? before["content"].filter(isOf("tool_use")).map(idOf) : [];
    const given = content.slice(0, owed.length);
    must(
      given.every(isOf("tool_result")) &&
        same(
          given.map((block) => block["tool_use_id"]),
          owed,
        ),
      `messages.${at}: \`tool_use\` ids were found without \`tool_result\` blocks immediately after`,
    );
    must(
      !content.slice(owed.length).some(isOf("tool_result")),
      `messages.${at}: unexpected \`tool_use_id\` found in \`tool_result\` blocks`,
    );

    content.forEach((block, nth) => {
      const where = `messages.${at}.content.${nth}`;
      if (message["role"] === "user") checkUserBlock(block, where, must);
      else checkAnswerBlock(block, where, must, ids);
    });
    if (message["role"] !== "assistant") return;
    const kinds = content.map((block) => block["type"]);
    must(
      !/thinking$/.test(kinds.at(-1)),
      `messages.${at}: the final block in an assistant message cannot be \`thinking\``,
    );
    const calls = kinds.indexOf("tool_use");
    must(
      calls < 0 || !kinds.slice(calls).includes("text"),
      `messages.${at}: text between a call and its result`,
    );
  });

  const last = messages.at(-1)!;
  must(
    last["role"] !== "assistant" || !last["content"].some(isOf("tool_use")),
    "messages: the last call has no result",
  );
  const lastText = last["content"].at(-1)?.["text"];
  must(
    last["role"] !== "assistant" || typeof lastText !== "string" || lastText.trimEnd() === lastText,
    "messages: final assistant content cannot end with trailing whitespace",
  );
  must(
    request["system"] === undefined || isReadable(request["system"]),
    "system: text content blocks must be non-empty",
  );
  checkTools(request["tools"], (tool) => tool, "input_schema", 128, must);
  checkUnicode(request, must);
  return problems;
}

function checkUserBlock(block: Json, where: string, must: Must): void {
  if (block["type"] === "text") {
    must(isReadable(block["text"]), `${where}: text content blocks must contain non-whitespace text`);
    must(same(Object.keys(block), ["type", "text"]), `${where}: extra inputs are not permitted`);
  } else if (block["type"] === "image") {
    const { type, media_type, data } = block["source"];
    must(type === "base64" && MEDIA.has(media_type), `${where}: media_type should be jpeg, png, gif or webp`);
    must(/^[A-Za-z0-9+/]+=*$/.test(data), `${where}: invalid base64`);
  } else if (block["type"] === "tool_result") {
    const content: Json[] = block["content"];
    must(
      content.every((inner) => inner["type"] !== "tool_result"),
      `${where}: nested results`,
    );
    for (const [nth, inner] of content.entries()) checkUserBlock(inner, `${where}.content.${nth}`, must);
    if (block["is_error"] === undefined) return;
    must(block["is_error"] === true, `${where}: is_error is a boolean`);
    must(content.length > 0, `${where}: content cannot be empty if \`is_error\` is true`);
    must(content.every(isOf("text")), `${where}: all content must be type \`text\` if \`is_error\` is true`);
  } else must(false, `${where}: unknown block ${block["type"]}`);
}

function checkAnswerBlock(block: Json, where: string, must: Must, ids: Set<string>): void {
  if (block["type"] === "text") {
    must(isReadable(block["text"]), `${where}: text content blocks must contain non-whitespace text`);
    must(same(Object.keys(block), ["type", "text"]), `${where}: extra inputs are not permitted`);
  } else if (block["type"] === "thinking") {
    must(typeof block["thinking"] === "string", `${where}: thinking: field required`);
    must(isReadable(block["signature"]), `${where}: invalid signature in thinking block`);
  } else if (block["type"] === "redacted_thinking") {
    must(isReadable(block["data"]), `${where}: invalid data in redacted_thinking block`);
  } else if (block["type"] === "tool_use") {
    checkCall(block["id"], block["name"], 64, 128, where, must, ids);
    must(isObject(block["input"]), `${where}: input should be a valid dictionary`);
  } else must(false, `${where}: unknown block ${block["type"]}`);
}

const isOf = (type: string) => (block: Json) => block["type"] === type;
const same = (a: unknown[], b: unknown[]) =>
  a.length === b.length && a.every((value, index) => value === b[index]);
