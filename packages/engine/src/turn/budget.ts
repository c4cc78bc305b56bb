import { EspalierError } from "@espalier/jsonl-stream";
import { type SessionStore, type Settings, Tree } from "@espalier/session-tree";
import { pricesOf } from "@espalier/summarizer";
import { billedCallAt, type OwnPrices, priceOf } from "../reading/bills.ts";
import type { Session } from "../session/session.ts";
import { type ListedSession, listSessions, openIfThere } from "../session/stores.ts";

/**
 * Refuses a request before the money for it is spent: what the session has cost, on all branches and with its sub-agents,
 * and the least that the request costs come to more than `maxCost`. The session of a sub-agent counts with the session
 * that started it. The least is the prompt as read from a cache; nothing where no price is known.
 *
 * @param tokens of the prompt
 * @throws EspalierError `over-budget`, and what keeps a sub-agent's session from being read
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
  const share = others > 0 && !isRun ? ` (${dollars(others)} by its sub-agents)` : "";
  const who = isRun
    ? "The session that started this sub-agent has, with its sub-agents,"
    : "This session has";
  throw new EspalierError(
    "over-budget",
    `${who} cost ${dollars(spent)}${share}, and the next request costs at least ${dollars(least)}; its budget (maxCost) is ${dollars(maxCost)}. Raise maxCost, or start a new session.`,
  );
}

const MILLION = 1_000_000;
const dollars = (amount: number): string => `$${amount.toFixed(amount > 0 && amount < 1 ? 4 : 2)}`;

/** Sums of trees so far: a session that grows is continued. */
const sums = new WeakMap<Tree, { rows: number; cost: number }>();

/** US dollars that the calls of a session cost, on all branches. */
function spentOn(tree: Tree, prices: OwnPrices): number {
  const sum = sums.get(tree) ?? { rows: 0, cost: 0 };
  sums.set(tree, sum);
  for (; sum.rows < tree.length; sum.rows++) {
    const call = billedCallAt(tree, sum.rows);
    sum.cost += (call && priceOf(call, prices)?.cost) ?? 0;
  }
  return sum.cost;
}

/** Sums of the sessions of a store that were read for a budget, by their names; a session that has grown is read again. */
const sumsOfStores = new WeakMap<SessionStore, Map<string, { bytes: number; cost: number }>>();

/** US dollars of the other sessions of a task: those of sub-agents, and of the session that started them. */
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
  // It was deleted since it was listed.
  if (!log) return 0;
  try {
    return spentOn(new Tree(await log.load()), prices);
  } finally {
    await log.close();
  }
}

/** The sessions of a task without the given one: the first session that started sub-agents, and all that began below it. */
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
  const ofTask = new Set([first]);
  // A set that grows is walked to its end.
  for (const id of ofTask)
    for (const { id: run, parent } of listed)
      if (parent?.kind === "subagent" && parent.sessionId === id) ofTask.add(run);
  return listed.filter(({ id }) => id !== header?.id && ofTask.has(id));
}
