import { EspalierError } from "@espalier/jsonl-stream";
import { openIfThere, type SessionStore, type Settings, Tree } from "@espalier/session-tree";
import { pricesOf } from "@espalier/summarizer";
import { billedCallAt, type OwnPrices, priceOf } from "../reading/bills.ts";
import { formatCost } from "../reading/figures.ts";
import type { Session } from "../session/session.ts";
import { type ListedSession, listSessions, runsBelow } from "../session/stores.ts";

/**
 * Refuses a request that would exceed the budget, before it is sent: the cost of the session so far, on all branches
 * and with its sub-agents, plus the minimum cost of the request exceed `maxCost`. A sub-agent's session counts with the
 * session that started it. The minimum is the price of the prompt when it is read from a cache; 0 when no price is
 * known.
 *
 * @param tokens tokens of the prompt
 * @throws EspalierError `over-budget`, and errors of reading a sub-agent's session
 */
export async function refuseOverBudget(
  session: Session,
  tokens: number,
  model: Settings["model"] = session.context.model,
): Promise<void> {
  const { maxCost, prices } = session.options;
  if (maxCost === undefined) return;
  if (!session.log.view) await session.load();
  const others = await spentByOthers(session, prices);
  const spent = spentOn(session.tree, prices) + others;
  const least = (tokens * (pricesOf(model, tokens, prices)?.cacheRead ?? 0)) / MILLION;
  if (spent + least <= maxCost) return;
  const isRun = session.header?.parent?.kind === "subagent";
  const share = others > 0 && !isRun ? ` (${formatCost(others)} by its sub-agents)` : "";
  const who = isRun
    ? "The session that started this sub-agent has, with its sub-agents,"
    : "This session has";
  throw new EspalierError(
    "over-budget",
    `${who} cost ${formatCost(spent)}${share}, and the next request costs at least ${formatCost(least)}; its budget (maxCost) is ${formatCost(maxCost)}. Raise maxCost, or start a new session.`,
  );
}

const MILLION = 1_000_000;

/** Sums of trees so far; the sum of a session that grows is continued. */
const sums = new WeakMap<Tree, { rows: number; cost: number }>();

function spentOn(tree: Tree, prices: OwnPrices): number {
  const sum = sums.get(tree) ?? { rows: 0, cost: 0 };
  sums.set(tree, sum);
  for (; sum.rows < tree.length; sum.rows++) {
    const call = billedCallAt(tree, sum.rows);
    sum.cost += (call && priceOf(call, prices)?.cost) ?? 0;
  }
  return sum.cost;
}

/**
 * Sums of the sessions of a store that were read for a budget, by their names; a session that has grown is read again.
 */
const sumsOfStores = new WeakMap<SessionStore, Map<string, { bytes: number; cost: number }>>();

/**
 * Returns the cost of the other sessions of a task in US dollars: those of sub-agents, and the session that started
 * them.
 */
async function spentByOthers(session: Session, prices: OwnPrices): Promise<number> {
  const { store } = session;
  const known = sumsOfStores.get(store) ?? new Map<string, { bytes: number; cost: number }>();
  sumsOfStores.set(store, known);
  let spent = 0;
  for (const { ref, bytes } of await othersOfTask(session)) {
    const before = known.get(ref);
    const sum = before?.bytes === bytes ? before : { bytes, cost: await spentIn(store, ref, prices) };
    known.set(ref, sum);
    spent += sum.cost;
  }
  return spent;
}

async function spentIn(store: SessionStore, file: string, prices: OwnPrices): Promise<number> {
  const log = await openIfThere(store, { file }, "read");
  // The session was deleted after it was listed.
  if (!log) return 0;
  try {
    return spentOn(new Tree(await log.load()), prices);
  } finally {
    await log.close();
  }
}

/**
 * Returns the sessions of a task without the given one: the first session that started sub-agents, and all sessions
 * below it.
 */
async function othersOfTask({ store, header }: Session): Promise<ListedSession[]> {
  const listed: ListedSession[] = [];
  for await (const listing of listSessions({ store, subAgents: true })) listed.push(listing);
  const byId = new Map(listed.map((listing) => [listing.id, listing]));
  const above = new Set<string | undefined>([header?.id]);
  let first = header?.id;
  for (let parent = header?.parent; parent?.kind === "subagent" && !above.has(parent.sessionId); ) {
    first = parent.sessionId;
    above.add(first);
    parent = byId.get(first)?.parent ?? undefined;
  }
  const ofTask = [...listed.filter(({ id }) => id === first), ...runsBelow(first, listed)];
  return ofTask.filter(({ id }) => id !== header?.id);
}
