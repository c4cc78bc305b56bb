import { isRecord } from "../entry/message.ts";

/** Additional rules that only some requests must keep. */
export interface CheckOptions {
  /**
   * True: an assistant message at the end is a problem, as for models that do not continue an answer. Default false.
   */
  endsWithUser?: boolean;
  /**
   * True: what the API tolerates but `buildRequest` must never write is a problem, too: consecutive messages of one
   * role, results in another order than their calls, text after a call. `model` and `max_tokens` can be missing.
   * Default false.
   */
  strict?: boolean;
}

type Fields = Record<string, unknown>;

/** Adds `problem` unless the rule holds; returns whether it holds. */
export type Must = (holds: unknown, problem: string) => boolean;

const FIELDS = new Set(
  `model max_tokens messages system tools tool_choice thinking metadata stop_sequences stream temperature top_k top_p
   service_tier container output_config cache_control context_management mcp_servers speed inference_geo diagnostics
   user_profile_id workspace_id fallbacks betas`.split(/\s+/),
);

/**
 * Returns a sentence for each rule of the Anthropic Messages API that a request breaks; an empty list for a request
 * that the API accepts. Written from the API's documentation and error messages
 * (https://docs.anthropic.com/en/api/messages), independently of the code that builds requests.
 */
export function checkAnthropicRequest(body: unknown, options: CheckOptions = {}): string[] {
  const problems: string[] = [];
  const must: Must = (holds, problem) => {
    if (!holds) problems.push(problem);
    return Boolean(holds);
  };
  if (!isRecord(body)) return ["the body is not an object"];
  const { model, max_tokens: limit, system, tools, messages } = body;
  knownFields(body, FIELDS, "", must);
  const mayMiss = (field: unknown) => options.strict && field === undefined;
  must(mayMiss(model) || (typeof model === "string" && model !== ""), "model: a name is required");
  must(
    mayMiss(limit) || (Number.isInteger(limit) && Number(limit) > 0),
    "max_tokens: a positive whole number is required",
  );
  checkSystem(system, options, must);
  checkTools(tools, options, must);
  checkThinkingBudget(body, must);
  const turns = checkMessages(messages, options, must);
  checkOrder(turns, options, must);
  checkPairs(turns, options, must);
  const markers = countMarkers([body, tools, system, messages]);
  must(markers <= 4, `a maximum of 4 blocks with cache_control may be provided, found ${markers}`);
  checkUnicode(body, must);
  return problems;
}

/**
 * Returns whether a text has visible characters for a provider. White space of JavaScript and of Python's `str.isspace`
 * is not visible.
 */
export const isReadable = (text: unknown): boolean =>
  typeof text === "string" && /[^\s\x1c-\x1f\x85]/.test(text);

/** Media types that every provider reads. */
export const MEDIA_TYPES = new Set(["image/jpeg", "image/png", "image/gif", "image/webp"]);

/** Adds a problem if a text or a key has a lone surrogate, because it is not valid JSON for an API. */
export function checkUnicode(body: unknown, must: Must): void {
  const open: unknown[] = [body];
  while (open.length > 0) {
    const value = open.pop();
    if (typeof value === "string" && !value.isWellFormed())
      return void must(false, "the request body is not valid JSON: no low surrogate in string");
    if (typeof value !== "object" || value === null) continue;
    for (const [key, inner] of Object.entries(value)) open.push(key, inner);
  }
}

/** Adds a problem for each unknown field, as the API does. */
function knownFields(value: Fields, known: ReadonlySet<string>, at: string, must: Must): void {
  const path = at === "" ? "" : `${at}.`;
  for (const field of Object.keys(value))
    must(known.has(field), `${path}${field}: extra inputs are not permitted`);
}

function checkSystem(system: unknown, { strict }: CheckOptions, must: Must): void {
  if (system === undefined) return;
  if (typeof system === "string")
    return void must(!strict || isReadable(system), "system: text content blocks must be non-empty");
  if (!must(Array.isArray(system), "system: neither text nor a list of text blocks")) return;
  for (const [index, block] of (system as unknown[]).entries()) {
    const at = `system.${index}`;
    if (must(isRecord(block) && block["type"] === "text", `${at}: not a text block`))
      checkBlock(block as Fields, "user", at, {}, must);
  }
}

const NAME = /^[a-zA-Z0-9_-]{1,128}$/;

