import { existsSync } from "node:fs";
import {
  espalierHome,
  type ListedSession,
  type ListOptions,
  listSessions,
  type OpenOptions,
  openSession,
  type Session,
  sessionOptionsOf,
  settleTail,
} from "@espalier/engine";
import { type SessionRef, type SessionStore, SessionTreeError } from "@espalier/session-tree";
import { fileStore } from "@espalier/session-tree/node";
import { CommandError } from "./failure.ts";
import { refuseForeign } from "./foreign-session.ts";
import { readingTrace } from "./reading-trace.ts";
import { warnOfHeader } from "./session-warnings.ts";
import { confirmTrust, settingsInForce, settledBy } from "./settings-in-force.ts";
import type { Shell } from "./shell.ts";

/** How much of a session a command needs. */
interface Reach {
  /** True: the context at the leaf, and nothing that only the whole tree can tell. Default false. */
  isContextEnough?: boolean;
  /** Told of the session as it was opened, before anything else of it is read. */
  onOpened?: (session: Session) => void;
}

/**
 * Opens a session to read it, and lets go of it when `read` is done; nothing of it changes, and no extension runs but
 * those named on the command line. Says on stderr, one sentence each, why the session is only read.
 */
export function reading<Result>(
  shell: Shell,
  ref: string,
  read: (session: Session) => Promise<Result>,
  reach: Reach = {},
): Promise<Result> {
  return using(ref, { ...heard(shell), ...reach, mode: "read" }, async (session) => {
    warnOfHeader(shell, session);
    return await read(session);
  });
}

/** As {@link reading}, with the settings in force: for what says what a compaction would do. */
export function planning<Result>(
  shell: Shell,
  ref: string,
  read: (session: Session) => Promise<Result>,
): Promise<Result> {
  const settle: OpenOptions["settle"] = async (model) => {
    const { values } = await settingsInForce(shell, model);
    return sessionOptionsOf(values);
  };
  return using(ref, { ...heard(shell), settle, mode: "read" }, async (session) => {
    warnOfHeader(shell, session);
    return await read(session);
  });
}

/** Opens a session to change it, with its extensions, and lets go of it when `change` is done. */
export function changing<Result>(
  shell: Shell,
  ref: string,
  change: (session: Session) => Promise<Result>,
  options: OpenOptions & Reach = {},
): Promise<Result> {
  return using(ref, { ...toChange(shell), ...options }, async (session) => {
    if (session.heldBy) shell.complain(`Another process writes ${ref}; this goes on with ${session.file}.`);
    return await change(session);
  });
}

/** Milliseconds that a change waits for another one of the same session. */
const WAIT = 2_000;

/** How a session is opened to be changed: with its extensions, the settings in force, and its lease. */
export function toChange(shell: Shell, summarizes = false): OpenOptions & Reach {
  const { onBusy = "error" } = shell.globals;
  const settle = settledBy(shell, { summarizes });
  return { ...heard(shell), discoverExtensions: true, onBusy, waitMs: WAIT, settle };
}

/** As {@link changing}, for what stands beside the conversation: it is appended whoever else writes the session. */
export function appendingBeside<Result>(
  shell: Shell,
  ref: string,
  change: (session: Session) => Promise<Result>,
): Promise<Result> {
  return changing(shell, ref, change, { lease: false });
}

/** As {@link changing}, with the summarizer that the command line, the settings or the environment name. */
export function summarizing<Result>(
  shell: Shell,
  ref: string,
  change: (session: Session) => Promise<Result>,
): Promise<Result> {
  return changing(shell, ref, change, { settle: settledBy(shell, { summarizes: true }) });
}

