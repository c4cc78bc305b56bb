import { createHash } from "node:crypto";
import { setTimeout as pause } from "node:timers/promises";
import {
  type ListedSession,
  type ListOptions,
  rowsWith,
  type SearchHit,
  type Session,
} from "@espalier/engine";
import { EspalierError } from "@espalier/jsonl-stream";
import { leafRowAt } from "@espalier/session-tree";
import type { RowFinder } from "../model/facts.ts";
import { TreeReader } from "../model/tree-reader.ts";
import { ViewerError } from "./viewer-error.ts";

/** A session in the list of a page. */
interface ListedForPage extends Omit<ListedSession, "ref"> {
  /** Names the session in addresses: its id, with a suffix where several files have it. */
  key: string;
  file: string;
}

/** A session in which a text was found. */
export interface FoundSession {
  key: string;
  /** Number of messages with the text, and true where there are more of them. */
  count: number;
  hasMore: boolean;
  /** The first of them. */
  hits: Pick<SearchHit, "entryId" | "role" | "snippet" | "onPath">[];
}

/** Choice of the sessions that are listed and searched. */
export type SessionFilter = Pick<ListOptions, "agent" | "project" | "since">;

/** Sessions that a search finds, messages that it counts in each, and those of them that it shows. */
const MOST_FOUND = 100;
const MOST_COUNTED = 100;
const MOST_SHOWN = 3;

/** Cost of a sub-agent's run. */
export interface SubAgentCost {
  key: string;
  title: string;
  /** Calls of models, their tokens, and US dollars; `estimated` is the part that no bill records. */
  calls: number;
  totalTokens: number;
  cost: number;
  estimated: number;
  /** True for an imported run of Claude Code, whose own figure for the session includes it. */
  isOfClaudeCode: boolean;
}

/** Sessions that are kept open without readers; the least recently used is closed first. */
const KEPT = 24;

/** A session that is open, or being opened. */
interface Opened {
  session: Promise<Session>;
  /** Number of readers; without any it may be closed. */
  readers: number;
}

/** Sessions by the key that pages know them by, opened when they are asked for, and as long as the server runs. */
export class OpenSessions {
  readonly #sessions: ViewerSessions;
  readonly #refs = new Map<string, string>();
  readonly #open = new Map<string, Opened>();

  constructor(sessions: ViewerSessions) {
    this.#sessions = sessions;
  }

