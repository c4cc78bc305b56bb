// The messages of LangGraph's state as entries of a session's path. A file beside the saver because it knows LangChain's
// messages and nothing of checkpoints.
import { contextEdit, message } from "../../extend.ts";
import type { NewEntry, StoredMessage, Usage } from "../../index.ts";
import { type Item, isRecord, type Marked, type Shown, type Thread } from "./thread.ts";

/** A message of the state. */
interface Wanted {
  key: string;
  digest: string;
  /** The message; undefined for one that the path shows already. */
  json?: Json;
}

type Json = Record<string, unknown>;

/** The messages of a list; undefined where it is a list of something else. */
export function messagesIn(items: readonly Item[]): Wanted[] | undefined {
  const all = items.flatMap((item) => (roleOf(item.json) === undefined ? [] : wanted(item)));
  return all.length === items.length ? all : undefined;
}

/** The list of messages behind the writes of a step: all that there is of a delta channel between two snapshots. */
export function messagesAfter(shown: readonly Shown[], writes: readonly Item[]): Wanted[] {
  const list = new Map<string, Wanted>();
  for (const { key, digest } of shown) list.set(key, { key, digest: digest! });
  for (const item of writes) {
    for (const one of wanted(item))
      if (one.key === REMOVE_ALL) list.clear();
      else if (kindOf(one.json!) === "remove") list.delete(one.key);
      else if (roleOf(one.json) !== undefined) list.set(one.key, one);
  }
  return [...list.values()];
}

/** The id by which LangGraph removes every message. */
const REMOVE_ALL = "__remove_all__";

function wanted({ json, digest }: Item): Wanted[] {
  if (!isRecord(json)) return [];
  const { id } = fieldsOf(json);
  return [{ key: typeof id === "string" && id !== "" ? id : digest, digest, json }];
}

/**
 * Entries that make a path show these messages: what is new is appended, what is gone or changed is edited. A subgraph
 * that shares no message with the graph around it begins a root of its own.
 *
 * @param tail the entry below which they go
 * @param at epoch milliseconds
 */
export function planMessages(
  thread: Thread,
  tail: string | null,
  all: readonly Wanted[],
  { ns, at }: { ns: string; at: number },
): { parentId: string | null; entries: NewEntry[] } {
  const shown = thread.shown(tail);
  const edits: NewEntry[] = [];
  let next = 0;
  for (const { key, digest, entryId } of shown) {
    const one = all[next];
    const isKept = one?.key === key;
    if (isKept) next++;
    if (isKept && one.digest === digest) continue;
    const content = isKept ? contentOf(one.json!, at) : undefined;
    const replacement = content === undefined ? null : { content };
    const mark: Marked = { langgraph: { key, digest: isKept ? one.digest : null } };
    edits.push({ ...contextEdit.of({ targetId: entryId, replacement }), ...mark });
  }
  const isApart = ns !== "" && next === 0 && shown.length > 0;
  const added = all.slice(next).map(({ key, digest, json }): NewEntry => {
    const mark: Marked = { langgraph: { key, digest } };
    return { ...message.of({ message: messageOf(json!, at) }), ...mark };
  });
  return isApart ? { parentId: null, entries: added } : { parentId: tail, entries: [...edits, ...added] };
}

/** Kind of a message of LangChain, by its class, or by the role or type of a plain object. */
function kindOf(item: Json): string | undefined {
  const { lc, id, role, type } = item;
  if (lc !== 1) return typeof role === "string" ? role : typeof type === "string" ? type : undefined;
  if (!Array.isArray(id) || !id.includes("messages")) return undefined;
  return String(id.at(-1))
    .replace(/Message(Chunk)?$/, "")
    .toLowerCase();
}

const ROLES: ReadonlyMap<string | undefined, "user" | "assistant" | "system" | "toolResult"> = new Map([
  ["human", "user"],
  ["user", "user"],
  ["chat", "user"],
  ["generic", "user"],
  ["ai", "assistant"],
  ["assistant", "assistant"],
  ["system", "system"],
  ["developer", "system"],
  ["tool", "toolResult"],
  ["function", "toolResult"],
] as const);

