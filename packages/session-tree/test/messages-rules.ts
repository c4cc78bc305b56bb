/**
 * What providers refuse, written down from their documentation and error messages and without a look at the code that
 * builds requests. Each function returns the rules that a request breaks, in words; none when it is valid.
 */

// biome-ignore lint/suspicious/noExplicitAny: a checker reads what it does not trust, and a test fails where it stumbles
type Json = Record<string, any>;
type Must = (holds: boolean, rule: string) => unknown;

const ID = /^[a-zA-Z0-9_-]+$/;
const MEDIA = new Set(["image/jpeg", "image/png", "image/gif", "image/webp"]);
const isObject = (value: unknown): value is Json =>
  typeof value === "object" && value !== null && !Array.isArray(value);
const isReadable = (text: unknown): boolean => typeof text === "string" && /[^\s\x1c-\x1f\x85]/.test(text);

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

function checkCall(
  id: string,
  name: string,
  idLength: number,
  nameLength: number,
  where: string,
  must: Must,
  ids: Set<string>,
): void {
  must(ID.test(id) && id.length <= idLength, `${where}: id should match pattern`);
  must(ID.test(name) && name.length <= nameLength, `${where}: name should match pattern`);
  must(!ids.has(id), `${where}: \`tool_use\` ids must be unique`);
  ids.add(id);
}

function checkTools(
  tools: Json[] | undefined,
  inner: (tool: Json) => Json,
  schema: string,
  nameLength: number,
  must: Must,
): void {
  if (tools === undefined) return;
  must(tools.length > 0, "tools: an empty list");
  const names = tools.map((tool) => inner(tool)["name"]);
  must(
    names.every((name) => ID.test(name) && name.length <= nameLength),
    "tools: name should match pattern",
  );
  must(new Set(names).size === names.length, "tools: tool names must be unique");
  for (const tool of tools) {
    must(
      inner(tool)[schema]?.type === "object" && isObject(inner(tool)[schema].properties),
      "tools: schema is not of an object",
    );
  }
}

function checkUnicode(request: Json, must: Must): void {
  // Lone surrogates are what JSON.stringify escapes as \ud8xx to \udfxx; a backslash of the text comes doubled.
  must(
    !JSON.stringify(request).replaceAll("\\\\", "").includes("\\ud"),
    "the request body is not valid JSON: no low surrogate in string",
  );
}

/** Chat Completions of OpenAI: https://platform.openai.com/docs/api-reference/chat */
export function chatProblems(request: Json): string[] {
  const problems: string[] = [];
  const must: Must = (holds, rule) => holds || problems.push(rule);
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
        checkCall(call["id"], call["function"].name, 40, 64, `${at}`, must, ids);
        must(isObject(JSON.parse(call["function"].arguments)), `${at}: arguments are the JSON of an object`);
      }
      owed = calls.map(idOf);
    } else if (role === "user") {
      const parts: Json[] = typeof content === "string" ? [{ type: "text", text: content }] : content;
      must(parts.length > 0, `${at}: no parts`);
      for (const part of parts) {
        if (part["type"] === "image_url") must(isDataUrl(part["image_url"].url), `${at}: not a picture`);
        else must(part["type"] === "text" && isReadable(part["text"]), `${at}: empty part`);
      }
    } else must(role === "tool", `${at}: unknown role`);
    previous = role;
  });
  must(owed.length === 0, "the last calls have no results");
  checkTools(request["tools"], (tool) => tool["function"], "parameters", 64, must);
  checkUnicode(request, must);
  return problems;
}

/** Responses of OpenAI: https://platform.openai.com/docs/api-reference/responses */
export function responsesProblems(request: Json): string[] {
  const problems: string[] = [];
  const must: Must = (holds, rule) => holds || problems.push(rule);
  const input: Json[] = request["input"];
  const ids = new Set<string>();
  const owed: string[] = [];

  must(input[0]?.["role"] === "user", "the conversation begins with the user");
  input.forEach((item, at) => {
    must(item["id"] === undefined, `${at}: Item with id not found`);
    if (item["type"] === "function_call_output") {
      must(owed.shift() === item["call_id"], `${at}: No tool call found for function call output`);
      const parts: Json[] =
        typeof item["output"] === "string" ? [{ type: "input_text", text: item["output"] }] : item["output"];
      must(parts.length > 0 && parts.every(isPart), `${at}: empty output`);
    } else if (item["type"] === "function_call") {
      checkCall(item["call_id"], item["name"], 64, 64, `${at}`, must, ids);
      must(isObject(JSON.parse(item["arguments"])), `${at}: arguments are the JSON of an object`);
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
      else
        must(
          item["role"] === "user" && item["content"].length > 0 && item["content"].every(isPart),
          `${at}: empty message`,
        );
    }
  });
  must(owed.length === 0, "No tool output found for function call");
  checkTools(request["tools"], (tool) => tool, "parameters", 64, must);
  checkUnicode(request, must);
  return problems;
}

function isPart(part: Json): boolean {
  return part["type"] === "input_text"
    ? isReadable(part["text"])
    : part["type"] === "input_image" && isDataUrl(part["image_url"]);
}

function isDataUrl(url: string): boolean {
  const [, mediaType, data] = /^data:([^;]*);base64,(.*)$/.exec(url) ?? [];
  return MEDIA.has(mediaType ?? "") && /^[A-Za-z0-9+/]+=*$/.test(data ?? "");
}

const isOf = (type: string) => (block: Json) => block["type"] === type;
const idOf = (block: Json): string => block["id"];
const same = (a: unknown[], b: unknown[]) =>
  a.length === b.length && a.every((value, index) => value === b[index]);
