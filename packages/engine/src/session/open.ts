import { setTimeout } from "node:timers/promises";
import { EspalierError, type LeaseHolder } from "@espalier/jsonl-stream";
import {
  createId,
  FORMAT_VERSION,
  idTakenError,
  type OpenMode,
  openIfThere,
  openWindow,
  redactFolder,
  type SessionHeader,
  type SessionLease,
  type SessionLog,
  type SessionRef,
  type SessionStore,
  type SessionTree,
  sessionRef,
  type Tree,
  WRITER,
} from "@espalier/session-tree";
import { fileStore } from "@espalier/session-tree/node";
import { restoreFiles } from "../compaction/offload.ts";
import { contextForHandlers } from "../extensions/context.ts";
import { type ExtensionOptions, loadExtensions } from "../extensions/load.ts";
import { espalierHome } from "../settings/home.ts";
import { Session } from "./session.ts";
import {
  currentModel,
  engineHooks,
  type SessionOptions,
  sentencesOnStderr,
  sessionStart,
  takeAll,
} from "./state.ts";
import { leaseOf } from "./stores.ts";

/** The store of sessions. */
export interface StoreOptions {
  /** Folder used as `~/.espalier`. Default: `ESPALIER_HOME`, else `~/.espalier`. */
  home?: string;
  /** Another store than files below `home`. */
  store?: SessionStore;
  /**
   * Loads the whole session when it is opened, so that its tree (`tree`, `name`, `branches`, …) can be read
   * synchronously. Default true. False suits a program that needs only the context: from a database, only the context
   * is read, and `load` reads the rest. Before `load`, members that need the tree throw `not-loaded`. A session with
   * handlers or commands of extensions, or a policy that evaluates appends, is always loaded.
   */
  whole?: boolean;
}

interface SettledOptions {
  /**
   * Called directly after the session's log is opened, and again when the model changes; the result overrides the
   * options given here. `modelOf` reads the path and names the session's model as `provider/id`. When a later call
   * throws, the settings do not change, and `log` receives the error.
   */
  settle?: (
    modelOf: () => string | undefined,
  ) => Promise<SessionOptions & Pick<ExtensionOptions, "extensions">>;
}

/** Options of opening a session. Everything has a default. */
export interface OpenOptions
  extends StoreOptions,
    SessionOptions,
    ExtensionOptions,
    HoldOptions,
    SettledOptions {
  /**
   * `read` changes nothing, whichever function is called, and takes no lease. Default `write`: the lease is held until
   * `close`.
   */
  mode?: OpenMode;
  /** Opens at this entry instead of the recorded leaf. */
  leafId?: string;
}

/**
 * Opens a session by its exact id (a string, or `{ id }`) or by its file (`{ file }`: a path, or the name in another
 * store), with its extensions. When another program writes it, `onBusy` decides, and `heldBy` names that program.
 * @throws EspalierError `not-found`, `ambiguous`, `not-a-file`, `empty-file`, `not-a-session`, `unreadable`,
 *   `unknown-entry`, `busy`; ExtensionError for an extension that was named and cannot be loaded
 */
export async function openSession(ref: SessionRef, options: OpenOptions = {}): Promise<Session> {
  const store = storeOf(options);
  const hold = options.mode === "read" ? { isReadOnly: true } : await holdSession(store, ref, options);
  if (hold.heldBy && options.onBusy === "fork") return openFork(ref, { ...options, store }, hold);
  return begin(() => store.open(ref, hold.isReadOnly ? "read" : "write"), store, options, hold);
}

/** Opens a fork, at `leafId` or the leaf, of a session that another program writes. Throws `bad-input` if it is empty. */
async function openFork(
  ref: SessionRef,
  options: OpenOptions & { store: SessionStore },
  { heldBy }: Hold,
): Promise<Session> {
  const source = await openSession(ref, { store: options.store, mode: "read" });
  const leafId = options.leafId ?? source.leafId;
  try {
    if (leafId === null)
      throw new EspalierError(
        "bad-input",
        `${source.file} is being written and has nothing to fork yet; share it.`,
      );
    const { file } = await source.fork(leafId);
    const { leafId: _, ...rest } = options;
    const fork = await openSession({ file }, rest);
    fork.heldBy = heldBy;
    return fork;
  } finally {
    await source.close();
  }
}

