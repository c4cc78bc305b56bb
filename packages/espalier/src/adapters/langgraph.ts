// LangGraph's checkpoints in sessions. A thread is a session, a checkpoint is an entry below its parent, and the messages of
// the state are message entries on the same path. docs/decisions/0039-langgraph-checkpoints.md has the reasons.
import { EventEmitter, once } from "node:events";
import { setImmediate } from "node:timers/promises";
import { isDeepStrictEqual } from "node:util";
import { SessionCache } from "@espalier/engine/reading";
import { isSessionId } from "@espalier/session-tree";
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
  openSession,
  type PoolOptions,
  type Session,
  type SessionPool,
  sessionPool,
} from "../index.ts";
import { ifFound, refuseOtherVersions, sessionIdOf, storeOf } from "./host.ts";
import {
  CHECKPOINT,
  type CheckpointData,
  checkpointTitle,
  type Dumped,
  messagesAfter,
  messagesIn,
  type Place,
  planMessages,
  type Ref,
  Thread,
  type Values,
  WRITES,
  type Write,
  type WritesData,
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
type DeltaQuery = Parameters<BaseCheckpointSaver["getDeltaChannelHistory"]>[0];

/** Options of a saver and of its pool of sessions. All have defaults. Nothing is redacted without `redact`. */
export interface EspalierSaverOptions extends PoolOptions {
  /** Channel whose messages become message entries. Default `messages`. */
  messages?: string;
  /** Serializer of values; default: LangGraph's. If its output is not JSON (encryption), the session shows no messages. */
  serde?: SerializerProtocol;
}

/** Number of threads whose values stay in memory between two calls. */
const OPEN_THREADS = 64;

/**
 * Keeps the checkpoints of LangGraph in sessions. Each thread is a session with a tree, forks and a file.
 *
 * ```ts
 * const checkpointer = new EspalierSaver();
 * const graph = builder.compile({ checkpointer });
 * ```
 *
 * The id of a thread is the id of its session: 1 to 128 letters, digits, `.`, `_` and `-`. One process writes a thread at a
 * time; others wait for up to `waitMs` milliseconds. Reading does not wait for a writer.
 */
export class EspalierSaver extends host.BaseCheckpointSaver {
  readonly #store: Pick<PoolOptions, "store" | "home">;
  readonly #messages: string;
  readonly #pool: SessionPool;
  readonly #open = new SessionCache<Session>(OPEN_THREADS);
  readonly #threads = new WeakMap<Session, Thread>();
  readonly #calls = new Calls();

  constructor({ messages = "messages", serde, ...options }: EspalierSaverOptions = {}) {
    super(serde);
    this.#messages = messages;
    this.#store = storeOf(options);
    this.#pool = sessionPool({ redact: false, ...options, rules: false, whole: false });
  }

  /** Waits for running calls and closes all sessions. */
  async close(): Promise<void> {
    await this.#pool.close();
    await this.#open.close();
  }

  /** The checkpoint of a config, or the newest one of its thread and namespace; undefined if there is none. */
  override async getTuple(config: Config): Promise<CheckpointTuple | undefined> {
    if (config.configurable?.["thread_id"] === undefined) return undefined;
    const { thread: threadId, ns, id } = callOf(config);
    return this.#read(threadId, (thread) => {
      const place = thread.place(ns, id);
      return place?.data && this.#tuple(thread, place.data);
    });
  }

  /** The checkpoints of one thread or of all; of each thread, the newest comes first. */
  override async *list(config: Config, options: CheckpointListOptions = {}): AsyncGenerator<CheckpointTuple> {
    const { thread_id, checkpoint_ns, checkpoint_id } = config.configurable ?? {};
    const { before, filter = {} } = options;
    let { limit = Number.POSITIVE_INFINITY } = options;
    const last = before?.configurable?.["checkpoint_id"] as string | undefined;
    const ids = thread_id === undefined ? this.#threadIds() : [sessionIdOf("thread_id", thread_id)];
    for await (const id of ids) {
      if (limit <= 0) return;
      const tuples = await this.#read(id, async (thread) => {
        const found: CheckpointTuple[] = [];
        for (const data of thread.checkpoints(checkpoint_ns)) {
          if (found.length >= limit) break;
          if (checkpoint_id !== undefined && data.id !== checkpoint_id) continue;
          if (last !== undefined && data.id >= last) continue;
          const metadata = await this.#load(thread, data.metadata);
          const isMeant = ([key, value]: [string, unknown]) => isDeepStrictEqual(metadata[key], value);
          if (Object.entries(filter).every(isMeant)) found.push(await this.#tuple(thread, data));
        }
        return found;
      });
      limit -= tuples?.length ?? 0;
      yield* tuples ?? [];
    }
  }

  async *#threadIds(): AsyncGenerator<string> {
    for await (const { id, agent } of listSessions(this.#store))
      if (agent === "espalier" && isSessionId(id)) yield id;
  }

  /** Appends a checkpoint below its parent: first its new messages, then its new values. */
  override async put(
    config: Config,
    checkpoint: Checkpoint,
    metadata: CheckpointMetadata,
    newVersions: ChannelVersions,
  ): Promise<Config> {
    const call = { ...callOf(config), id: checkpoint.id };
    await this.#calls.run(call, true, this.#put(call, config, checkpoint, metadata, newVersions));
    return configOf(call);
  }

  async #put({ thread, ns, id }: Call, ...given: Parameters<BaseCheckpointSaver["put"]>): Promise<void> {
    const [config, checkpoint, metadata, newVersions] = given;
    const { channel_values, channel_versions: versions, id: _, ...rest } = checkpoint;
    const parent: string | undefined = config.configurable?.["checkpoint_id"];
    const isNew = ([channel]: [string, unknown]) => Object.hasOwn(newVersions, channel);
    // All values are serialized before anything is awaited: the graph continues, and changes them.
    const [restDump, metadataDump, fresh] = await Promise.all([
      this.#dump(rest),
      this.#dump(metadata),
      this.#dumpAll(Object.entries(channel_values).filter(isNew)),
    ]);
    const old = Object.entries(channel_values).filter((each) => !isNew(each));
    const outer = ns.slice(0, Math.max(0, ns.lastIndexOf("|")));
    const around = ns === "" ? undefined : metadata.parents?.[outer];
    if (parent === undefined && around !== undefined) await this.#arrival({ thread, ns: outer, id: around });
    await this.#append(thread, async (known) => {
      const stored = known.values.next();
      const above = parent === undefined ? undefined : known.place(ns, parent);
      const values: Record<string, Ref> = {};
      for (const [channel, value] of old) {
        const isSaved = (data?: CheckpointData) =>
          data && Object.hasOwn(data.values, channel) && data.versions[channel] === versions[channel];
        const before = above?.data?.values[channel];
        if (isSaved(above?.data)) values[channel] = before!;
        // A copied checkpoint is a sibling of its original: its parent may not have the value.
        else if (known.checkpoints(ns).some(isSaved))
          values[channel] = stored.ref(await this.#dump(value), before);
      }
      for (const [channel, dumped] of fresh)
        values[channel] = stored.ref(dumped, above?.data?.values[channel]);

      // A copied checkpoint has messages that its parent does not have, but no new version of them.
      const isSaid = versions[this.#messages] !== above?.data?.versions[this.#messages];
      const all = isSaid ? this.#messagesOf(known, stored, values[this.#messages], above) : undefined;
      const outside = around === undefined ? undefined : known.place(outer, around);
      const tail = (above ?? outside)?.tail ?? null;
      const at = Date.parse(rest.ts) || Date.now();
      const planned = all && planMessages(known, tail, all, { ns, at });
      const { parentId, entries } = planned ?? { parentId: tail, entries: [] };
      const data: CheckpointData = {
        title: checkpointTitle(ns, metadata, Object.keys(Object.fromEntries(fresh))),
        ns,
        id,
        ...(parent === undefined ? {} : { parent }),
        checkpoint: stored.ref(restDump),
        versions,
        metadata: stored.ref(metadataDump),
        values,
        ...stored.stored,
      };
      return below(parentId, [...entries, custom.of({ customType: CHECKPOINT, data })]);
    });
  }

  /**
   * Appends the writes of a task below its checkpoint, without those that are already there. A write with a fixed place
   * (an error, an interrupt, a resumption) is appended again, and replaces the earlier one.
   */
  override async putWrites(config: Config, writes: PendingWrite[], task: string, path = ""): Promise<void> {
    const call = callOf(config);
    if (call.id === "")
      throw new EspalierError(
        "bad-input",
        "The writes name no checkpoint; pass the config that `put` returned.",
      );
    const arrival = this.#arrival(call);
    await this.#calls.run(call, false, this.#putWrites(call, writes, task, path, arrival));
  }

  async #putWrites(
    { thread, ns, id }: Call,
    writes: PendingWrite[],
    task: string,
    path: string,
    arrival: Promise<void>,
  ): Promise<void> {
    const [dumped] = await Promise.all([this.#dumpAll(writes), arrival]);
    await this.#append(thread, (known, leafId) => {
      const place = known.place(ns, id);
      const stored = known.values.next();
      const fresh = dumped.flatMap(([channel, value], at): WritesData["writes"] => {
        const index = Object.hasOwn(host.WRITES_IDX_MAP, channel) ? host.WRITES_IDX_MAP[channel]! : at;
        if (index >= 0 && place?.writes.has(writeKey(task, index))) return [];
        return [[index, channel, stored.ref(value, place?.data?.values[channel])]];
      });
      if (fresh.length === 0) return [];
      const channels = fresh.map(([, channel]) => channel);
      const title = writesTitle(ns, path, channels);
      const data: WritesData = { title, ns, id, task, path, writes: fresh, ...stored.stored };
      const draft = custom.of({ customType: WRITES, data });
      if (!place || place.tail === leafId) return [draft];
      // Late writes do not move the leaf away from the newest checkpoint.
      return [...below(place.tail, [draft]), leaf.of({ parentId: leafId, targetId: leafId })];
    });
  }

  /** Removes a thread's session, if there is one, with its other files. */
  override async deleteThread(id: string): Promise<void> {
    await ifFound(this.#pool.delete(sessionIdOf("thread_id", id)));
    // This notices the removal, and closes the session that was open for reading.
    await this.#read(id, () => undefined);
  }

  /**
   * For each channel, the writes to the checkpoints above the given one, oldest first, back to the nearest stored
   * value, which is the `seed`.
   */
  override async getDeltaChannelHistory(query: DeltaQuery): Promise<Record<string, DeltaChannelHistory>> {
    const { config, channels } = query;
    const { thread: threadId, ns, id } = callOf(config);
    const history = new Map<string, DeltaChannelHistory>();
    for (const channel of channels) history.set(channel, { writes: [] });
    await this.#read(threadId, async (thread) => {
      const open = new Set(channels);
      let at = thread.place(ns, id)?.data?.parent;
      while (at !== undefined && open.size > 0) {
        const place = thread.place(ns, at);
        for (const channel of open) {
          const one = history.get(channel)!;
          one.writes.unshift(...(await this.#writes(thread, place, channel)));
          const ref = place?.data?.values[channel];
          if (ref === undefined) continue;
          one.seed = await this.#load(thread, ref);
          open.delete(channel);
        }
        at = place?.data?.parent;
      }
    });
    return Object.fromEntries(history);
  }

  async #tuple(thread: Thread, data: CheckpointData): Promise<CheckpointTuple> {
    const { ns, id, parent } = data;
    const call = { thread: thread.session.id, ns, id };
    const load = (ref: Ref) => this.#load(thread, ref);
    const values = Object.entries(data.values).map(async ([channel, ref]) => [channel, await load(ref)]);
    const checkpoint: Checkpoint = {
      ...(await load(data.checkpoint)),
      id,
      channel_versions: { ...data.versions },
      channel_values: Object.fromEntries(await Promise.all(values)),
    };
    // Before version 4, the sends of a step were writes to the previous checkpoint.
    if (checkpoint.v < 4 && parent !== undefined) {
      const sends = await this.#writes(thread, thread.place(ns, parent), host.TASKS);
      checkpoint.channel_values[host.TASKS] = sends.map(([, , value]) => value);
      const all = Object.values(checkpoint.channel_versions);
      checkpoint.channel_versions[host.TASKS] =
        all.length > 0 ? host.maxChannelVersion(...all) : this.getNextVersion(undefined);
    }
    return {
      config: configOf(call),
      checkpoint,
      metadata: await load(data.metadata),
      pendingWrites: await this.#writes(thread, thread.place(ns, id)),
      ...(parent === undefined ? {} : { parentConfig: configOf({ ...call, id: parent }) }),
    };
  }

  /** The messages of the state; undefined if the channel has other values. */
  #messagesOf(thread: Thread, stored: Values, ref: Ref | undefined, above: Place | undefined) {
    if (ref !== undefined) return messagesIn(stored.items(ref));
    const writes = sortedWrites(above).filter(({ channel }) => channel === this.#messages);
    const items = writes.flatMap((write) => stored.items(write.ref));
    return messagesAfter(thread.shown(above?.tail ?? null), items);
  }

  /** The writes of a checkpoint, or those to one channel. */
  #writes(thread: Thread, place: Place | undefined, only?: string): Promise<CheckpointPendingWrite[]> {
    const writes = sortedWrites(place).filter(({ channel }) => only === undefined || channel === only);
    return Promise.all(
      writes.map(async ({ task, channel, ref }) => [task, channel, await this.#load(thread, ref)]),
    );
  }

  /** Waits until a checkpoint is in the log, or until no running call can add it. */
  #arrival(call: Call): Promise<void> {
    const { thread, ns, id } = call;
    const isThere = () => this.#read(thread, (known) => known.place(ns, id)?.data !== undefined);
    return this.#calls.arrival(call, isThere);
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
    const [type, bytes] = thread.values.bytes(ref) ?? ["json", JSON.stringify(thread.values.json(ref))];
    return this.serde.loadsTyped(type, bytes);
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

  /** Calls `work` with the current state of a thread. Returns undefined if there is no such thread. */
  #read<Result>(id: string, work: (thread: Thread) => Promise<Result> | Result): Promise<Result | undefined> {
    const open = () => openSession(id, { ...this.#store, mode: "read" });
    const read = (session: Session) => {
      const thread = this.#threads.get(session) ?? new Thread(session);
      this.#threads.set(session, thread);
      return work(thread.update());
    };
    return ifFound(this.#open.read(id, open, read));
  }
}

/** Writes of a checkpoint in the order in which LangGraph applies them. */
function sortedWrites(place: Place | undefined): Write[] {
  const keyOf = ({ path, task, index }: Write) => host.writesSortKey(path, task, index);
  return [...(place?.writes.values() ?? [])].sort((a, b) => host.compareWritesSortKeys(keyOf(a), keyOf(b)));
}

/** Drafts as a chain below an entry. */
function below(parentId: string | null, [first, ...others]: NewEntry[]): NewEntry[] {
  return first ? [{ ...first, parentId }, ...others] : [];
}

/** A call for a checkpoint. */
interface Call {
  thread: string;
  ns: string;
  /** Id of the checkpoint; empty for the newest one. */
  id: string;
}

/** Thread, namespace and checkpoint of a config. @throws EspalierError `bad-input` for an unsuitable thread id */
function callOf({ configurable = {} }: Config): Call {
  const { thread_id, checkpoint_ns: ns = "" } = configurable;
  return { thread: sessionIdOf("thread_id", thread_id), ns, id: host.getCheckpointId({ configurable }) };
}

const configOf = ({ thread: thread_id, ns: checkpoint_ns, id: checkpoint_id }: Call) => ({
  configurable: { thread_id, checkpoint_ns, checkpoint_id },
});

interface RunningCall extends Call {
  /** True for the checkpoint itself, false for writes to it. */
  isPut: boolean;
  /** Never rejects. */
  ended: Promise<void>;
}

/**
 * Running calls. LangGraph runs ahead of its saver: it passes the writes of a step while the checkpoint of that step still
 * waits for the previous one.
 */
class Calls {
  readonly #running = new Set<RunningCall>();
  /** Emits the thread and namespace of a call that begins or ends. */
  readonly #changes = new EventEmitter().setMaxListeners(0);

  /** Lists a call until its work ends. */
  async run(call: Call, isPut: boolean, work: Promise<void>): Promise<void> {
    const running = { ...call, isPut, ended: work.catch(() => undefined) };
    this.#running.add(running);
    this.#changes.emit(spaceOf(call));
    try {
      await work;
    } finally {
      this.#running.delete(running);
      this.#changes.emit(spaceOf(call));
    }
  }

  #beside(call: Call): RunningCall[] {
    return [...this.#running].filter((one) => one.thread === call.thread && one.ns === call.ns);
  }

  /**
   * Resolves as soon as a checkpoint is in the log, or no running call can still add it: the host awaits earlier calls
   * before it passes the checkpoint. It must not resolve later: the writes of a step have to be in the log before the next
   * checkpoint.
   *
   * @param isThere returns whether the checkpoint is in the log
   */
  async arrival(call: Call, isThere: () => Promise<boolean | undefined>): Promise<void> {
    const earlier = this.#beside(call);
    const own = () => this.#beside(call).find(({ isPut, id }) => isPut && id === call.id);
    const isExpected = () =>
      this.#beside(call).some(({ isPut }) => isPut) || earlier.some((one) => this.#running.has(one));
    while (!own()) {
      if (await isThere()) return;
      if (own()) break;
      if (isExpected()) await once(this.#changes, spaceOf(call));
      else {
        // After the end of a call, the host makes its next one.
        await setImmediate();
        if (!isExpected()) return;
      }
    }
    await own()?.ended;
  }
}

const spaceOf = ({ thread, ns }: Call) => `${thread} ${ns}`;