/** What a command needs to know of extensions, and where they can say something. */
export function heard(shell: Shell): OpenOptions & Reach {
  return {
    ...(shell.globals.trace ? { onOpened: (session) => shell.complain(readingTrace(session)) } : {}),
    extensions: shell.globals.extension ?? [],
    onReport: ({ message }) => shell.complainOnce(message),
    confirmTrust: confirmTrust(shell),
    ui: {
      notify: (message) => shell.complain(message),
      setStatus: (key, text) => shell.setStatus?.(key, text),
      ...(shell.dialogs ? { dialogs: shell.dialogs } : {}),
    },
    ...storeOf(shell),
  };
}

/** The store that commands work in, as an option of whatever opens a session. Views and references ask about all of it. */
export const storeOf = ({ store }: Pick<Shell, "store">): Pick<OpenOptions, "store" | "whole"> =>
  store ? { store, whole: true } : {};

/** What a list or a search passes over is told on stderr, one sentence each. */
export const tellSkipped = (shell: Pick<Shell, "complain">): Pick<ListOptions, "onSkipped"> => ({
  onSkipped: (_place, { message }) => shell.complain(message),
});

/** Where sessions are opened by name: the store of `--store`, or files below the engine's home. */
export const storeInUse = ({ store }: Pick<Shell, "store">): SessionStore =>
  store ?? fileStore({ home: espalierHome() });

/**
 * The session that a word of the command line means: the path of a file, the id of a session, or the beginning of one
 * that no other session has. In a store a name, too. Of a session and its sub-agents, whose ids begin with its own, it is
 * the session.
 *
 * @throws CommandError `not-found` where several sessions have such an id; SessionTreeError `ambiguous`, and what keeps
 *   the store from being read
 */
export async function sessionNamed(store: SessionStore | undefined, word: string): Promise<SessionRef> {
  const isPath = !store && (existsSync(word) || /[/\\]|\.jsonl$/.test(word));
  if (isPath) return { file: word };
  for (const ref of [{ id: word }, ...(store ? [{ file: word }] : [])])
    if (await isThere(storeInUse({ store }), ref)) return ref;
  const begun: ListedSession[] = [];
  let unreadable: SessionTreeError | undefined;
  const onSkipped = (_place: string, error: SessionTreeError) => {
    unreadable ??= error;
  };
  if (word !== "")
    for await (const session of listSessions({ ...storeOf({ store }), subAgents: true, onSkipped }))
      if ([session.id, ...(store ? [session.ref] : [])].some((name) => name.startsWith(word)))
        begun.push(session);
  const meant = begun.filter(
    ({ id }) => id === word || !begun.some((other) => id.startsWith(`${other.id}.`)),
  );
  if (meant.length === 1) return { file: meant[0]!.ref };
  // The session may be in the folder that cannot be read.
  if (meant.length === 0 && unreadable) throw unreadable;
  // Opening it says that there is none.
  if (meant.length === 0) return { id: word };
  const names = meant.slice(0, 3).map(({ id }) => id);
  if (meant.length > names.length) names.push("…");
  throw new CommandError(
    "not-found",
    `${meant.length} sessions have an id that begins with ${word}: ${names.join(", ")}; give more of it.`,
  );
}

async function isThere(store: SessionStore, ref: SessionRef): Promise<boolean> {
  try {
    await (await store.open(ref, "read")).close();
    return true;
  } catch (error) {
    if (error instanceof SessionTreeError && error.code === "not-found") return false;
    throw error;
  }
}

async function using<Result>(
  word: string,
  { isContextEnough = false, onOpened, ...options }: OpenOptions & Reach,
  use: (session: Session) => Promise<Result>,
): Promise<Result> {
  const ref = await sessionNamed(options.store, word);
  const session = await openSession(ref, isContextEnough ? { ...options, whole: false } : options).catch(
    async (error: unknown) => {
      // What is no session of ours may be somebody else's.
      await refuseForeign(word);
      throw error;
    },
  );
  try {
    if (!session.header) await refuseForeign(session.file);
    onOpened?.(session);
    // Views and references to entries ask about all of it.
    if (!isContextEnough) {
      await session.load();
      await settleTail(session);
    }
    return await use(session);
  } finally {
    await session.close();
  }
}