/** Options of a new session. Everything has a default. */
export interface CreateOptions extends StoreOptions, SessionOptions, ExtensionOptions, SettledOptions {
  /** Working folder of the agent. Default: the process's. */
  cwd?: string;
  /** Id of the session. Default: a new one. */
  id?: string;
  /** Session from which this one was forked, or for which it works. */
  parent?: SessionHeader["parent"];
  /** File of the session. Default: below `home`, named after the working folder. */
  file?: string;
}

/**
 * Makes a new session. Its header is on disk when the promise resolves.
 * @throws EspalierError `exists` for an id or a file that is taken; `busy` where another program opened it first
 */
export async function createSession(options: CreateOptions = {}): Promise<Session> {
  const store = storeOf(options);
  const { id, file } = options;
  if (id !== undefined && file !== undefined && (await hasSession(store, { id }))) throw idTakenError(id);
  const header: SessionHeader = {
    type: "session",
    version: FORMAT_VERSION,
    id: options.id ?? createId(),
    timestamp: new Date().toISOString(),
    cwd: redactFolder(options.cwd ?? process.cwd(), options.redact),
    writer: WRITER,
    ...(options.parent ? { parent: options.parent } : {}),
  };
  const log = await store.create(header, [], options.file);
  const lease = await leaseOf(log, store);
  // Another caller may have had the lease first, and appended.
  const grown = () => log.takeIn().then(() => log);
  return begin(grown, store, options, { lease });
}

/**
 * Opens a session by its id or file, or creates it when it does not exist. Of several concurrent calls, one creates it.
 *
 * @throws as {@link openSession} and {@link createSession}
 */
export async function openOrCreate(
  ref: SessionRef,
  options: Omit<OpenOptions & CreateOptions, "id" | "file" | "mode" | "leafId"> = {},
): Promise<Session> {
  const store = storeOf(options);
  const named = sessionRef(ref);
  for (const deadline = performance.now() + MAKING_MS; ; await setTimeout(MAKING_LOOK_MS)) {
    let taken: EspalierError | undefined;
    if (!(await hasSession(store, named)))
      try {
        return await createSession({ ...options, ...named });
      } catch (error) {
        const code = error instanceof EspalierError ? error.code : undefined;
        if (code !== "exists" && code !== "busy") throw error;
        taken = error as EspalierError;
      }
    try {
      return await openSession(ref, options);
    } catch (error) {
      const isMissing = error instanceof EspalierError && error.code === "not-found";
      // Another caller has taken the id and is about to create the session.
      if (!isMissing || !taken || performance.now() > deadline) throw error;
    }
  }
}

/** Maximum wait, in milliseconds, for a session that another caller creates, and the pause between two attempts. */
const MAKING_MS = 10_000;
const MAKING_LOOK_MS = 10;

/** Returns whether a store has a session. Throws all other errors of opening it. */
export async function hasSession(store: SessionStore, ref: SessionRef): Promise<boolean> {
  const log = await openIfThere(store, ref, "read");
  await log?.close();
  return log !== undefined;
}

/**
 * Removes a session and the files that belong to it; the engine itself never calls this. Returns the removed paths.
 *
 * @throws EspalierError `not-found`, `ambiguous`; `busy` while another program writes it
 */
export async function deleteSession(ref: SessionRef, options: StoreOptions = {}): Promise<string[]> {
  return storeOf(options).delete(ref);
}

function storeOf({ store, home = espalierHome() }: StoreOptions): SessionStore {
  return store ?? fileStore({ home });
}