function checkTools(tools: unknown, { strict }: CheckOptions, must: Must): void {
  if (tools === undefined || !must(Array.isArray(tools), "tools: not a list")) return;
  const list = tools as unknown[];
  must(!strict || list.length > 0, "tools: an empty list");
  const names = new Set<unknown>();
  for (const [index, tool] of list.entries()) {
    const at = `tools.${index}`;
    if (!isRecord(tool)) {
      must(false, `${at}: not an object`);
      continue;
    }
    must(!names.has(tool["name"]), `${at}: tool names must be unique`);
    names.add(tool["name"]);
    if (tool["type"] !== undefined && tool["type"] !== "custom") continue;
    must(NAME.test(String(tool["name"])), `${at}.name: must match ${NAME.source}`);
    const schema = tool["input_schema"];
    const isObject = isRecord(schema) && schema["type"] === "object";
    must(isObject, `${at}.input_schema: type must be object`);
    must(!strict || !isObject || isRecord(schema["properties"]), `${at}.input_schema: no properties`);
  }
}

function checkThinkingBudget({ thinking, max_tokens: limit }: Fields, must: Must): void {
  if (!isRecord(thinking) || thinking["type"] !== "enabled") return;
  const budget = thinking["budget_tokens"];
  if (must(Number(budget) >= 1_024, "thinking.budget_tokens: must be at least 1024"))
    must(Number(limit) > Number(budget), "max_tokens: must be greater than thinking.budget_tokens");
}

/** A block, with its path in the request. */
interface PlacedBlock {
  block: Fields;
  at: string;
}

/** One turn: consecutive messages of one role, which the API joins. */
interface CheckedTurn {
  role: "user" | "assistant";
  blocks: PlacedBlock[];
}

/** Checks each message on its own; returns the turns that the API makes of the messages. */
function checkMessages(messages: unknown, options: CheckOptions, must: Must): CheckedTurn[] {
  const turns: CheckedTurn[] = [];
  const list: unknown[] = Array.isArray(messages) ? messages : [];
  must(list.length > 0, "messages: at least one message is required");
  for (const [index, message] of list.entries()) {
    const at = `messages.${index}`;
    const { role, content }: Fields = isRecord(message) ? message : {};
    if (role !== "user" && role !== "assistant") {
      must(false, `${at}: role must be user or assistant`);
      continue;
    }
    knownFields(message as Fields, new Set(["role", "content"]), at, must);
    const blocks = blocksOf(content, at, must);
    for (const { block, at: place } of blocks) checkBlock(block, role, place, options, must);
    const last = turns.at(-1);
    must(!options.strict || last?.role !== role, `${at}: roles must alternate`);
    if (last?.role === role) last.blocks.push(...blocks);
    else turns.push({ role, blocks });
  }
  return turns;
}

function blocksOf(content: unknown, at: string, must: Must): PlacedBlock[] {
  if (!must(typeof content === "string" || Array.isArray(content), `${at}.content: neither text nor a list`))
    return [];
  const list: unknown[] = typeof content === "string" ? [{ type: "text", text: content }] : (content as []);
  must(list.length > 0, `${at}: all messages must have non-empty content`);
  must(list.every(isRecord), `${at}.content: a block is not an object`);
  return list.flatMap((block, place) => (isRecord(block) ? [{ block, at: `${at}.content.${place}` }] : []));
}

function checkOrder(turns: readonly CheckedTurn[], { endsWithUser }: CheckOptions, must: Must): void {
  const last = turns.at(-1);
  if (turns[0]) must(turns[0].role === "user", "messages: the first message must be a user's");
  if (last?.role !== "assistant") return;
  must(!endsWithUser, "messages: the conversation must end with a user message");
  const text = last.blocks.at(-1)?.block["text"];
  must(
    typeof text !== "string" || !/[\s\x1c-\x1f\x85]$/.test(text),
    "messages: final assistant content cannot end with trailing whitespace",
  );
}

/** Rules of one type of block: its fields, the roles that can send it, and other checks. */
interface BlockRule {
  roles: string;
  fields: string;
  check?: (block: Fields, at: string, must: Must, options: CheckOptions) => void;
}

