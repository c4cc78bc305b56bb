// A thread of LangGraph in a session: its checkpoints, the writes to them, and their values. A file beside the saver because
// it is the format of the entries; the saver is the calls of the host.
import { createHash } from "node:crypto";
import { setImmediate } from "node:timers/promises";
import { isDeepStrictEqual } from "node:util";
import type { Checkpoint, CheckpointMetadata } from "@langchain/langgraph-checkpoint";
import { contextEdit, custom, message } from "../../extend.ts";
import { type Entry, EspalierError, openSession, type PoolOptions, type Session } from "../../index.ts";

/** `customType` of the entries. */
export const CHECKPOINT = "langgraph.checkpoint";
export const WRITES = "langgraph.writes";

/** A value as the serializer gives it. */
export type Dumped = { json: unknown } | { type: string; bytes: Uint8Array };

/** A value in an entry: itself where it is short, else the digest of one that this or an earlier entry stores. */
export type Ref = readonly [unknown] | string;

/** A list, stored as the first items of another list plus new items. So a step that adds a message writes only that one. */
type StoredList = readonly [of: string | null, keep: number, add: readonly Ref[]];

/** Values that an entry stores, by digest. */
interface Stored {
  blobs?: Record<string, unknown>;
  /** Large objects, field by field. */
  fields?: Record<string, Record<string, Ref>>;
  lists?: Record<string, StoredList>;
  /** Output of a serializer that is not JSON, base64, with its type. */
  bytes?: Record<string, [type: string, base64: string]>;
}

export interface CheckpointData extends Stored {
  /** For people, as in every entry of the adapter. */
  title: string;
  ns: string;
  id: string;
  parent?: string;
  /** The checkpoint without its id, channels and their versions. */
  checkpoint: Ref;
  versions: Checkpoint["channel_versions"];
  metadata: Ref;
  values: Record<string, Ref>;
}

export interface WritesData extends Stored {
  title: string;
  ns: string;
  /** Id of the checkpoint. */
  id: string;
  task: string;
  path: string;
  writes: [index: number, channel: string, ref: Ref][];
}

export interface Saved {
  entryId: string;
  data: CheckpointData;
}

export interface Write {
  task: string;
  path: string;
  index: number;
  channel: string;
  ref: Ref;
}

export const writeKey = (task: string, index: number) => `${index} ${task}`;

/** The value of a channel, when a checkpoint has it in this version. */
export function inherited(
  data: CheckpointData | undefined,
  channel: string,
  version: unknown,
): Ref | undefined {
  if (data === undefined || !Object.hasOwn(data.values, channel)) return undefined;
  return data.versions[channel] === version ? data.values[channel] : undefined;
}

/** One checkpoint: what is known of it, and the entry below which its next entries go. */
export class Place {
  saved: Saved | undefined;
  tail = "";
  readonly writes = new Map<string, Write>();
}

/** The store of a saver's sessions. */
export function placeOf({ store, home }: PoolOptions): Pick<PoolOptions, "store" | "home"> {
  return { ...(store === undefined ? {} : { store }), ...(home === undefined ? {} : { home }) };
}

/** Everything that a session says of a thread. Follows its log. */
export class Thread {
  readonly session: Session;
  readonly blobs = new Map<string, unknown>();
  readonly fields = new Map<string, Record<string, Ref>>();
  readonly lists = new Map<string, StoredList>();
  readonly bytes = new Map<string, [string, string]>();
  /** Messages on the path of each entry. */
  readonly #shown = new Map<string | null, Shown | undefined>();
  readonly #places = new Map<string, Map<string, Place>>();
  readonly #newest = new Map<string, string>();
  #row = 0;

  constructor(session: Session) {
    this.session = session;
  }

  static async open(id: string, options: PoolOptions): Promise<Thread> {
    return new Thread(await openSession(id, { ...placeOf(options), mode: "read" }));
  }

  close(): Promise<void> {
    return this.session.close();
  }

