import { EspalierError } from "@espalier/jsonl-stream";
import type { Settings, Tree } from "@espalier/session-tree";
import { pricesOf } from "@espalier/summarizer";
import type { Session } from "../session/session.ts";
import { billedCallAt, costOf } from "./bills.ts";

/**
 * Refuses a request before the money for it is spent: what the session has cost, on all branches, and the least that the
 * request costs come to more than `maxCost`. The least is its prompt as read from a cache; nothing where no price is known.
 *
 * @param tokens of the prompt
 * @throws EspalierError `over-budget`
 */
export async function refuseOverBudget(
  session: Session,
  tokens: number,
  model: Settings["model"] = session.context.model,
): Promise<void> {
  const { maxCost, prices } = session.options;
  if (maxCost === undefined) return;
  if (!session.log.view) await session.load();
  const spent = spentOn(session.tree);
  const least = (tokens * (pricesOf(model, tokens, prices)?.cacheRead ?? 0)) / MILLION;
  if (spent + least <= maxCost) return;
  throw new EspalierError(
    "over-budget",
    `This session has cost ${dollars(spent)}, and the next request costs at least ${dollars(least)}; its budget (maxCost) is ${dollars(maxCost)}. Raise maxCost, or start a new session.`,
  );
}

const MILLION = 1_000_000;
const dollars = (amount: number): string => `$${amount.toFixed(amount > 0 && amount < 1 ? 4 : 2)}`;

/** Sums of trees so far: a session that grows is continued. */
const sums = new WeakMap<Tree, { rows: number; cost: number }>();

/** US dollars that the calls of a session cost, on all branches. */
function spentOn(tree: Tree): number {
  const sum = sums.get(tree) ?? { rows: 0, cost: 0 };
  sums.set(tree, sum);
  for (; sum.rows < tree.length; sum.rows++) sum.cost += costOf(billedCallAt(tree, sum.rows)?.usage);
  return sum.cost;
}