const RULES: Record<string, BlockRule> = {
  text: {
    roles: "user assistant",
    fields: "text citations",
    check({ text }, at, must) {
      if (!must(typeof text === "string", `${at}.text: text is required`)) return;
      if (must(text !== "", `${at}: text content blocks must be non-empty`))
        must(isReadable(text), `${at}: text content blocks must contain non-whitespace text`);
    },
  },
  image: { roles: "user", fields: "source transformations", check: checkImage },
  document: { roles: "user", fields: "source citations context title" },
  search_result: { roles: "user", fields: "content source title citations" },
  tool_result: { roles: "user", fields: "tool_use_id content is_error toolset_name", check: checkResult },
  tool_use: {
    roles: "assistant",
    fields: "id name input caller toolset_name",
    check({ id, name, input }, at, must, { strict }) {
      const longest = strict ? 64 : Number.POSITIVE_INFINITY;
      const isId = /^[a-zA-Z0-9_-]+$/.test(String(id ?? "")) && String(id).length <= longest;
      must(isId, `${at}.id: must match ^[a-zA-Z0-9_-]+$`);
      must(
        /^[a-zA-Z0-9_-]{1,200}$/.test(String(name ?? "")) && (!strict || NAME.test(String(name))),
        `${at}.name: must match ^[a-zA-Z0-9_-]{1,200}$`,
      );
      must(isRecord(input), `${at}.input: must be an object`);
    },
  },
  thinking: {
    roles: "assistant",
    fields: "thinking signature",
    check({ thinking, signature, cache_control: marker }, at, must) {
      must(typeof thinking === "string", `${at}.thinking: text is required`);
      must(isReadable(signature), `${at}.signature: a signature is required`);
      must(marker === undefined, `${at}: thinking cannot carry cache_control`);
    },
  },
  redacted_thinking: {
    roles: "assistant",
    fields: "data",
    check: ({ data }, at, must) => void must(isReadable(data), `${at}.data: data is required`),
  },
};

/** Checks one block of a message. Types of server tools are accepted without checks, because Espalier does not send them. */
function checkBlock(block: Fields, role: string, at: string, options: CheckOptions, must: Must): void {
  const { type } = block;
  if (!must(typeof type === "string", `${at}.type: a type is required`)) return;
  const name = String(type);
  const rule = RULES[name];
  const isServers = /^(server|mcp)_tool_use$|_tool_result$/.test(name);
  if (!must(rule || isServers, `${at}: unknown type ${name}`) || !rule) return;
  must(rule.roles.split(" ").includes(role), `${at}: ${name} blocks cannot be in ${role} messages`);
  knownFields(block, new Set(["type", "cache_control", ...rule.fields.split(" ")]), at, must);
  rule.check?.(block, at, must, options);
}

function checkImage({ source }: Fields, at: string, must: Must): void {
  if (!must(isRecord(source), `${at}.source: a source is required`)) return;
  const { type, media_type: mediaType, data } = source as Fields;
  if (type !== "base64") return;
  must(
    MEDIA_TYPES.has(String(mediaType)),
    `${at}.source.media_type: must be image/jpeg, image/png, image/gif or image/webp`,
  );
  const isBase64 = typeof data === "string" && /^[A-Za-z0-9+/]+={0,2}$/.test(data);
  must(isBase64, `${at}.source.data: must be base64`);
}

const IN_RESULTS = new Set(["text", "image", "document", "search_result"]);

function checkResult(block: Fields, at: string, must: Must, options: CheckOptions): void {
  const { tool_use_id: id, content, is_error: isError } = block;
  must(typeof id === "string", `${at}.tool_use_id: an id is required`);
  const isFlag = isError === undefined || typeof isError === "boolean";
  must(isFlag && !(options.strict && isError === false), `${at}.is_error: must be true or false`);
  if (content === undefined || typeof content === "string") return;
  if (!must(Array.isArray(content), `${at}.content: neither text nor a list of blocks`)) return;
  const list = content as unknown[];
  must(list.length > 0 || isError !== true, `${at}: content cannot be empty if "is_error" is true`);
  for (const [index, inner] of list.entries()) {
    const place = `${at}.content.${index}`;
    if (!isRecord(inner)) must(false, `${place}: not an object`);
    else if (must(IN_RESULTS.has(String(inner["type"])), `${place}: cannot be in a tool result`)) {
      const isAllowed = isError !== true || inner["type"] === "text";
      must(isAllowed, `${at}: all content must be type "text" if "is_error" is true`);
      checkBlock(inner, "user", place, options, must);
    }
  }
}