async function begin(
  open: () => Promise<SessionLog>,
  store: SessionStore,
  given: OpenOptions,
  hold: Hold,
): Promise<Session> {
  let log: SessionLog | undefined;
  try {
    log = await open();
    const window = await openWindow(log, given.leafId);
    const session = new Session(log, window, store, given, given.onReport);
    const { settle } = given;
    const settled = await settle?.(() => currentModel(session));
    if (settle && settled) session.settleBy(settle, settled);
    const options = { ...given, ...settled };
    session.lease = hold.lease;
    session.heldBy = hold.heldBy;
    session.isReadOnly = hold.isReadOnly ?? false;
    for (const kind of options.kinds ?? []) session.registerKind(kind);
    await loadExtensions(session, options, options.home ?? espalierHome());
    // Handlers, and policies that evaluate every append, read the session synchronously.
    const isAsked =
      session.commands.length > 0 || Object.values(engineHooks).some((hook) => session.host.has(hook));
    const isNeeded = given.whole !== false || isAsked || session.policy.judgedAt === "append";
    if (!log.view && isNeeded) await session.load();
    await restoreFiles(session);
    const { id: sessionId, file, host } = session;
    const started = { sessionId, file, reason: options.startReason ?? ("startup" as const) };
    if (host.has(sessionStart)) await host.notify(sessionStart, started, contextForHandlers(session));
    return session;
  } catch (error) {
    const failed = () => Promise.reject(error);
    const close = () => log?.close();
    await takeAll(given.log ?? sentencesOnStderr, failed, close, () => hold.lease?.release());
    throw error;
  }
}

/**
 * Behaviour for a session with another writer: `error` (`busy`, with its `holder`), open it `read-only`, `fork` it and
 * write the fork, or `share` it: both programs write, each on its own branch.
 */
export type OnBusy = "error" | "read-only" | "fork" | "share";

interface HoldOptions {
  /** Behaviour when another program writes the session. Default `error`. */
  onBusy?: OnBusy;
  /**
   * Milliseconds to wait for the writer of the session; then `onBusy` decides. Two servers that open the session,
   * append and close it take turns in this way. Default 0: no wait.
   */
  waitMs?: number;
  /** False: writes without taking the lease, as labels, names and pins do. Default true. */
  lease?: boolean;
}

interface Hold {
  /** Lease of this process, if it has one. */
  lease?: SessionLease;
  /** Holder of the lease, if it is another process. */
  heldBy?: LeaseHolder;
  /** True when the session is only read. */
  isReadOnly?: boolean;
}

/** Takes the lease of a session before it is written. Throws `EspalierError` `busy`, `not-found`, `write-failed`. */
async function holdSession(
  store: SessionStore,
  ref: SessionRef,
  { onBusy = "error", waitMs = 0, lease = true }: HoldOptions,
): Promise<Hold> {
  if (!lease) return {};
  try {
    return { lease: await store.lease(ref, { waitMs }) };
  } catch (error) {
    const heldBy = error instanceof EspalierError && error.code === "busy" ? error.holder : undefined;
    if (onBusy === "error" || !heldBy) throw error;
    return { heldBy, isReadOnly: onBusy === "read-only" };
  }
}

/** Milliseconds after which a last line that did not grow counts as abandoned: one write takes far less. */
const QUIET_MS = 100;

/** Maximum number of checks of the last line: a busy writer has an unfinished one at every second check. */
const LOOKS = 20;

/**
 * Waits until the last line of a log has an end, or no longer grows: an unfinished line is no damage while it is being
 * written. Returns at once when the last line is whole, and after about two seconds at the latest.
 */
export async function settleTail(session: Pick<SessionTree, "tree" | "refresh">): Promise<void> {
  for (let look = 0, size = -1; look < LOOKS && hasOpenEnd(session.tree); look += 1) {
    if (session.tree.view.size === size) return;
    size = session.tree.view.size;
    await setTimeout(QUIET_MS);
    await session.refresh();
  }
}

function hasOpenEnd({ issues }: Tree): boolean {
  const last = issues.at(-1)?.kind;
  return last === "torn-tail" || last === "unterminated-tail";
}
