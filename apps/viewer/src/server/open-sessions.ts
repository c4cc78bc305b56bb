// Separate from serve-viewer.ts: it keeps sessions; the server speaks HTTP.
import { createHash } from "node:crypto";
import { setTimeout as pause } from "node:timers/promises";
import {
  type ActOptions,
  type LastAct,
  type ListedSession,
  type ListOptions,
  lastAct,
  lastUndone,
  POLICY_NAMES,
  type PolicyComparison,
  type PolicyName,
  rowsWith,
  runsBelow,
  type SearchHit,
  type Session,
} from "@espalier/engine";
import { SessionCache, type UsageTotals } from "@espalier/engine/reading";
import { EspalierError } from "@espalier/jsonl-stream";
import { rowOfLeaf } from "@espalier/session-tree";
import { factsOf } from "@espalier/session-tree/node";
import { type RowFinder, type TreeReader, treeReader } from "../model/tree-reader.ts";
import { ViewerError } from "./viewer-error.ts";

/** A session in the list of a page. */
export interface ListedForPage extends Omit<ListedSession, "ref"> {
  /**
   * Key of the session in addresses: its id, or a digest of its file if the id cannot be in an address; with a suffix if
   * another file has the key.
   */
  key: string;
  file: string;
}

/** A session in which a text was found. */
export interface FoundSession {
  key: string;
  /** Number of messages with the text, at most 100. */
  count: number;
  /** True if more than 100 messages have the text. */
  hasMore: boolean;
  /** The first 3 of these messages. */
  hits: Pick<SearchHit, "entryId" | "role" | "snippet" | "onPath">[];
}

/** Filter of the sessions that are listed or searched. */
export type SessionFilter = Pick<ListOptions, "agent" | "project" | "since">;

/** Maximum numbers of sessions that a search finds, and of messages that it counts and shows of each. */
const MOST_FOUND = 100;
const MOST_COUNTED = 100;
const MOST_SHOWN = 3;

/** Cost of a sub-agent's run. */
export interface SubAgentCost extends Pick<UsageTotals, "calls" | "totalTokens" | "cost" | "estimated"> {
  key: string;
  title: string;
  /** True for an imported sub-agent of Claude Code: the cost that Claude Code records for the session includes its cost. */
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

  /**
   * Finds sessions with a text among those that match a filter, newest first; at most 100. A session that cannot be read
   * is skipped.
   */
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