  async list(): Promise<ListedForPage[]> {
    const listed: ListedForPage[] = [];
    for await (const { ref, ...session } of this.#sessions.list())
      listed.push({ ...session, file: ref, key: this.keyOf(session.id, ref) });
    return listed;
  }

  /** Finds sessions with a text among those of a choice, newest first; 100 at most. */
  async search(query: string, filter: SessionFilter, signal: AbortSignal): Promise<FoundSession[]> {
    const found: FoundSession[] = [];
    for await (const { id, ref } of this.#sessions.list(filter)) {
      signal.throwIfAborted();
      const session: FoundSession = { key: this.keyOf(id, ref), count: 0, hasMore: false, hits: [] };
      try {
        for await (const hit of this.#sessions.search(query, {
          file: ref,
          limit: MOST_COUNTED + 1,
          signal,
        })) {
          const { entryId, role, snippet, onPath } = hit;
          if (session.count === MOST_COUNTED) session.hasMore = true;
          else if (++session.count <= MOST_SHOWN) session.hits.push({ entryId, role, snippet, onPath });
        }
      } catch (error) {
        // A session that has become unreadable since it was listed: the next list reports it.
        if (!(error instanceof EspalierError) || error.code === "bad-input") throw error;
      }
      if (session.count > 0) found.push(session);
      if (found.length === MOST_FOUND) break;
    }
    return found;
  }

  /** The key of a session, the same for the same file as long as the server runs. */
  keyOf(id: string, ref: string): string {
    const plain = /^[\w.-]{1,100}$/.test(id) ? id : digestOf(ref);
    const taken = this.#refs.get(plain);
    const key = taken === undefined || taken === ref ? plain : `${plain}~${digestOf(ref)}`;
    this.#refs.set(key, ref);
    return key;
  }

  /** Reference that opens a session. @throws ViewerError `not-found` */
  async refOf(key: string): Promise<string> {
    if (!this.#refs.has(key)) await this.list();
    const ref = this.#refs.get(key);
    if (ref === undefined)
      throw new ViewerError("not-found", "There is no such session here; the list may be out of date.");
    return ref;
  }

  /**
   * Has something read of a session as it is now, with what others appended; it is not closed before that is done.
   * @throws ViewerError `not-found`; what opening it, or `read`, throws
   */
  async read<Result>(
    key: string,
    read: (reader: TreeReader, session: Session) => Result | Promise<Result>,
  ): Promise<Result> {
    const ref = await this.refOf(key);
    const opened = await this.#current(ref);
    try {
      const session = await opened.session;
      return await read(new TreeReader(session.tree, rowsInAnyCase), session);
    } finally {
      await this.#leave(ref, opened);
    }
  }

  /** Has something planned for a session under its settings. @throws ViewerError `not-found`; what opening it throws */
  async plan<Result>(key: string, plan: (session: Session) => Result): Promise<Result> {
    const session = await this.#sessions.plan(await this.refOf(key));
    try {
      await session.load();
      return plan(session);
    } finally {
      await session.close();
    }
  }

  /** Runs of the sub-agents that a session started, and of those that they started, with their cost. */
  async subAgents(key: string): Promise<SubAgentCost[]> {
    const ref = await this.refOf(key);
    const listed = await this.list();
    const own = listed.find(({ file }) => file === ref);
    const begun = new Set([own?.id]);
    const runs: SubAgentCost[] = [];
    // A set that grows is walked to its end.
    for (const parent of begun) {
      for (const run of listed) {
        if (run.parent?.kind !== "subagent" || run.parent.sessionId !== parent || begun.has(run.id)) continue;
        begun.add(run.id);
        const { total } = await this.read(run.key, (reader) => reader.stats());
        const { calls, totalTokens, cost, estimated } = total;
        const title = run.name ?? run.firstMessage ?? run.id;
        const isOfClaudeCode = run.importedFrom === "claude-code";
        runs.push({ key: run.key, title, calls, totalTokens, cost, estimated, isOfClaudeCode });
      }
    }
    return runs;
  }

  /** Closes all of them; a reader gets the error of a closed session. */
  async close(): Promise<void> {
    const opened = [...this.#open.values()];
    this.#open.clear();
    await Promise.all(opened.map(closeOpened));
  }

  async #current(ref: string): Promise<Opened> {
    const opened = this.#enter(ref);
    try {
      return await refreshed(opened);
    } catch {
      // The file may have been replaced or shortened since it was opened: what is there now counts, or its own error.
      // Others may have seen that too, and have opened it anew by now.
      if (this.#open.get(ref) === opened) this.#open.delete(ref);
      await this.#leave(ref, opened);
    }
    const anew = this.#enter(ref);
    try {
      return await refreshed(anew);
    } catch (error) {
      await this.#leave(ref, anew);
      throw error;
    }
  }

  /** The session, opened if it is not; it is then the one that was asked for last, and is read by one more. */
  #enter(ref: string): Opened {
    const opened = this.#open.get(ref) ?? { session: this.#sessions.read(ref), readers: 0 };
    opened.readers++;
    this.#open.delete(ref);
    this.#open.set(ref, opened);
    return opened;
  }

  /** Removes a reader; closes sessions without readers that are too many, or that were replaced. */
  async #leave(ref: string, opened: Opened): Promise<void> {
    opened.readers--;
    const ended: Opened[] = [];
    if (opened.readers === 0 && this.#open.get(ref) !== opened) ended.push(opened);
    for (const [unread, each] of this.#open) {
      if (this.#open.size <= KEPT) break;
      if (each.readers > 0) continue;
      this.#open.delete(unread);
      ended.push(each);
    }
    await Promise.all(ended.map(closeOpened));
  }
}

async function refreshed(opened: Opened): Promise<Opened> {
  const session = await opened.session;
  await session.load();
  await session.refresh();
  return opened;
}

const rowsInAnyCase: RowFinder = (tree, text, signal) => rowsWith(tree, text, false, signal);

/** A session that could not be opened has nothing to close: its reader got the error. */
async function closeOpened({ session }: Opened): Promise<void> {
  const [opening] = await Promise.allSettled([session]);
  if (opening.status === "fulfilled") await opening.value.close();
}

const digestOf = (ref: string): string => createHash("sha256").update(ref).digest("hex").slice(0, 12);

/** Source of the sessions that a server shows: the shell that starts it decides. */
export interface ViewerSessions {
  /** Lists sessions, newest first; those of a choice. Default: all. */
  list(filter?: SessionFilter): AsyncIterable<ListedSession>;
  /** Opens one to read it. */
  read(ref: string): Promise<Session>;
  /** Opens one to plan for it, with its settings; nothing is written. */
  plan(ref: string): Promise<Session>;
  /** Describes the sessions of other agents on this machine that could be imported; empty where there are none. */
  found?(): string;
  /**
   * Opens one to change it, with whatever settings and summarizer hold; `beside` for what stands beside the conversation
   * and may be appended whoever else writes. Only asked by a server that may write.
   */
  write(ref: string, options: { beside: boolean }): Promise<Session>;
  /** Finds places with a text in one session. */
  search(
    query: string,
    options: { file: string; limit: number; signal: AbortSignal },
  ): AsyncIterable<SearchHit>;
}

/** State of a session for its watchers. */
interface SessionPulse {
  /** Number of entries. */
  length: number;
  /** Leaf of the session; -1 before the first entry. */
  leafRow: number;
}

/** Milliseconds between two looks at a log; a look costs one call to the system. */
const INTERVAL = 400;

/** Yields the state of a session, at once and each time it has grown, until `signal` ends it. */
export async function* watchSession(
  sessions: OpenSessions,
  key: string,
  signal: AbortSignal,
): AsyncGenerator<SessionPulse> {
  let told = -1;
  while (!signal.aborted) {
    const pulse = await sessions.read(key, ({ tree }) => ({
      length: tree.length,
      leafRow: leafRowAt(tree, tree.lastRow),
    }));
    if (pulse.length !== told) yield pulse;
    told = pulse.length;
    // Ending is no failure: the loop's condition says so.
    await pause(INTERVAL, undefined, { signal }).catch(() => undefined);
  }
}

/** Milliseconds between two looks at the list: at least these, and no more than a tenth of the time is spent on it. */
const LIST_INTERVAL = 1_000;

/** Yields the number of sessions each time one came, went or changed, until `signal` ends it. */
export async function* watchList(sessions: OpenSessions, signal: AbortSignal): AsyncGenerator<number> {
  let told: string | undefined;
  while (!signal.aborted) {
    const begun = performance.now();
    const listed = await sessions.list();
    const state = listed.map(({ key, bytes, modified }) => `${key} ${bytes} ${modified}`).join("\n");
    if (told !== undefined && state !== told) yield listed.length;
    told = state;
    const interval = Math.max(LIST_INTERVAL, 10 * (performance.now() - begun));
    // Ending is no failure: the loop's condition says so.
    await pause(interval, undefined, { signal }).catch(() => undefined);
  }
}
