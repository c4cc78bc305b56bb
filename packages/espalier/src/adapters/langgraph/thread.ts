// Separate from langgraph.ts: of LangGraph this file imports only types.
// A thread of LangGraph in a session: its checkpoints and writes, their values, and the messages on each path.
// This file has the format of the entries; the saver has the calls of the host.
import { isDeepStrictEqual } from "node:util";
import { isRecord } from "@espalier/session-tree";
import type { Checkpoint, CheckpointMetadata } from "@langchain/langgraph-checkpoint";
import { contextEdit, custom, message } from "../../extend.ts";
import {
  type Entry,
  EspalierError,
  type NewEntry,
  type Session,
  type StoredMessage,
  type Usage,
} from "../../index.ts";
import {
  answerOf,
  argumentsOf,
  type Blocks,
  blocksOf,
  digestOf,
  type Fields,
  sortedFields,
  textOf,
} from "../host.ts";
import { fitsLine } from "../stored-value.ts";

/** `customType` of the entries. */
export const CHECKPOINT = "langgraph.checkpoint";
export const WRITES = "langgraph.writes";

/** A value as the serializer returns it. */
export type Dumped = { json: unknown } | { type: string; bytes: Uint8Array };

/** A value in an entry: short JSON itself, or the digest of a value that this entry or an earlier one stores. */
export type Ref = readonly [unknown] | string;

/**
 * A stored value.
 *
 * - `fields`: a large object, field by field, so that a change of one field does not write all of it
 * - `list`: the first items of an older list, then new items, so that a step that adds a message writes only that message
 * - `bytes`: output of a serializer that is not JSON, in base64
 */
type Stored =
  | readonly ["json", unknown]
  | readonly ["fields", Record<string, Ref>]
  | readonly ["list", of: string | null, keep: number, add: readonly Ref[]]
  | readonly ["bytes", type: string, base64: string];

interface EntryData {
  /** Title of the entry, for people. */
  title: string;
  ns: string;
  /** Id of the checkpoint. */
  id: string;
  /** Values that this entry stores, by digest. */
  stored?: Record<string, Stored>;
}

export interface CheckpointData extends EntryData {
  parent?: string;
  /** The checkpoint's other fields: all except id, channels and versions. */
  checkpoint: Ref;
  versions: Checkpoint["channel_versions"];
  metadata: Ref;
  values: Record<string, Ref>;
}

export interface WritesData extends EntryData {
  task: string;
  path: string;
  writes: [index: number, channel: string, ref: Ref][];
}

export interface Write extends Pick<WritesData, "task" | "path"> {
  index: number;
  channel: string;
  ref: Ref;
}

export const writeKey = (task: string, index: number) => `${index} ${task}`;

/** A checkpoint with its writes, or writes without their checkpoint. */
export class Place {
  data: CheckpointData | undefined;
  /** Parent of the next entry of this checkpoint. */
  tail = "";
  readonly writes = new Map<string, Write>();
}

/** The checkpoints, writes and messages in a loaded session. */
export class Thread {
  readonly session: Session;
  readonly values: Values;
  /** Messages on the path of each entry. */
  readonly #shown = new Map<string | null, Shown | undefined>();
  readonly #places = new Map<string, Place>();
  readonly #newest = new Map<string, string>();
  #row = 0;

  constructor(session: Session) {
    this.session = session;
    this.values = new Values(session.file);
  }