/** Returns the number of cache markers in a request, including nested blocks. */
function countMarkers(parts: readonly unknown[]): number {
  const [body, ...lists] = parts;
  const marked = (value: unknown): number => {
    if (Array.isArray(value)) return value.reduce((sum: number, item) => sum + marked(item), 0);
    if (!isRecord(value)) return 0;
    return (value["cache_control"] ? 1 : 0) + marked(value["content"]);
  };
  return marked({ ...(body as Fields), content: lists });
}

/**
 * Checks that every call is directly followed by its result: the next turn is the user's, begins with exactly the
 * results of the calls before it, and has no other result. Ids are unique in the whole conversation.
 */
function checkPairs(turns: readonly CheckedTurn[], options: CheckOptions, must: Must): void {
  const used = new Set<string>();
  const served: ServerCalls = new Map();
  let open: string[] = [];
  for (const turn of turns) {
    if (turn.role === "user") {
      checkResults(turn, open, options, must);
      open = [];
    } else {
      open = checkCalls(turn, used, options, must);
      checkServerCalls(turn, turn === turns.at(-1), served, must);
    }
  }
  answered(open, must);
}

/** Returns the ids of a turn's calls. */
function checkCalls({ blocks }: CheckedTurn, used: Set<string>, { strict }: CheckOptions, must: Must) {
  const calls: string[] = [];
  for (const { block, at } of blocks) {
    must(
      !strict || calls.length === 0 || block["type"] !== "text",
      `${at}: text between a call and its result`,
    );
    if (block["type"] !== "tool_use") continue;
    const id = String(block["id"]);
    must(!used.has(id), `${at}.id: tool_use ids must be unique`);
    used.add(id);
    calls.push(id);
  }
  const end = blocks.at(-1);
  const isThinking = /^(redacted_)?thinking$/.test(String(end?.block["type"]));
  must(!isThinking, `${end?.at}: the final block in an assistant message cannot be thinking`);
  return calls;
}

/** A call of a tool that the provider runs, with its position; false when it has its result. */
type ServerCalls = Map<unknown, PlacedBlock | false>;

/**
 * Checks calls of tools that the provider runs, and their results. The result comes after its call: in the same turn, or
 * in a later one when the call's turn also has calls of the client. While the client has not answered such calls, and in
 * a last turn that is to be continued, it can be missing.
 */
function checkServerCalls({ blocks }: CheckedTurn, isLast: boolean, served: ServerCalls, must: Must): void {
  for (const placed of blocks) {
    const { type, id, tool_use_id: of, caller } = placed.block;
    if (/^(server|mcp)_tool_use$/.test(String(type))) served.set(id, placed);
    else if (type === "tool_use" && isRecord(caller) && caller["tool_id"] !== undefined)
      must(served.has(caller["tool_id"]), `${placed.at}.caller.tool_id: no such call before it`);
    else if (String(type).endsWith("_tool_result") && must(served.get(of), unexpected(placed)))
      served.set(of, false);
  }
  if (isLast || blocks.some(({ block }) => block["type"] === "tool_use")) return;
  for (const call of served.values()) if (call) must(false, missing(call));
}

const unexpected = ({ at, block }: PlacedBlock): string =>
  `${at}: unexpected \`tool_use_id\` found in \`${block["type"]}\` blocks: ${block["tool_use_id"]}`;

const missing = ({ at, block: { id, name } }: PlacedBlock): string =>
  `${at}: \`${name}\` tool use with id \`${id}\` was found without a corresponding \`${name}_tool_result\` block`;

function checkResults(
  { blocks }: CheckedTurn,
  calls: readonly string[],
  { strict }: CheckOptions,
  must: Must,
): void {
  const waiting = new Set(calls);
  const given: string[] = [];
  let others = 0;
  for (const { block, at } of blocks) {
    if (block["type"] !== "tool_result") {
      others++;
      continue;
    }
    const id = String(block["tool_use_id"]);
    if (!must(!given.includes(id), `${at}: each tool_use must have a single result, found more for ${id}`))
      continue;
    if (
      must(waiting.delete(id), `${at}: unexpected tool_use_id ${id} in tool_result: no such call just before`)
    )
      must(others === 0, `${at}: tool_result blocks must come before other content`);
    given.push(id);
  }
  answered([...waiting], must);
  must(!strict || given.join() === calls.join(), `tool_result blocks ${given} for the calls ${calls}`);
}

function answered(open: readonly string[], must: Must): void {
  for (const id of open)
    must(false, `tool_use ${id} was found without a tool_result block immediately after`);
}