  /** Returns the key of a session, the same for the same file as long as the server runs. */
  keyOf(id: string, ref: string): string {
    const plain = /^\w[\w.-]{0,99}$/.test(id) ? id : digestOf(ref);
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
      (session) => read(treeReader(session.tree, rowsInAnyCase, this.#sessions.isFinding), session),
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
    const runs: SubAgentCost[] = [];
    for (const run of runsBelow(own?.id, listed)) {
      const { total } = await this.read(run.key, (reader) => reader.stats());
      const { calls, totalTokens, cost, estimated } = total;
      const title = run.name ?? run.firstMessage ?? run.id;
      const isOfClaudeCode = run.importedFrom === "claude-code";
      runs.push({ key: run.key, title, calls, totalTokens, cost, estimated, isOfClaudeCode });
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
  /** Lists the sessions that match a filter, newest first. Default: all. */
  list(filter?: SessionFilter): AsyncIterable<ListedSession>;
  /** Opens a session for reading. */
  read(ref: string): Promise<Session>;
  /** Opens a session for a plan, with its settings; nothing is written. */
  plan(ref: string): Promise<Session>;
  /** Returns the setting `rules`: whether messages are searched for rules. Default: they are. */
  isFinding?(): Promise<boolean>;
  /** Describes the sessions of other agents on this machine that can be imported; empty if there are none. */
  found?(): string;
  /**
   * Opens a session for a change, with its settings and summarizer. With `beside` nothing is added to the
   * conversation, so the change is possible while others write. Called only by a server that may write.
   */
  write(ref: string, options: { beside: boolean }): Promise<Session>;
  /** Finds places with a text in one session. */
  search(
    query: string,
    options: { file: string; limit: number; signal: AbortSignal },
  ): AsyncIterable<SearchHit>;
}

/** Milliseconds between two checks of a log. A check is one system call. */
const INTERVAL = 400;

/**
 * Yields the number of entries of a session, its leaf (-1 before the first entry) and the number of its file (empty in a
 * store), at once and whenever it has grown or another file has taken its place, until `signal` aborts.
 */
export const watchSession = (sessions: OpenSessions, key: string, signal: AbortSignal) =>
  changes(
    async () => {
      const state = await sessions.read(key, (_reader, { tree, file }) => ({
        length: tree.length,
        leafRow: rowOfLeaf(tree),
        file: String(factsOf(file)?.ino ?? ""),
      }));
      return { state, mark: `${state.length} ${state.file}` };
    },
    () => INTERVAL,
    signal,
  );

/** Minimum number of milliseconds between two checks of the list. Checks take at most a tenth of the time. */
const LIST_INTERVAL = 1_000;

/** Yields the number of sessions at once and whenever one was added, removed or changed, until `signal` aborts. */
export const watchList = (sessions: OpenSessions, signal: AbortSignal) =>
  changes(
    async () => {
      const listed = await sessions.list();
      const lines = listed.map(({ key, bytes, modified }) => `${key} ${bytes} ${modified}`);
      return { state: { sessions: listed.length }, mark: lines.join("\n") };
    },
    (took) => Math.max(LIST_INTERVAL, 10 * took),
    signal,
  );

/**
 * Yields a state at once, and again whenever its mark has changed, until `signal` aborts.
 *
 * @param interval returns the milliseconds until the next check, given the duration of the last one
 */
async function* changes<State>(
  check: () => Promise<{ state: State; mark: string }>,
  interval: (took: number) => number,
  signal: AbortSignal,
): AsyncGenerator<State> {
  let told: string | undefined;
  while (!signal.aborted) {
    const begun = performance.now();
    const { state, mark } = await check();
    const took = performance.now() - begun;
    if (mark !== told) yield state;
    told = mark;
    // The end of the pause is not an error; the loop checks the signal.
    await pause(interval(took), undefined, { signal }).catch(() => undefined);
  }
}

/** Parameters of a request. */
export type Query = (name: string) => string | undefined;

/** Read requests for a session, by the last part of the address. */
export const readRoutes: Readonly<
  Record<string, (reader: TreeReader, query: Query, signal: AbortSignal) => Promise<unknown>>
> = {
  facts: (reader) => reader.facts(),
  outline: (reader, query) => reader.outline(whole(query, "from"), whole(query, "to")),
  gists: (reader, query) => reader.gists(whole(query, "from"), within(query, "to", "from", MOST_GISTS)),
  entries: (reader, query) => reader.entries(listed(query, "rows")),
  row: async (reader, query) => ({ row: await reader.rowOf(text(query, "id")) }),
  context: (reader, query) => reader.context(whole(query, "row", -1)),
  growth: (reader, query) => reader.growth(whole(query, "row", -1)),
  stats: (reader) => reader.stats(),
  spending: (reader) => reader.spending(),
  breaks: (reader) => reader.breaks(),
  compaction: (reader, query) => reader.compaction(whole(query, "row")),
  rules: (reader, query) => reader.rules(whole(query, "row", -1)),
  origins: (reader, query) => reader.origins(whole(query, "row"), text(query, "line")),
  find: (reader, query, signal) => reader.find(text(query, "q"), signal),
  branches: (reader) => reader.branches(),
  compare: (reader, query) => reader.compare(whole(query, "a"), whole(query, "b")),
  forecast: (reader, query) => reader.forecast(whole(query, "row")),
  act: async ({ tree }) => {
    const leafRow = rowOfLeaf(tree);
    const undo = lastAct(tree, leafRow < 0 ? null : tree.idAt(leafRow)) ?? null;
    return { undo, redo: lastUndone(tree) ?? null } satisfies NextActs;
  },
};

/** Actions that an undo would reverse and that a redo would repeat; null if there is none. */
export interface NextActs {
  undo: LastAct | null;
  redo: LastAct | null;
}

/** Plans of all policies at the leaf. */
export interface PlansView {
  /** Current policy of the session. */
  policy: string;
  policies: PolicyComparison[];
}

/** Requests for plans with the session's settings, by the last part of the address. */
export const planRoutes: Readonly<Record<string, (session: Session, query: Query) => object>> = {
  plans: (session): PlansView => ({ policy: session.policy.name, policies: session.comparePolicies() }),
  plan: (session, query) => planView(session, policyIn(query("policy"))),
};

/** A compaction that one policy would make at the leaf. Sizes are in tokens as this policy counts. */
export type PlanView = ReturnType<typeof planView>;

function planView(session: Session, chosen: PolicyName | undefined) {
  const { policy, context, tree } = session;
  const { tokens: contextTokens, sources: keptIds } = context;
  const size = { tokensBefore: contextTokens, tokensAfter: contextTokens };
  const nothing = { ...size, historyIds: [], turnPrefixIds: [], keptIds, edits: [], isSplitTurn: false };
  const plan = session.planCompaction({ policy: chosen ?? policy });
  const made = plan.eligible ? plan : nothing;
  const rowsOf = (ids: readonly string[]) => [...new Set(ids)].map((id) => tree.row(id));
  return {
    policy: chosen ?? policy.name,
    /** Reason why there is nothing to compact; else null. */
    reason: plan.eligible ? null : plan.reason,
    tokensBefore: made.tokensBefore,
    tokensAfter: made.tokensAfter,
    /** Size of the context as the session counts, which is in lists and trees. */
    contextTokens,
    /** Rows of the messages that the summary would replace. */
    summarized: rowsOf([...made.historyIds, ...made.turnPrefixIds]),
    /** Rows of the messages that would stay. */
    kept: rowsOf(made.keptIds),
    /** Number of kept messages that would be left out or shortened. */
    edited: made.edits.length,
    /** True if the cut would be inside a turn. */
    isSplitTurn: made.isSplitTurn,
    /** Effect on the prompt cache; null if there is nothing to compact. */
    cache: (plan.eligible && plan.cache) || null,
  };
}

function policyIn(name: string | undefined): PolicyName | undefined {
  const known = POLICY_NAMES.find((policy) => policy === name);
  if (known !== undefined || name === undefined) return known;
  throw new ViewerError("bad-request", `\`policy\` must be one of ${POLICY_NAMES.join(", ")}.`);
}

/** Maximum number of rows in one request, for gists and for entries. */
const MOST_GISTS = 5_000;
const MOST_ROWS = 2_000;

function text(query: Query, name: string): string {
  const value = query(name);
  if (value === undefined) throw new ViewerError("bad-request", `The address needs \`${name}\`.`);
  return value;
}

function whole(query: Query, name: string, least = 0): number {
  const value = text(query, name);
  if (/^-?\d{1,15}$/.test(value) && Number(value) >= least) return Number(value);
  throw new ViewerError("bad-request", `\`${name}\` must be a whole number of at least ${least}.`);
}

function within(query: Query, name: string, from: string, most: number): number {
  const value = whole(query, name);
  if (value - whole(query, from) <= most) return value;
  throw new ViewerError("bad-request", `Request at most ${most} rows.`);
}

function listed(query: Query, name: string): number[] {
  const parts = text(query, name).split(",");
  if (parts.length <= MOST_ROWS && parts.every((part) => /^\d{1,15}$/.test(part))) return parts.map(Number);
  throw new ViewerError(
    "bad-request",
    `\`${name}\` must be up to ${MOST_ROWS} whole numbers, separated by commas.`,
  );
}

/** Parameters of a change. */
export type Order = Readonly<Record<string, unknown>>;

/** Changes of a session, by the last part of the address. Each calls the engine. */
export const writeRoutes: Readonly<
  Record<string, (session: Session, order: Order, act: Required<ActOptions>) => Promise<unknown>>
> = {
  navigate: (session, order, act) =>
    session.navigate(order["id"] === null ? null : bodyText(order, "id"), { ...act, ...telling(order) }),
  fork: (session, order, act) =>
    session.fork(bodyText(order, "id"), {
      ...act,
      ...telling(order),
      position: positionIn(order),
    }),
  label: async (session, order) => ({
    entryId: await session.label(bodyText(order, "id"), optional(order, "label")),
  }),
  hide: async (session, order) => ({ entryId: await session.hide(bodyText(order, "id")) }),
  show: async (session, order) => ({ entryId: await session.hide(bodyText(order, "id"), false) }),
  compact: (session, order, act) => {
    const { instructions } = telling(order);
    const policy = policyIn(optional(order, "policy"));
    return session.compact({
      ...act,
      ...(policy === undefined ? {} : { policy }),
      ...(instructions === undefined ? {} : { instructions }),
    });
  },
  undo: (session, order) => session.undo(expecting(order)),
  redo: (session, order) => session.redo(expecting(order)),
};

function expecting(order: Order): { expected?: string } {
  const expected = optional(order, "expected");
  return expected === undefined ? {} : { expected };
}

function telling(order: Order): { summarize: boolean; instructions?: string } {
  const instructions = optional(order, "instructions");
  return { summarize: order["summarize"] === true, ...(instructions ? { instructions } : {}) };
}

function positionIn(order: Order): "at" | "before" {
  const position = optional(order, "position") ?? "at";
  if (position === "at" || position === "before") return position;
  throw new ViewerError("bad-request", '`position` is "at" or "before".');
}

function bodyText(order: Order, name: string): string {
  const value = optional(order, name);
  if (value === undefined) throw new ViewerError("bad-request", `\`${name}\` is missing.`);
  return value;
}

function optional(order: Order, name: string): string | undefined {
  const value = order[name];
  if (value === undefined || value === null) return undefined;
  if (typeof value === "string") return value;
  throw new ViewerError("bad-request", `\`${name}\` must be a text.`);
}