  /** Reads the entries that this process or another one appended since the last call. */
  async refresh(): Promise<void> {
    await this.session.refresh();
    const tree = await this.session.load();
    for (; this.#row < tree.length; this.#row++) this.#take(tree.entryAt(this.#row));
  }

  #take(entry: Entry): void {
    const { id, parentId } = entry;
    let shown = this.#shown.get(parentId);
    const mark = (entry as Marked).langgraph;
    if (mark && message.is(entry)) shown = { before: shown, entryId: id, ...mark };
    else if (mark && contextEdit.is(entry)) shown = { before: shown, entryId: entry.targetId, ...mark };
    this.#shown.set(id, shown);
    if (!custom.is(entry) || (entry.customType !== CHECKPOINT && entry.customType !== WRITES)) return;
    const data = entry.data as CheckpointData | WritesData;
    for (const [digest, value] of Object.entries(data.blobs ?? {})) this.blobs.set(digest, value);
    for (const [digest, fields] of Object.entries(data.fields ?? {})) this.fields.set(digest, fields);
    for (const [digest, bytes] of Object.entries(data.bytes ?? {})) this.bytes.set(digest, bytes);
    // A list that names a later one, or itself, would have no end; one that names none is reported when it is read.
    for (const [digest, list] of Object.entries(data.lists ?? {}))
      if (!this.lists.has(digest) && (list[0] === null || this.lists.has(list[0])))
        this.lists.set(digest, list);
    const space = this.#places.get(data.ns) ?? new Map<string, Place>();
    this.#places.set(data.ns, space);
    const place = space.get(data.id) ?? new Place();
    space.set(data.id, place);
    place.tail = id;
    if ("writes" in data) {
      const { task, path } = data;
      for (const [index, channel, ref] of data.writes)
        place.writes.set(writeKey(task, index), { task, path, index, channel, ref });
      return;
    }
    const { blobs: _, fields: __, lists: ___, bytes: ____, ...rest } = data;
    place.saved = { entryId: id, data: rest };
    if (data.id > (this.#newest.get(data.ns) ?? "")) this.#newest.set(data.ns, data.id);
  }

  place(ns: string, id: string): Place | undefined {
    return this.#places.get(ns)?.get(id);
  }

  newest(ns: string): string | undefined {
    return this.#newest.get(ns);
  }

  /** Checkpoints of a namespace, or of all, newest first. */
  checkpoints(ns?: string): Saved[] {
    const spaces = ns === undefined ? [...this.#places.values()] : [this.#places.get(ns) ?? new Map()];
    return spaces
      .flatMap((space) => [...space.values()].flatMap(({ saved }) => saved ?? []))
      .sort((a, b) => (a.data.id < b.data.id ? 1 : -1));
  }

  /** A value as JSON; undefined where it is none. @throws EspalierError `damaged` */
  json(ref: Ref): unknown {
    if (typeof ref !== "string") return ref[0];
    if (this.lists.has(ref)) return this.items(ref).map((item) => this.json(item));
    const fields = this.fields.get(ref);
    if (fields) return mapFields(fields, (field) => this.json(field));
    const bytes = this.bytes.get(ref);
    if (bytes) return jsonOf(bytes);
    if (this.blobs.has(ref)) return this.blobs.get(ref);
    throw this.#lost(ref);
  }

  items(digest: string): Ref[] {
    const chain: StoredList[] = [];
    for (let at: string | null = digest; at !== null; at = chain.at(-1)![0]) {
      const list = this.lists.get(at);
      if (!list) throw this.#lost(at);
      chain.push(list);
    }
    const items: Ref[] = [];
    for (const [, keep, add] of chain.reverse()) {
      items.length = keep;
      items.push(...add);
    }
    return items;
  }

  #lost(digest: string): EspalierError {
    return new EspalierError(
      "damaged",
      `${this.session.file} has lost a value of its graph (${digest}); see what else is missing by \`espalier doctor\`.`,
    );
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

const jsonOf = ([type, base64]: [type: string, base64: string]): unknown =>
  type === "json" ? JSON.parse(Buffer.from(base64, "base64").toString()) : undefined;

/** Characters of the longest JSON that is repeated rather than referred to. */
const SHORT = 64;

/** Characters of JSON above which an object is stored field by field, so that one that changes in a field is not written whole. */
const LARGE = 1_024;

function mapFields<From, To>(fields: Record<string, From>, change: (field: From) => To): Record<string, To> {
  return Object.fromEntries(Object.entries(fields).map(([name, field]) => [name, change(field)]));
}

/** What one entry stores: values that the thread does not have yet. */
export class Writing {
  readonly blobs: Record<string, unknown> = {};
  readonly fields: Record<string, Record<string, Ref>> = {};
  readonly lists: Record<string, StoredList> = {};
  readonly bytes: Record<string, [type: string, base64: string]> = {};
  readonly #known: Thread;

  constructor(known: Thread) {
    this.#known = known;
  }

  /** What the entry stores, for its data. */
  get stored(): Stored {
    const { blobs, fields, lists, bytes } = this;
    const all = Object.entries({ blobs, fields, lists, bytes });
    return Object.fromEntries(all.filter(([, values]) => Object.keys(values).length > 0));
  }

  /** A value of the thread, or one that this entry stores. */
  json(ref: Ref): unknown {
    if (typeof ref !== "string") return ref[0];
    if (this.lists[ref]) return this.#refs(ref).map((item) => this.json(item));
    const fields = this.fields[ref];
    if (fields) return mapFields(fields, (field) => this.json(field));
    const bytes = this.bytes[ref];
    return bytes ? jsonOf(bytes) : (this.blobs[ref] ?? this.#known.json(ref));
  }

  /** The items of a list, also of one in a snapshot of a delta channel; any other value is one item. */
  items(ref: Ref): Item[] {
    if (typeof ref === "string" && (this.lists[ref] || this.#known.lists.has(ref)))
      return this.#refs(ref).map((item) => {
        const json = this.json(item);
        return { digest: typeof item === "string" ? item : digestOf(textOf(json)), json };
      });
    const json = this.json(ref);
    if (json === undefined) return [{ digest: ref as string, json }];
    const list = isRecord(json) && json["type"] === "delta_snapshot" ? json["value"] : json;
    return (Array.isArray(list) ? list : [list]).map((item) => ({
      digest: digestOf(textOf(item)),
      json: item,
    }));
  }

  #refs(digest: string): readonly Ref[] {
    const own = this.lists[digest];
    if (!own) return this.#known.items(digest);
    const [of, keep, add] = own;
    return of === null ? add : [...this.#known.items(of).slice(0, keep), ...add];
  }

  /** Returns a value for an entry: JSON whole, even if an older entry has it; bytes by digest. */
  inline(dumped: Dumped): Ref {
    return "json" in dumped ? [dumped.json] : this.ref(dumped);
  }

  /** @param before value of the same channel in the checkpoint above */
  ref(dumped: Dumped, before?: Ref): Ref {
    if (!("json" in dumped)) return this.#storeBytes(dumped.type, Buffer.from(dumped.bytes));
    return this.#value(dumped.json, before);
  }

  #value(json: unknown, before?: Ref): Ref {
    if (!Array.isArray(json)) return this.item(json);
    const items = json.map((item) => this.item(item));
    const old = typeof before === "string" && this.#known.lists.has(before) ? this.#known.items(before) : [];
    let keep = 0;
    while (keep < old.length && keep < items.length && isSame(old[keep]!, items[keep]!)) keep++;
    if (keep > 0 && keep === old.length && keep === items.length) return before!;
    const list: StoredList = [keep === 0 ? null : (before as string), keep, items.slice(keep)];
    const text = JSON.stringify(list);
    const digest = digestOf(`list ${text}`);
    if (!this.#known.lists.has(digest)) this.lists[digest] = list;
    return digest;
  }

  item(json: unknown): Ref {
    const text = textOf(json);
    // A line of a session holds no such name.
    if (text.includes('"__proto__"')) return this.#storeBytes("json", Buffer.from(text));
    if (text.length <= SHORT) return [json];
    const digest = digestOf(text);
    if (isRecord(json) && !("lc" in json) && text.length > LARGE) {
      if (!this.#known.fields.has(digest))
        this.fields[digest] = mapFields(json, (field) => this.#value(field));
    } else if (!this.#known.blobs.has(digest)) this.blobs[digest] = json;
    return digest;
  }

  #storeBytes(type: string, bytes: Buffer): string {
    const digest = digestOf(`${type} ${bytes.toString("base64")}`);
    if (!this.#known.bytes.has(digest)) this.bytes[digest] = [type, bytes.toString("base64")];
    return digest;
  }
}

const isSame = (a: Ref, b: Ref) => a === b || (typeof a !== "string" && isDeepStrictEqual(a, b));

const digestOf = (text: string) => createHash("sha256").update(text).digest("hex").slice(0, 32);

/** JSON of which the digest is taken: a message that was loaded has its fields in another order than one that a model gave. */
function textOf(json: unknown): string {
  if (!isRecord(json) || !isRecord(json["kwargs"])) return JSON.stringify(json);
  const fields = Object.entries(json["kwargs"]).sort(([a], [b]) => (a < b ? -1 : 1));
  return JSON.stringify({ ...json, kwargs: Object.fromEntries(fields) });
}

export const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** An item of a list, with the digest of what was given, from which redaction may have taken something. */
export interface Item {
  digest: string;
  json: unknown;
}

/** Mark of an entry that shows a message of the graph's state. */
export interface Marked {
  langgraph?: Mark;
}

interface Mark {
  /** The message's id; its digest where it has none. */
  key: string;
  /** Null where the entry leaves it out. */
  digest: string | null;
}

/** A message on a path, behind those before it; or a change of one of them. */
export interface Shown extends Mark {
  before: Shown | undefined;
  entryId: string;
}

/** A checkpoint in a few words: `step 2 · loop · messages → tools`. */
export function checkpointTitle(
  ns: string,
  { source, step }: CheckpointMetadata,
  channels: readonly string[],
): string {
  return `${spaceOf(ns)}step ${step} · ${[source, named(channels)].filter(Boolean).join(" · ")}`;
}

/** The writes of a task in a few words: `agent writes messages → tools`. */
export function writesTitle(ns: string, path: string, channels: readonly string[]): string {
  const [, node = "input"] = /^~__pregel_pull, ([^,]+)$/.exec(path) ?? [];
  return `${spaceOf(ns)}${plain(node)} writes ${named(channels)}`;
}

/** Names of the subgraphs of a namespace, without the ids of their tasks. */
const spaceOf = (ns: string) => (ns === "" ? "" : `${ns.replace(/:[^|]*/g, "").replaceAll("|", "/")}: `);

/** Names of channels: those of the state, `interrupt`, `error`, …, then the nodes that are next. */
function named(channels: readonly string[]): string {
  const next = channels.filter((channel) => channel.startsWith(NEXT_NODE));
  const others = channels.filter((channel) => !next.includes(channel));
  const names = others.map(plain).join(", ");
  return [names, ...next.map((channel) => `→ ${channel.slice(NEXT_NODE.length)}`)].filter(Boolean).join(" ");
}

/** Returns a channel's name without LangGraph's marks: `interrupt` for `__interrupt__`. */
const plain = (name: string) => name.replace(/^__(pregel_)?|__$/g, "");

const NEXT_NODE = "branch:to:";

/** A call for a checkpoint. */
export interface CallPlace {
  thread: string;
  ns: string;
  /** Id of the checkpoint. */
  id: string;
}

interface Call extends CallPlace {
  /** Never rejects. */
  ended: Promise<void>;
}

interface Waiting extends CallPlace {
  /** Receives the call that brings the checkpoint, as soon as the host makes it. */
  tell: (call: Call) => void;
}

const isBeside = (a: CallPlace, b: CallPlace) => a.thread === b.thread && a.ns === b.ns;

/**
 * Calls under way. LangGraph runs ahead of its own writing: it gives the writes of a step while the checkpoint of that step
 * waits for the one before.
 */
export class Arrivals {
  readonly #puts = new Set<Call>();
  readonly #writes = new Set<Call>();
  readonly #waiting = new Set<Waiting>();

  /** A call that brings a checkpoint. */
  async put(place: CallPlace, work: () => Promise<void>): Promise<void> {
    await this.#during(this.#puts, place, work());
  }

  /** A call that brings writes to a checkpoint; `arrival` is that of the checkpoint, for as long as it may come. */
  async write(
    place: CallPlace,
    isThere: () => Promise<boolean>,
    work: (arrival: Promise<void>) => Promise<void>,
  ): Promise<void> {
    const earlier = [...this.#writes].filter((call) => isBeside(call, place));
    const arrival = this.of(place, isThere, earlier);
    // The work awaits it a moment later, and throws its error.
    arrival.catch(() => undefined);
    await this.#during(this.#writes, place, work(arrival));
  }

  async #during(calls: Set<Call>, place: CallPlace, work: Promise<void>): Promise<void> {
    const call = { ...place, ended: work.catch(() => undefined) };
    calls.add(call);
    if (calls === this.#puts)
      for (const one of this.#waiting) if (isBeside(one, place) && one.id === place.id) one.tell(call);
    try {
      await work;
    } finally {
      calls.delete(call);
    }
  }

  /**
   * Resolves when a checkpoint is in the log, or nothing is under way that could bring it. Not a moment later: the writes of
   * a step are to be there before the next checkpoint.
   *
   * @param earlier calls that the host awaits before it gives the checkpoint
   */
  async of(place: CallPlace, isThere: () => Promise<boolean>, earlier: readonly Call[] = []): Promise<void> {
    let tell: Waiting["tell"] = () => undefined;
    const told = new Promise<Call>((resolve) => {
      tell = resolve;
    });
    const waiting = { ...place, tell };
    this.#waiting.add(waiting);
    try {
      for (;;) {
        const puts = [...this.#puts].filter((call) => isBeside(call, place));
        const own = puts.find(({ id }) => id === place.id) ?? (await Promise.race([told, isThere()]));
        if (own === true) return;
        if (own) return await own.ended;
        const running = [...puts, ...earlier.filter((call) => this.#writes.has(call))];
        if (running.length === 0) return;
        // When one of them has ended the host makes its next call.
        const next = Promise.race(running.map(({ ended }) => ended)).then(() => setImmediate());
        const call = await Promise.race([told, next]);
        if (call) return await call.ended;
      }
    } finally {
      this.#waiting.delete(waiting);
    }
  }
}
