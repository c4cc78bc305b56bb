// LangGraph's checkpoints in a session: a thread is a session, a checkpoint an entry below its parent, and the messages of
// its state are message entries on the same path. docs/decisions/0039-langgraph-checkpoints.md has the reasons.
import { isDeepStrictEqual } from "node:util";
import type {
  BaseCheckpointSaver,
  ChannelVersions,
  Checkpoint,
  CheckpointListOptions,
  CheckpointMetadata,
  CheckpointPendingWrite,
  CheckpointTuple,
  DeltaChannelHistory,
  PendingWrite,
  SerializerProtocol,
} from "@langchain/langgraph-checkpoint";
import { custom, leaf } from "../extend.ts";
import {
  EspalierError,
  listSessions,
  type NewEntry,
  type PoolOptions,
  type SessionPool,
  sessionPool,
} from "../index.ts";
import { refuseOtherVersions } from "./host-version.ts";
import { messagesAfter, messagesIn, planMessages } from "./langgraph/messages.ts";
import {
  Arrivals,
  type CallPlace,
  CHECKPOINT,
  type CheckpointData,
  checkpointTitle,
  type Dumped,
  inherited,
  type Place,
  placeOf,
  type Ref,
  type Saved,
  Thread,
  WRITES,
  type Write,
  type WritesData,
  Writing,
  writeKey,
  writesTitle,
} from "./langgraph/thread.ts";

const host = await import("@langchain/langgraph-checkpoint").catch((cause: unknown) => {
  throw new EspalierError(
    "not-installed",
    "EspalierSaver needs a package that is not installed: npm install @langchain/langgraph-checkpoint",
    { cause },
  );
});
refuseOtherVersions("@langchain/langgraph-checkpoint", "1.2.2", "2.0.0");

type Config = Parameters<BaseCheckpointSaver["getTuple"]>[0];

/** Options of a saver, and of the pool of its sessions. Everything has a default; nothing is redacted without `redact`. */
export interface EspalierSaverOptions extends PoolOptions {
  /** Channel with the messages, which become message entries of the session. Default `messages`. */
  messages?: string;
  /** LangGraph's serializer. Where its output is not JSON (an encrypting one), no messages are shown. Default: LangGraph's. */
  serde?: SerializerProtocol;
}

/** Threads whose values stay in memory between two calls. */
const OPEN_THREADS = 64;

/** Codes of a session that was removed or replaced by another process since it was opened. */
const GONE: ReadonlySet<string> = new Set(["removed", "changed", "shrunk", "not-found", "closed"]);

/**
 * Keeps the checkpoints of LangGraph in sessions, so that a thread has a tree, a viewer, forks and a file of its own.
 *
 * ```ts
 * const checkpointer = new EspalierSaver();
 * const graph = builder.compile({ checkpointer });
 * ```
 *
 * A thread's id is the session's: 1 to 128 letters, digits, `.`, `_` and `-`. One process writes a thread at a time; others
 * wait for up to `waitMs`. Reading waits for no writer.
 */
export class EspalierSaver extends host.BaseCheckpointSaver {
  readonly #options: PoolOptions;
  readonly #messages: string;
  readonly #pool: SessionPool;
  /** Open threads, the one unused longest first. */
  readonly #threads = new Map<string, Promise<Thread>>();
  readonly #arrivals = new Arrivals();

  constructor({ messages = "messages", serde, ...options }: EspalierSaverOptions = {}) {
    super(serde);
    this.#messages = messages;
    // A thread holds what the graph says, as it says it.
    this.#options = { redact: false, ...options, rules: false };
    this.#pool = sessionPool({ ...this.#options, whole: false });
  }

