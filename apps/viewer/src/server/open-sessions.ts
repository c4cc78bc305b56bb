import { createHash } from "node:crypto";
import { setTimeout as pause } from "node:timers/promises";
import {
  type ListedSession,
  type ListOptions,
  rowsWith,
  type SearchHit,
  type Session,
} from "@espalier/engine";
import { SessionCache, type UsageTotals } from "@espalier/engine/reading";
import { EspalierError } from "@espalier/jsonl-stream";
import { rowOfLeaf } from "@espalier/session-tree";
import type { RowFinder } from "../model/tree-reader.ts";
import { type TreeReader, treeReader } from "../model/tree-reader.ts";
import { ViewerError } from "./viewer-error.ts";

/** A session in the list of a page. */
export interface ListedForPage extends Omit<ListedSession, "ref"> {
  /** Key of the session in addresses: its id, with a suffix if several files have the id. */
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
export interface SubAgentCost extends Pick<UsageTotals, "calls" | "totalTokens" | "cost" | "estimated"> {
  key: string;
  title: string;
  /** True for an imported sub-agent of Claude Code, whose recorded cost of the session includes it. */
  isOfClaudeCode: boolean;
}

/** Maximum number of sessions that stay open between reads. */
const KEPT = 24;

/** Sessions by their key in addresses. They are opened on request while the server runs. */
export class OpenSessions {
  readonly #sessions: ViewerSessions;
  readonly #refs = new Map<string, string>();
  readonly #cache = new SessionCache<Session>(KEPT);

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

  /**
   * Returns the reference that opens a session.
   * @throws ViewerError `not-found`
   */
  async refOf(key: string): Promise<string> {
    if (!this.#refs.has(key)) await this.list();
    const ref = this.#refs.get(key);
    if (ref === undefined)
      throw new ViewerError("not-found", "There is no such session here; the list may be out of date.");
    return ref;
  }

  /**
   * Reads from the current state of a session, with entries that others appended. The session stays open until the
   * reading ends.
   * @throws ViewerError `not-found`; errors of opening it, and of `read`
   */
  async read<Result>(
    key: string,
    read: (reader: TreeReader, session: Session) => Result | Promise<Result>,
  ): Promise<Result> {
    const ref = await this.refOf(key);
    return this.#cache.read(
      ref,
      () => this.#sessions.read(ref),
      (session) => read(treeReader(session.tree, rowsInAnyCase), session),
    );
  }

  /**
   * Makes a plan for a session with its settings.
   * @throws ViewerError `not-found`; errors of opening it
   */
  async plan<Result>(key: string, plan: (session: Session) => Result): Promise<Result> {
    const session = await this.#sessions.plan(await this.refOf(key));
    try {
      await session.load();
      return plan(session);
    } finally {
      await session.close();
    }
  }

  /** Returns the sub-agents of a session, at any depth, with their cost. */
  async subAgents(key: string): Promise<SubAgentCost[]> {
    const ref = await this.refOf(key);
    const listed = await this.list();
    const own = listed.find(({ file }) => file === ref);
    const begun = new Set([own?.id]);
    const runs: SubAgentCost[] = [];
    // The set grows during the loop, which visits the new elements too.
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

  /** Closes all sessions; a reader gets the error of a closed session. */
  close(): Promise<void> {
    return this.#cache.close();
  }
}

const rowsInAnyCase: RowFinder = (tree, text, signal) => rowsWith(tree, text, false, signal);

const digestOf = (ref: string): string => createHash("sha256").update(ref).digest("hex").slice(0, 12);

/** Source of a server's sessions, chosen by the program that starts the server. */
export interface ViewerSessions {
  /** Lists sessions, newest first; those of a choice. Default: all. */
  list(filter?: SessionFilter): AsyncIterable<ListedSession>;
  /** Opens one to read it. */
  read(ref: string): Promise<Session>;
  /** Opens a session for a plan, with its settings; nothing is written. */
  plan(ref: string): Promise<Session>;
  /** Describes the sessions of other agents on this machine that can be imported; empty if there are none. */
  found?(): string;
  /**
   * Opens a session for a change, with its settings and summarizer. With `beside` the change is not part of the
   * conversation, and is possible while others write. Called only by a server that may write.
   */
  write(ref: string, options: { beside: boolean }): Promise<Session>;
  /** Finds places with a text in one session. */
  search(
    query: string,
    options: { file: string; limit: number; signal: AbortSignal },
  ): AsyncIterable<SearchHit>;
}

/** State of a session for its followers. */
interface SessionPulse {
  /** Number of entries. */
  length: number;
  /** Leaf of the session; -1 before the first entry. */
  leafRow: number;
}

/** Milliseconds between two checks of a log. A check is one system call. */
const INTERVAL = 400;

/** Yields the state of a session at once and whenever it has grown, until `signal` ends this. */
export async function* watchSession(
  sessions: OpenSessions,
  key: string,
  signal: AbortSignal,
): AsyncGenerator<SessionPulse> {
  let told = -1;
  while (!signal.aborted) {
    const pulse = await sessions.read(key, ({ tree }) => ({
      length: tree.length,
      leafRow: rowOfLeaf(tree),
    }));
    if (pulse.length !== told) yield pulse;
    told = pulse.length;
    // The end of the pause is not an error; the loop checks the signal.
    await pause(INTERVAL, undefined, { signal }).catch(() => undefined);
  }
}

/** Minimum number of milliseconds between two checks of the list. Checks take at most a tenth of the time. */
const LIST_INTERVAL = 1_000;

/** Yields the number of sessions at once and whenever one was added, removed or changed, until `signal` ends this. */
export async function* watchList(sessions: OpenSessions, signal: AbortSignal): AsyncGenerator<number> {
  let told: string | undefined;
  while (!signal.aborted) {
    const begun = performance.now();
    const listed = await sessions.list();
    const state = listed.map(({ key, bytes, modified }) => `${key} ${bytes} ${modified}`).join("\n");
    if (state !== told) yield listed.length;
    told = state;
    const interval = Math.max(LIST_INTERVAL, 10 * (performance.now() - begun));
    // The end of the pause is not an error; the loop checks the signal.
    await pause(interval, undefined, { signal }).catch(() => undefined);
  }
}