const roleOf = (item: unknown) =>
  isRecord(item) && "content" in fieldsOf(item) ? ROLES.get(kindOf(item)) : undefined;

const fieldsOf = (item: Json): Json => (isRecord(item["kwargs"]) ? item["kwargs"] : item);

/** A message of LangChain in the session's shape: for people, and for what the session tells a model. The state has its own. */
function messageOf(json: Json, timestamp: number): StoredMessage {
  const { content, name, tool_call_id, status, tool_calls, usage_metadata, response_metadata } =
    fieldsOf(json);
  const blocks = blocksOf(content);
  const spoken = blocks.filter((block) => block.type !== "thinking");
  const role = roleOf(json);
  if (role === "toolResult") {
    const toolName = typeof name === "string" ? name : "unknown";
    return {
      role,
      toolCallId: textOf(tool_call_id),
      toolName,
      content: spoken,
      isError: status === "error",
      timestamp,
    };
  }
  if (role === "system")
    return { role, content: spoken.flatMap((block) => (block.type === "text" ? block : [])), timestamp };
  if (role !== "assistant") return { role: "user", content: spoken, timestamp };
  const calls = (Array.isArray(tool_calls) ? tool_calls : []).filter(isRecord).map((call): AssistantBlock => {
    const { id, name: tool, args } = call;
    return { type: "toolCall", id: textOf(id), name: textOf(tool), arguments: isRecord(args) ? args : {} };
  });
  const said = isRecord(response_metadata) ? response_metadata : {};
  const usage = usageOf(usage_metadata);
  return {
    role,
    content: [...blocks.filter((block) => block.type !== "image"), ...calls],
    provider: textOf(said["model_provider"]) || "unknown",
    model: textOf(said["model_name"] ?? said["model"]) || "unknown",
    ...(usage ? { usage } : {}),
    stopReason: calls.length > 0 ? "toolUse" : "stop",
    timestamp,
  };
}

type AssistantBlock = Extract<StoredMessage, { role: "assistant" }>["content"][number];
type UserBlock = Exclude<Extract<StoredMessage, { role: "user" }>["content"], string>[number];

/** The content of a message in an edit of its entry. */
function contentOf(json: Json, at: number): UserBlock[] {
  const { content } = messageOf(json, at) as { content: UserBlock[] };
  return content;
}

function blocksOf(content: unknown): (UserBlock | Extract<AssistantBlock, { type: "thinking" }>)[] {
  if (typeof content === "string") return content === "" ? [] : [{ type: "text", text: content }];
  if (!Array.isArray(content)) return [];
  return content.flatMap((block): ReturnType<typeof blocksOf> => {
    if (!isRecord(block)) return blocksOf(block);
    const { type, text, thinking, reasoning, data, image_url } = block;
    if (type === "text") return blocksOf(text);
    if (type === "thinking" || type === "reasoning")
      return [{ type: "thinking", thinking: textOf(thinking ?? reasoning) }];
    // The calls are beside the content, too.
    if (type === "tool_use" || type === "tool_call" || type === "function_call") return [];
    const url = textOf(isRecord(image_url) ? image_url["url"] : image_url);
    const [, mimeType = textOf(block["mimeType"] ?? block["mime_type"]), bytes = textOf(data)] =
      /^data:(image\/[\w.+-]+);base64,(.*)$/s.exec(url) ?? [];
    if (mimeType.startsWith("image/") && bytes !== "") return [{ type: "image", data: bytes, mimeType }];
    return [{ type: "text", text: `(${[textOf(type), url].filter(Boolean).join(" ")})` }];
  });
}

const textOf = (value: unknown): string => (typeof value === "string" ? value : "");

function usageOf(given: unknown): Usage | undefined {
  if (!isRecord(given)) return undefined;
  const count = (value: unknown) => (typeof value === "number" && value >= 0 ? value : 0);
  const details = isRecord(given["input_token_details"]) ? given["input_token_details"] : {};
  const [cacheRead, cacheWrite] = [count(details["cache_read"]), count(details["cache_creation"])];
  const input = Math.max(0, count(given["input_tokens"]) - cacheRead - cacheWrite);
  return { input, output: count(given["output_tokens"]), cacheRead, cacheWrite };
}