  /** Waits for running calls and closes all sessions. */
  async close(): Promise<void> {
    await this.#pool.close();
    await Promise.all([...this.#threads.keys()].map((id) => this.#forget(id)));
  }

  /** The checkpoint of a config, or the newest one of its thread and namespace; undefined where there is none. */
  override async getTuple(config: Config): Promise<CheckpointTuple | undefined> {
    const { thread_id, checkpoint_ns = "" } = config.configurable ?? {};
    if (thread_id === undefined) return undefined;
    return this.#read(threadId(thread_id), (thread) => {
      const id = host.getCheckpointId(config) || thread.newest(checkpoint_ns);
      const place = id === undefined ? undefined : thread.place(checkpoint_ns, id);
      return place?.saved && this.#tuple(thread, place.saved);
    });
  }

  /** The checkpoints of a thread, or of all threads, newest first in each. */
  override async *list(config: Config, options: CheckpointListOptions = {}): AsyncGenerator<CheckpointTuple> {
    const { thread_id, checkpoint_ns, checkpoint_id } = config.configurable ?? {};
    const { before, filter = {} } = options;
    let { limit = Number.POSITIVE_INFINITY } = options;
    const last = before?.configurable?.["checkpoint_id"] as string | undefined;
    const ids = thread_id === undefined ? this.#threadIds() : [threadId(thread_id)];
    for await (const id of ids) {
      if (limit <= 0) return;
      const tuples = await this.#read(id, async (thread) => {
        const found: CheckpointTuple[] = [];
        for (const { data, entryId } of thread.checkpoints(checkpoint_ns)) {
          if (found.length >= limit) break;
          if (checkpoint_id !== undefined && data.id !== checkpoint_id) continue;
          if (last !== undefined && data.id >= last) continue;
          const metadata = await this.#load(thread, data.metadata);
          const isMeant = ([key, value]: [string, unknown]) => isDeepStrictEqual(metadata[key], value);
          if (Object.entries(filter).every(isMeant)) found.push(await this.#tuple(thread, { data, entryId }));
        }
        return found;
      });
      limit -= tuples?.length ?? 0;
      yield* tuples ?? [];
    }
  }

  async *#threadIds(): AsyncGenerator<string> {
    for await (const { id, agent } of listSessions(placeOf(this.#options)))
      if (agent === "espalier" && THREAD_ID.test(id)) yield id;
  }

  /** Appends a checkpoint below its parent: the messages that are new in it, then the values that are. */
  override async put(
    config: Config,
    checkpoint: Checkpoint,
    metadata: CheckpointMetadata,
    newVersions: ChannelVersions,
  ): Promise<Config> {
    const { thread_id, checkpoint_ns: ns = "" } = config.configurable ?? {};
    const thread = threadId(thread_id);
    const place = { thread, ns, id: checkpoint.id };
    await this.#arrivals.put(place, () => this.#put(thread, config, checkpoint, metadata, newVersions));
    return { configurable: { thread_id, checkpoint_ns: ns, checkpoint_id: checkpoint.id } };
  }

  async #put(
    thread: string,
    config: Config,
    checkpoint: Checkpoint,
    metadata: CheckpointMetadata,
    newVersions: ChannelVersions,
  ): Promise<void> {
    const { checkpoint_ns: ns = "", checkpoint_id: parent } = config.configurable ?? {};
    const { channel_values, channel_versions: versions, id, ...rest } = checkpoint;
    const isNew = ([channel]: [string, unknown]) => Object.hasOwn(newVersions, channel);
    // All of it at once: the graph goes on, and changes these values.
    const [restDump, metadataDump, fresh] = await Promise.all([
      this.#dump(rest),
      this.#dump(metadata),
      this.#dumpAll(Object.entries(channel_values).filter(isNew)),
    ]);
    const old = Object.entries(channel_values).filter((each) => !isNew(each));
    const outer = ns.slice(0, Math.max(0, ns.lastIndexOf("|")));
    const around = ns === "" ? undefined : metadata.parents?.[outer];
    if (parent === undefined && around !== undefined) {
      const place = { thread, ns: outer, id: around };
      await this.#arrivals.of(place, () => this.#has(place));
    }
    await this.#append(thread, async (known) => {
      const writing = new Writing(known);
      const above = parent === undefined ? undefined : known.place(ns, parent);
      const values: Record<string, Ref> = {};
      for (const [channel, value] of old) {
        const ref =
          inherited(above?.saved?.data, channel, versions[channel]) ??
          (await this.#refByVersion(known, writing, { ns, channel, version: versions[channel], value }));
        if (ref !== undefined) values[channel] = ref;
      }
      for (const [channel, dumped] of fresh)
        values[channel] = writing.ref(dumped, above?.saved?.data.values[channel]);

      const all = this.#messagesOf(known, writing, values[this.#messages], newVersions, above);
      const tail = (above ?? known.place(outer, around ?? ""))?.tail ?? null;
      const at = Date.parse(checkpoint.ts) || Date.now();
      const { parentId, entries } = all
        ? planMessages(known, tail, all, { ns, at })
        : { parentId: tail, entries: [] };
      const data: CheckpointData = {
        title: checkpointTitle(ns, metadata, Object.keys(Object.fromEntries(fresh))),
        ns,
        id,
        ...(parent === undefined ? {} : { parent }),
        checkpoint: writing.inline(restDump),
        versions,
        metadata: writing.inline(metadataDump),
        values,
        ...writing.stored,
      };
      return below(parentId, [...entries, custom.of({ customType: CHECKPOINT, data })]);
    });
  }

  /** Appends the writes of a task below its checkpoint; those that are there already are not written again. */
  override async putWrites(config: Config, writes: PendingWrite[], taskId: string, path = ""): Promise<void> {
    const { thread_id, checkpoint_ns: ns = "", checkpoint_id: id } = config.configurable ?? {};
    const thread = threadId(thread_id);
    if (typeof id !== "string" || id === "")
      throw new EspalierError(
        "bad-input",
        "The writes name no checkpoint; pass the config that `put` returned.",
      );
    const place = { thread, ns, id };
    await this.#arrivals.write(
      place,
      () => this.#has(place),
      (arrival) => this.#putWrites(place, { writes, task: taskId, path, arrival }),
    );
  }

  async #putWrites(
    { thread, ns, id }: CallPlace,
    given: { writes: PendingWrite[]; task: string; path: string; arrival: Promise<void> },
  ): Promise<void> {
    const { writes, task, path, arrival } = given;
    const dumped = await this.#dumpAll(writes);
    await arrival;
    await this.#append(thread, (known, leafId) => {
      const place = known.place(ns, id);
      const writing = new Writing(known);
      const fresh = dumped.flatMap(([channel, value], at): WritesData["writes"] => {
        const index = Object.hasOwn(host.WRITES_IDX_MAP, channel) ? host.WRITES_IDX_MAP[channel]! : at;
        if (index >= 0 && place?.writes.has(writeKey(task, index))) return [];
        return [[index, channel, writing.ref(value, place?.saved?.data.values[channel])]];
      });
      if (fresh.length === 0) return [];
      const channels = fresh.map(([, channel]) => channel);
      const title = writesTitle(ns, path, channels);
      const data: WritesData = { title, ns, id, task, path, writes: fresh, ...writing.stored };
      const draft = custom.of({ customType: WRITES, data });
      if (!place || place.tail === leafId) return [draft];
      // Late writes are no reason to leave the newest checkpoint.
      return [...below(place.tail, [draft]), leaf.of({ parentId: leafId, targetId: leafId })];
    });
  }

  /** Removes a thread's session and the files beside it; nothing where there is none. */
  override async deleteThread(id: string): Promise<void> {
    await this.#forget(threadId(id));
    try {
      await this.#pool.delete(id);
    } catch (error) {
      if (!(error instanceof EspalierError && error.code === "not-found")) throw error;
    }
  }

  /** The writes of a channel along the path of a checkpoint, oldest first, back to the nearest stored value. */
  override async getDeltaChannelHistory({
    config,
    channels,
  }: {
    config: Config;
    channels: string[];
  }): Promise<Record<string, DeltaChannelHistory>> {
    const { thread_id, checkpoint_ns: ns = "" } = config.configurable ?? {};
    const history = new Map(
      channels.map((channel): [string, DeltaChannelHistory] => [channel, { writes: [] }]),
    );
    await this.#read(threadId(thread_id), async (thread) => {
      const open = new Set(channels);
      let at = thread.place(ns, host.getCheckpointId(config) || thread.newest(ns) || "")?.saved?.data.parent;
      while (at !== undefined && open.size > 0) {
        const place = thread.place(ns, at);
        for (const channel of open) {
          const one = history.get(channel)!;
          const writes = sortedWrites(place).filter((write) => write.channel === channel);
          one.writes.unshift(...(await Promise.all(writes.map((write) => this.#pending(thread, write)))));
          const ref = place?.saved?.data.values[channel];
          if (ref === undefined) continue;
          one.seed = await this.#load(thread, ref);
          open.delete(channel);
        }
        at = place?.saved?.data.parent;
      }
    });
    return Object.fromEntries(history);
  }

  async #tuple(thread: Thread, { data }: Saved): Promise<CheckpointTuple> {
    const { ns: checkpoint_ns, id: checkpoint_id, parent } = data;
    const configOf = (id: string) => ({
      configurable: { thread_id: thread.session.id, checkpoint_ns, checkpoint_id: id },
    });
    const load = (ref: Ref) => this.#load(thread, ref);
    const values = Object.entries(data.values).map(async ([channel, ref]) => [channel, await load(ref)]);
    const checkpoint: Checkpoint = {
      ...(await load(data.checkpoint)),
      id: checkpoint_id,
      channel_versions: { ...data.versions },
      channel_values: Object.fromEntries(await Promise.all(values)),
    };
    const above = parent === undefined ? undefined : thread.place(checkpoint_ns, parent);
    // Before version 4 the sends of a step were writes of the step before.
    if (checkpoint.v < 4 && parent !== undefined) {
      const sends = sortedWrites(above).filter(({ channel }) => channel === host.TASKS);
      checkpoint.channel_values[host.TASKS] = await Promise.all(sends.map(({ ref }) => load(ref)));
      const all = Object.values(checkpoint.channel_versions);
      checkpoint.channel_versions[host.TASKS] =
        all.length > 0 ? host.maxChannelVersion(...all) : this.getNextVersion(undefined);
    }
    const writes = sortedWrites(thread.place(checkpoint_ns, checkpoint_id));
    return {
      config: configOf(checkpoint_id),
      checkpoint,
      metadata: await load(data.metadata),
      pendingWrites: await Promise.all(writes.map((write) => this.#pending(thread, write))),
      ...(parent === undefined ? {} : { parentConfig: configOf(parent) }),
    };
  }

  /** The messages of the state; undefined where nothing of them has changed. */
  #messagesOf(
    thread: Thread,
    writing: Writing,
    ref: Ref | undefined,
    newVersions: ChannelVersions,
    above: Place | undefined,
  ) {
    if (!Object.hasOwn(newVersions, this.#messages)) return undefined;
    if (ref !== undefined) return messagesIn(writing.items(ref));
    const writes = sortedWrites(above).filter(({ channel }) => channel === this.#messages);
    const items = writes.flatMap((write) => writing.items(write.ref));
    return messagesAfter(thread.shown(above?.tail ?? null), items);
  }

  async #pending(thread: Thread, { task, channel, ref }: Write): Promise<CheckpointPendingWrite> {
    return [task, channel, await this.#load(thread, ref)];
  }

  /** A value that LangGraph says is unchanged, and that the parent has not: a copied checkpoint is its own sibling. */
  async #refByVersion(
    thread: Thread,
    writing: Writing,
    { ns, channel, version, value }: { ns: string; channel: string; version: unknown; value: unknown },
  ): Promise<Ref | undefined> {
    const all = thread.checkpoints(ns).map(({ data }) => inherited(data, channel, version));
    const refs = all.filter((ref) => ref !== undefined);
    if (refs.length === 0) return undefined;
    const dumped = await this.#dump(value);
    if ("json" in dumped) {
      const equal = refs.find((ref) => isDeepStrictEqual(thread.json(ref), dumped.json));
      if (equal !== undefined) return equal;
    }
    return writing.ref(dumped, refs[0]);
  }

  async #has({ thread, ns, id }: CallPlace): Promise<boolean> {
    return (await this.#read(thread, (known) => known.place(ns, id)?.saved !== undefined)) ?? false;
  }

  async #dump(value: unknown): Promise<Dumped> {
    const [type, bytes] = await this.serde.dumpsTyped(value);
    return type === "json" ? { json: JSON.parse(Buffer.from(bytes).toString()) } : { type, bytes };
  }

  #dumpAll(values: readonly [string, unknown][]): Promise<[string, Dumped][]> {
    return Promise.all(values.map(async ([channel, value]) => [channel, await this.#dump(value)]));
  }

  // biome-ignore lint/suspicious/noExplicitAny: a value of the graph, as LangGraph's own serializer types it.
  async #load(thread: Thread, ref: Ref): Promise<any> {
    const bytes = typeof ref === "string" ? thread.bytes.get(ref) : undefined;
    if (bytes) return this.serde.loadsTyped(bytes[0], new Uint8Array(Buffer.from(bytes[1], "base64")));
    return this.serde.loadsTyped("json", JSON.stringify(thread.json(ref)));
  }

  #append(
    id: string,
    plan: (thread: Thread, leafId: string | null) => Promise<NewEntry[]> | NewEntry[],
  ): Promise<void> {
    return this.#pool.use(id, async (session) => {
      const drafts = await this.#read(id, (thread) => plan(thread, session.leafId));
      if (drafts !== undefined && drafts.length > 0) await session.append(drafts);
    });
  }

  /** Calls `work` with a thread as its log is now; undefined where there is no such thread. */
  async #read<Result>(
    id: string,
    work: (thread: Thread) => Promise<Result> | Result,
  ): Promise<Result | undefined> {
    for (let isRetry = false; ; isRetry = true) {
      const wasOpen = this.#threads.has(id);
      try {
        const opening = this.#threads.get(id) ?? Thread.open(id, this.#options);
        this.#threads.delete(id);
        this.#threads.set(id, opening);
        const thread = await opening;
        await thread.refresh();
        return await work(thread);
      } catch (error) {
        const isGone = error instanceof EspalierError && GONE.has(error.code);
        if (!isGone) throw error;
        await this.#forget(id);
        if (!wasOpen || isRetry) {
          if (error.code === "not-found") return undefined;
          throw error;
        }
      } finally {
        const [longest] = this.#threads.keys();
        if (this.#threads.size > OPEN_THREADS && longest !== undefined) await this.#forget(longest);
      }
    }
  }

  /** Closes a thread when the calls that read it have ended. */
  async #forget(id: string): Promise<void> {
    const opening = this.#threads.get(id);
    this.#threads.delete(id);
    const thread = await opening?.catch(() => undefined);
    await thread?.close();
  }
}

/** A session id: it becomes part of a file's name. */
const THREAD_ID = /^(?=.{1,128}$)[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?$/;

/** @throws EspalierError `bad-input` */
function threadId(given: unknown): string {
  if (typeof given === "string" && THREAD_ID.test(given)) return given;
  const shown = typeof given === "string" ? JSON.stringify(given.slice(0, 40)) : `${given}`;
  throw new EspalierError(
    "bad-input",
    `The thread_id ${shown} cannot name a session; give 1 to 128 letters, digits, ".", "_" and "-", for example a UUID.`,
  );
}

/** Writes of a checkpoint in the order in which LangGraph applies them. */
function sortedWrites(place: Place | undefined): Write[] {
  const keyOf = ({ path, task, index }: Write) => host.writesSortKey(path, task, index);
  return [...(place?.writes.values() ?? [])].sort((a, b) => host.compareWritesSortKeys(keyOf(a), keyOf(b)));
}

/** The drafts below an entry, one below the other. */
function below(parentId: string | null, [first, ...others]: NewEntry[]): NewEntry[] {
  return first ? [{ ...first, parentId }, ...others] : [];
}
