import {
  type ActOptions,
  type CacheForecast,
  type LastAct,
  lastAct,
  lastUndone,
  POLICY_NAMES,
  type PolicyComparison,
  type PolicyName,
  type Session,
} from "@espalier/engine";
import { rowOfLeaf } from "@espalier/session-tree";
import type { TreeReader } from "../model/tree-reader.ts";
import { ViewerError } from "./viewer-error.ts";

/** Parameters of a request. */
export type Query = (name: string) => string | undefined;

/** Questions about a session, by the last part of the address. */
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

/** Actions that an undo and a redo would reverse now; null where there is none. */
export interface NextActs {
  undo: LastAct | null;
  redo: LastAct | null;
}

/** A compaction that one policy would make at the leaf. Sizes are in tokens as this policy counts. */
export interface PlanView {
  policy: string;
  /** Reason why there is nothing to compact; else null. */
  reason: string | null;
  tokensBefore: number;
  tokensAfter: number;
  /** Size of the context as the session counts, which is in lists and trees. */
  contextTokens: number;
  /** Rows of the messages that the summary would replace, and of those that would stay. */
  summarized: number[];
  kept: number[];
  /** Number of kept messages that would be left out or shortened. */
  edited: number;
  /** True if the cut would be inside a turn. */
  isSplitTurn: boolean;
  /** Effect on the prompt cache; null if there is nothing to compact. */
  cache: CacheForecast | null;
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
  plan: (session, query) => planView(session, policyIn(query("policy")) ?? session.policy.name),
};

function planView(session: Session, policy: string): PlanView {
  const plan = session.planCompaction({ policy: policyIn(policy) ?? session.policy });
  const { tokens, sources } = session.context;
  const rowsOf = (ids: readonly string[]) => [...new Set(ids)].map((id) => session.tree.row(id));
  if (!plan.eligible) {
    const { reason } = plan;
    const kept = rowsOf(sources);
    const size = { tokensBefore: tokens, tokensAfter: tokens, contextTokens: tokens };
    const nothing = { summarized: [], edited: 0, isSplitTurn: false, cache: null };
    return { policy, reason, ...size, kept, ...nothing };
  }
  const { tokensBefore, tokensAfter, isSplitTurn, edits, cache = null } = plan;
  const [summarized, kept] = [rowsOf([...plan.historyIds, ...plan.turnPrefixIds]), rowsOf(plan.keptIds)];
  const edited = edits.length;
  const size = { tokensBefore, tokensAfter, contextTokens: tokens };
  return { policy, reason: null, ...size, summarized, kept, edited, isSplitTurn, cache };
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