  /** Reads the entries of the session after those of the last call. */
  update(): this {
    const { tree } = this.session;
    for (; this.#row < tree.length; this.#row++) this.#take(tree.entryAt(this.#row));
    return this;
  }

  #take(entry: Entry): void {
    const { id, parentId } = entry;
    let shown = this.#shown.get(parentId);
    const mark = (entry as { langgraph?: Mark }).langgraph;
    if (mark && message.is(entry)) shown = { before: shown, entryId: id, ...mark };
    else if (mark && contextEdit.is(entry)) shown = { before: shown, entryId: entry.targetId, ...mark };
    this.#shown.set(id, shown);
    if (!custom.is(entry) || (entry.customType !== CHECKPOINT && entry.customType !== WRITES)) return;
    const { stored = {}, ...data } = entry.data as CheckpointData | WritesData;
    for (const [digest, value] of Object.entries(stored)) this.values.add(digest, value);
    const place = this.place(data.ns, data.id) ?? new Place();
    this.#places.set(`${data.id} ${data.ns}`, place);
    place.tail = id;
    if ("writes" in data) {
      const { task, path } = data;
      for (const [index, channel, ref] of data.writes)
        place.writes.set(writeKey(task, index), { task, path, index, channel, ref });
      return;
    }
    place.data = data;
    if (data.id > (this.#newest.get(data.ns) ?? "")) this.#newest.set(data.ns, data.id);
  }

  /** A checkpoint of a namespace; undefined if it is unknown. @param id of the checkpoint; empty for the newest one */
  place(ns: string, id: string): Place | undefined {
    return this.#places.get(`${id || this.#newest.get(ns)} ${ns}`);
  }

  /** Checkpoints of a namespace, or of all, newest first. */
  checkpoints(ns?: string): CheckpointData[] {
    const all = [...this.#places.values()].flatMap(({ data }) => data ?? []);
    return all.filter((data) => ns === undefined || data.ns === ns).sort((a, b) => (a.id < b.id ? 1 : -1));
  }

  /** The messages that the path of an entry shows, in order. */
  shown(entryId: string | null): Shown[] {
    const steps: Shown[] = [];
    for (let at = this.#shown.get(entryId); at; at = at.before) steps.push(at);
    const shown = new Map<string, Shown>();
    for (const step of steps.reverse()) {
      if (step.digest === null) shown.delete(step.entryId);
      else shown.set(step.entryId, step);
    }
    return [...shown.values()];
  }
}

/** Maximum length of JSON that is repeated in each entry instead of its digest, in characters. */
const SHORT = 64;

/** Maximum length of an object's JSON that is stored whole, in characters. A longer one is stored field by field. */
const LARGE = 1_024;

/** Values by digest: those of a thread, or those that one entry adds to them. */
export class Values {
  readonly #own = new Map<string, Stored>();
  readonly #file: string;
  readonly #older: Values | undefined;

  constructor(file: string, older?: Values) {
    this.#file = file;
    this.#older = older;
  }

  /** The values that an entry adds to those of its thread. */
  next(): Values {
    return new Values(this.#file, this);
  }

  /** The values that were added, as a field of the entry's data; no field without any. */
  get stored(): Pick<EntryData, "stored"> {
    return this.#own.size === 0 ? {} : { stored: Object.fromEntries(this.#own) };
  }

  /** Adds a value, unless it is known. A list that continues itself or an unknown list is damaged, and is not added. */
  add(digest: string, value: Stored): string {
    const isRooted = value[0] !== "list" || value[1] === null || this.#find(value[1]) !== undefined;
    if (isRooted && this.#find(digest) === undefined) this.#own.set(digest, value);
    return digest;
  }

  #find(digest: string): Stored | undefined {
    const own = this.#own.get(digest);
    return own || !this.#older ? own : this.#older.#find(digest);
  }

  /** @throws EspalierError `damaged` */
  #get(digest: string): Stored {
    const value = this.#find(digest);
    if (value) return value;
    throw new EspalierError(
      "damaged",
      `A value of the LangGraph state is missing in ${this.#file} (${digest}); \`espalier doctor ${this.#file}\` lists damaged lines.`,
    );
  }

  /** Output of a serializer that is not JSON; undefined for JSON. @throws EspalierError `damaged` */
  bytes(ref: Ref): [type: string, bytes: Uint8Array] | undefined {
    const value = typeof ref === "string" ? this.#get(ref) : undefined;
    return value?.[0] === "bytes" ? [value[1], new Uint8Array(Buffer.from(value[2], "base64"))] : undefined;
  }

  /** A value as JSON; undefined for bytes of another format. @throws EspalierError `damaged` */
  json(ref: Ref): unknown {
    if (typeof ref !== "string") return ref[0];
    const value = this.#get(ref);
    if (value[0] === "list") return this.#refs(ref).map((item) => this.json(item));
    if (value[0] === "fields") return mapFields(value[1], (field) => this.json(field));
    if (value[0] === "json") return value[1];
    return value[1] === "json" ? JSON.parse(Buffer.from(value[2], "base64").toString()) : undefined;
  }

  /** The items of a stored list. */
  #refs(digest: string): Ref[] {
    const chain: (Stored & { 0: "list" })[] = [];
    for (let at: string | null = digest; at !== null; at = chain.at(-1)![1])
      chain.push(this.#get(at) as never);
    const items: Ref[] = [];
    for (const [, , keep, add] of chain.reverse()) {
      items.length = keep;
      for (const item of add) items.push(item);
    }
    return items;
  }

  #isList(ref: Ref | undefined): ref is string {
    return typeof ref === "string" && this.#find(ref)?.[0] === "list";
  }

  /** The items of a list, or of a snapshot of a delta channel. Any other value is one item. */
  items(ref: Ref): Item[] {
    if (this.#isList(ref))
      return this.#refs(ref).map((item) => {
        const json = this.json(item);
        return { digest: typeof item === "string" ? item : valueDigest(json), json };
      });
    const json = this.json(ref);
    if (json === undefined) return [{ digest: String(ref), json }];
    const list = isRecord(json) && json["type"] === "delta_snapshot" ? json["value"] : json;
    return (Array.isArray(list) ? list : [list]).map((item) => ({ digest: valueDigest(item), json: item }));
  }

  /**
   * Stores a value, unless it is known.
   *
   * @param before value of the same channel in the checkpoint above
   */
  ref(dumped: Dumped, before?: Ref): Ref {
    if ("json" in dumped) return this.#value(dumped.json, before);
    return this.#bytes(dumped.type, Buffer.from(dumped.bytes));
  }

  #value(json: unknown, before?: Ref): Ref {
    if (!Array.isArray(json)) return this.#item(json);
    const items = json.map((item) => this.#item(item));
    const old = this.#isList(before) ? this.#refs(before) : [];
    let keep = 0;
    while (keep < old.length && keep < items.length && isDeepStrictEqual(old[keep], items[keep])) keep++;
    if (keep > 0 && keep === old.length && keep === items.length) return before!;
    const list = ["list", keep === 0 ? null : String(before), keep, items.slice(keep)] as const;
    return this.add(digestOf(JSON.stringify(list), 32), list);
  }

  #item(json: unknown): Ref {
    const text = canonical(json);
    if (text.length <= SHORT && fitsLine(json)) return [json];
    const digest = digestOf(text, 32);
    if (this.#find(digest)) return digest;
    if (!fitsLine(json)) return this.add(digest, ["bytes", "json", Buffer.from(text).toString("base64")]);
    if (!isRecord(json) || "lc" in json || text.length <= LARGE) return this.add(digest, ["json", json]);
    return this.add(digest, ["fields", mapFields(json, (field) => this.#value(field))]);
  }

  #bytes(type: string, bytes: Buffer): string {
    const base64 = bytes.toString("base64");
    return this.add(digestOf(`${type} ${base64}`, 32), ["bytes", type, base64]);
  }
}

function mapFields<From, To>(fields: Record<string, From>, change: (field: From) => To): Record<string, To> {
  return Object.fromEntries(Object.entries(fields).map(([name, field]) => [name, change(field)]));
}

const valueDigest = (json: unknown) => digestOf(canonical(json), 32);

/** JSON for a digest. A loaded message has its fields in another order than a new one. */
const canonical = (json: unknown): string =>
  JSON.stringify(
    isRecord(json) && isRecord(json["kwargs"]) ? { ...json, kwargs: sortedFields(json["kwargs"]) } : json,
  );

/** An item of a list, with its digest from before redaction. */
interface Item {
  digest: string;
  json: unknown;
}

/** Mark of an entry that shows a message of the graph's state: its field `langgraph`. */
interface Mark {
  /** The message's id; its digest if it has none. */
  key: string;
  /** Null if the entry removes the message. */
  digest: string | null;
}

/** A message on a path after those before it, or a change of one of them. */
interface Shown extends Mark {
  before: Shown | undefined;
  entryId: string;
}

/** Title of a checkpoint: `step 2 · loop · messages → tools`. */
export function checkpointTitle(
  ns: string,
  { source, step }: CheckpointMetadata,
  channels: readonly string[],
): string {
  return `${spaceOf(ns)}step ${step} · ${[source, named(channels)].filter(Boolean).join(" · ")}`;
}

/** Title of the writes of a task: `agent writes messages → tools`. */
export function writesTitle(ns: string, path: string, channels: readonly string[]): string {
  const [, node = "input"] = /^~__pregel_pull, ([^,]+)$/.exec(path) ?? [];
  return `${spaceOf(ns)}${plain(node)} writes ${named(channels)}`;
}

/** Names of the subgraphs of a namespace, without the ids of their tasks. */
const spaceOf = (ns: string) => (ns === "" ? "" : `${ns.replace(/:[^|]*/g, "").replaceAll("|", "/")}: `);

/** Names of channels, then the nodes that run next: `messages → tools`. */
function named(channels: readonly string[]): string {
  const next = channels.filter((channel) => channel.startsWith(NEXT_NODE));
  const others = channels.filter((channel) => !next.includes(channel));
  const names = others.map(plain).join(", ");
  return [names, ...next.map((channel) => `→ ${channel.slice(NEXT_NODE.length)}`)].filter(Boolean).join(" ");
}

/** Returns a channel's name without LangGraph's marks: `interrupt` for `__interrupt__`. */
const plain = (name: string) => name.replace(/^__(pregel_)?|__$/g, "");

const NEXT_NODE = "branch:to:";

/** A message of the state. */
interface Wanted {
  key: string;
  digest: string;
  /** The message; undefined if the path shows it already. */
  json?: Fields;
}

/** The messages of a list; undefined if some of its items are no messages. */
export function messagesIn(items: readonly Item[]): Wanted[] | undefined {
  const all = items.flatMap((item) => (roleOf(item.json) === undefined ? [] : wanted(item)));
  return all.length === items.length ? all : undefined;
}

/** The messages after the writes of a step. Between two snapshots, a delta channel has only writes. */
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
 * Entries after which a path shows these messages: a message entry for each new one, a context edit for each one that was
 * removed or changed. A subgraph that shares no message with the graph around it begins a separate root.
 *
 * @param tail parent of the first entry
 * @param at time of the messages, in epoch milliseconds
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
    const replacement = isKept ? { content: contentOf(one.json!, at) } : null;
    const langgraph: Mark = { key, digest: isKept ? one.digest : null };
    edits.push({ ...contextEdit.of({ targetId: entryId, replacement }), langgraph } as NewEntry);
  }
  const isApart = ns !== "" && next === 0 && shown.length > 0;
  const added = all.slice(next).map(({ key, digest, json }): NewEntry => {
    const langgraph: Mark = { key, digest };
    return { ...message.of({ message: messageOf(json!, at) }), langgraph } as NewEntry;
  });
  return isApart ? { parentId: null, entries: added } : { parentId: tail, entries: [...edits, ...added] };
}

const contentOf = (json: Fields, at: number) => (messageOf(json, at) as { content: Blocks }).content;

/** Kind of a message of LangChain, by its class, or by the role or type of a plain object. */
function kindOf(item: Fields): string | undefined {
  const { lc, id, role, type } = item;
  if (lc !== 1) return typeof role === "string" ? role : typeof type === "string" ? type : undefined;
  if (!Array.isArray(id) || !id.includes("messages")) return undefined;
  return String(id.at(-1))
    .replace(/Message(Chunk)?$/, "")
    .toLowerCase();
}

const ROLES = new Map([
  ...["human", "user", "chat", "generic"].map((kind) => [kind, "user"] as const),
  ...["ai", "assistant"].map((kind) => [kind, "assistant"] as const),
  ...["system", "developer"].map((kind) => [kind, "system"] as const),
  ...["tool", "function"].map((kind) => [kind, "toolResult"] as const),
]);

const roleOf = (item: unknown) =>
  isRecord(item) && "content" in fieldsOf(item) ? ROLES.get(kindOf(item) ?? "") : undefined;

const fieldsOf = (item: Fields): Fields => (isRecord(item["kwargs"]) ? item["kwargs"] : item);

/** A message of LangChain in the session's shape, for people and for a model that continues the session. */
function messageOf(json: Fields, timestamp: number): StoredMessage {
  const { content, name, tool_call_id, status, tool_calls, usage_metadata, response_metadata } =
    fieldsOf(json);
  const role = roleOf(json);
  const blocks = (Array.isArray(content) ? content : [content]).flatMap(readBlock);
  const shown = blocks.filter((block) => block.type !== "thinking");
  if (role === "toolResult") {
    const toolName = typeof name === "string" ? name : "unknown";
    const isError = status === "error";
    return { role, toolCallId: textOf(tool_call_id), toolName, content: shown, isError, timestamp };
  }
  if (role === "system")
    return { role, content: shown.flatMap((block) => (block.type === "text" ? block : [])), timestamp };
  if (role !== "assistant") return { role: "user", content: shown, timestamp };
  const calls = (Array.isArray(tool_calls) ? tool_calls : []).filter(isRecord).map((call) => {
    const { id, name: tool, args = {} } = call;
    const given = argumentsOf(JSON.stringify(args));
    return { type: "toolCall" as const, id: textOf(id), name: textOf(tool), arguments: given };
  });
  const { model_provider, model_name, model } = (
    isRecord(response_metadata) ? response_metadata : {}
  ) as Fields;
  return answerOf(
    [...blocks.filter((block) => block.type !== "image"), ...calls],
    {
      provider: textOf(model_provider) || "unknown",
      model: model_name ?? model,
      usage: usageOf(usage_metadata),
    },
    timestamp,
  );
}

/** Blocks of one part of a content. Calls are left out: `tool_calls` has them too. */
function readBlock(part: unknown): (Blocks[number] | { type: "thinking"; thinking: string })[] {
  const { type, thinking, reasoning } = isRecord(part) ? part : {};
  if (type === "tool_use" || type === "tool_call" || type === "function_call") return [];
  if (type !== "thinking" && type !== "reasoning") return blocksOf(part);
  return [{ type: "thinking", thinking: textOf(thinking ?? reasoning) }];
}

function usageOf(given: unknown): Usage | undefined {
  if (!isRecord(given)) return undefined;
  const count = (value: unknown) => (typeof value === "number" && value >= 0 ? value : 0);
  const details = isRecord(given["input_token_details"]) ? given["input_token_details"] : {};
  const [cacheRead, cacheWrite] = [count(details["cache_read"]), count(details["cache_creation"])];
  const input = Math.max(0, count(given["input_tokens"]) - cacheRead - cacheWrite);
  return { input, output: count(given["output_tokens"]), cacheRead, cacheWrite };
}
