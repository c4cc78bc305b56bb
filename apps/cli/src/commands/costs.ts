import {
  type ListedSession,
  type ListOptions,
  listSessions,
  runsBelow,
  type Session,
  type Settings,
  subAgentsOf,
} from "@espalier/engine";
import {
  billOfRows,
  CACHE_CAUSES,
  CACHE_LIFE_MS,
  CACHE_REASONS,
  type CacheCause,
  type CacheLedger,
  type CompactionStats,
  cacheLedger,
  copiedRows,
  nothingBilled,
  type SessionStats,
  statsOf,
  type UsageTotals,
} from "@espalier/engine/reading";
import { Tree } from "@espalier/session-tree";
import { PRICES_DATE } from "@espalier/summarizer";
import { type AddCommand, sessionCommand } from "../command.ts";
import { entryLine, WIDE } from "../entry-preview.ts";
import { entryName } from "../entry-reference.ts";
import {
  costValue,
  formatBill,
  formatCost,
  formatCount,
  formatMany,
  formatPrice,
  formatSeconds,
  formatTime,
  isUnpriced,
  numberParser,
} from "../numbers.ts";
import { currentSettings, storeInUse, storeOf, tellSkipped, withLog } from "../opening.ts";
import type { Look, Shell } from "../shell.ts";
import { viewTable } from "../table.ts";
import { plainLine } from "../text.ts";

interface Origin {
  sessionId: string;
  /** Number of path entries that both sessions have; null when the fork does not record it. */
  sharedEntries: number | null;
  /** Calls of these entries. They were paid in the other session, whose statistics count them too. */
  copied: UsageTotals | null;
}

function originOf({ header, tree }: Session, prices: Settings["prices"]): Origin | undefined {
  const { kind, sessionId } = header?.parent ?? {};
  if (kind !== "fork" || sessionId === undefined) return undefined;
  const rows = copiedRows(tree);
  if (rows.size === 0) return { sessionId, sharedEntries: null, copied: null };
  return { sessionId, sharedEntries: rows.size, copied: billOfRows(tree, rows, prices) };
}

/** Returns a bill without the calls that a fork copied. Its cost stays if the agent recorded it (not `isSum`). */
function withoutCopied(total: UsageTotals, copied: UsageTotals, isSum: boolean): UsageTotals {
  const own = nothingBilled();
  for (const key of BILL_KEYS) own[key] = Math.max(0, total[key] - copied[key]);
  const { cost, estimated, unpriced } = total;
  return isSum ? own : { ...own, cost, estimated, unpriced };
}

interface SubAgentCost<Cost> extends Pick<ListedSession, "id" | "ref" | "importedFrom"> {
  cost: Cost;
}

/** Returns the sub-agents of a session, at any depth, each with its cost. */
export async function subAgentCosts<Cost>(
  session: Pick<Session, "header">,
  shell: Pick<Shell, "store" | "complainOnce">,
  costOf: (tree: Tree) => Cost,
): Promise<SubAgentCost<Cost>[]> {
  const runs: SubAgentCost<Cost>[] = [];
  for await (const { listing, tree } of subAgentsOf(session, { ...storeOf(shell), ...tellSkipped(shell) }))
    runs.push({ ...listing, cost: costOf(tree) });
  return runs;
}

/** Returns whether Claude Code's own figure for a session includes this sub-agent, which was imported from it. */
const isOfClaudeCode = ({ importedFrom }: SubAgentCost<unknown>): boolean => importedFrom === "claude-code";

/**
 * Returns the cost of a session with its sub-agents. A cost that Claude Code recorded includes the sub-agents that were
 * imported from it, so only their calls and tokens are added.
 */
function billWithRuns(
  { total, recordedCost }: OwnStats,
  runs: readonly SubAgentCost<UsageTotals>[],
): UsageTotals {
  const free = { cost: 0, estimated: 0, unpriced: 0 };
  const isIncluded = (run: SubAgentCost<unknown>) => recordedCost !== null && isOfClaudeCode(run);
  return sumOfBills([total, ...runs.map((run) => (isIncluded(run) ? { ...run.cost, ...free } : run.cost))]);
}

/**
 * Returns the cost of each session of a list with its sub-agents, by the session's name in its store. Calls that a fork
 * copied are part of the cost of its origin only.
 */
export async function costsOf(shell: Shell, place: Pick<ListOptions, "folder" | "store">) {
  const { prices } = (await currentSettings(shell)).values;
  const store = place.store ?? storeInUse(shell);
  const all: (ListedSession & SubAgentCost<UsageTotals> & OwnStats)[] = [];
  for await (const listing of listSessions({ ...place, ...tellSkipped(shell), subAgents: true })) {
    const own = await withLog(store, { file: listing.ref }, async (log) =>
      ownStats(new Tree(await log.load()), prices),
    );
    all.push({ ...listing, ...own, cost: own.total });
  }
  return new Map(all.map((one) => [one.ref, billWithRuns(one, [...runsBelow(one.id, all)])]));
}

type OwnStats = Pick<SessionStats, "total" | "recordedCost">;

/** Returns the cost of a session without the calls that it copied as a fork. */
function ownStats(tree: Tree, prices: Settings["prices"]): OwnStats {
  const { total, recordedCost } = statsOf(tree, undefined, prices);
  const copied = billOfRows(tree, copiedRows(tree), prices);
  return { total: withoutCopied(total, copied, recordedCost === null), recordedCost };
}

export function sumOfBills(bills: readonly UsageTotals[]): UsageTotals {
  const sum = nothingBilled();
  for (const bill of bills) for (const key of BILL_KEYS) sum[key] += bill[key];
  return sum;
}

const BILL_KEYS = Object.keys(nothingBilled()) as (keyof UsageTotals)[];

/** JSON of the statistics. Usage and cost are separate in every sum. */
function statsValue(stats: SessionStats): object {
  const { total, recordedCost, path, branches, models, kinds, compactions } = stats;
  return {
    ...apart(total),
    recordedCost,
    path: apart(path),
    branches: branches.map(({ leafId, ...sum }) => ({ leafId, ...apart(sum) })),
    models: models.map(({ provider, model, ...sum }) => ({ provider, model, ...apart(sum) })),
    kinds: kinds.map(({ kind, ...sum }) => ({ kind, ...apart(sum) })),
    compactions,
  };
}

const apart = (bill: UsageTotals): object => {
  const { calls, cost: _, estimated: __, unpriced: ___, ...usage } = bill;
  return { calls, usage, ...costValue(bill) };
};

/** Returns the costs of a ledger; null when no price is known. */
function knownCost({ cost: { total, lost, estimated, unpriced }, calls }: CacheLedger) {
  const isUnknown = isUnpriced({ calls: calls.length, cost: total, unpriced });
  return { total: isUnknown ? null : total, lost: isUnknown ? null : lost, estimated: estimated > 0 };
}

const BILL_HEADINGS = ["calls", "input", "output", "cache read", "cache write", "cost"];
const COMPACTION_HEADINGS = ["compaction", "when", "tokens", "removed", "took", "cost", "by"];

/** Sub-agents of a session, its cost with them, and the session from which it was forked. */
interface StatsOfOthers {
  runs: readonly SubAgentCost<UsageTotals>[];
  whole: UsageTotals;
  origin: Origin | undefined;
}

/** Draws the cost and the compactions of a session, for people. */
function* viewStats(
  { total, recordedCost, path, models, kinds, compactions, branches }: SessionStats,
  ledger: CacheLedger,
  { runs, whole, origin }: StatsOfOthers,
  shell: Look,
  tree: Tree,
): Generator<string> {
  const { colours, columns } = shell;
  const isShort = columns < WIDE && new Set(models.map(({ model }) => model)).size === models.length;
  if (origin) {
    const { sessionId, sharedEntries: shared } = origin;
    const entries = shared === 1 ? "entry" : `${formatCount(shared ?? 0)} entries`;
    yield `A fork of ${plainLine(sessionId)}${shared === null ? "" : `, with the same first ${entries}`}.`;
  }
  if (total.calls === 0) yield "No model call was billed.";
  else {
    const isShared = branches.length > 1 && !isUnpriced(path);
    const share = isShared ? `, of which ${formatBill(path)} on the path of the leaf` : "";
    const calls = formatMany(total.calls, "call");
    yield colours.bold(
      isUnpriced(total)
        ? `${calls}; ${total.calls === 1 ? "its" : "their"} cost is unknown`
        : `${formatBill(total)} for ${calls}${share}`,
    );
    if (origin?.copied && origin.copied.calls > 0)
      yield shareOfFork(total, origin.copied, recordedCost === null);
    const source = sourceOfCost(total, recordedCost, models);
    if (source !== "") yield colours.dim(source);
    yield* viewSubAgents(runs, whole, recordedCost !== null);
    yield "";
    yield* bills(
      "model",
      models,
      ({ provider, model }) => (provider === model || isShort ? model : `${provider}/${model}`),
      shell,
    );
    yield "";
    yield* bills("purpose", kinds, ({ kind }) => kind, shell);
    yield "";
    yield cacheSummary(ledger);
  }
  yield "";
  const cells = compactions.map((one) => compactionCells(tree, one));
  if (cells.length === 0) yield "The session was never compacted.";
  else yield* viewTable(COMPACTION_HEADINGS, cells, shell);
}

/** Describes the copied part of a fork's bill, and the rest. `isSum` is that of {@link withoutCopied}. */
function shareOfFork(total: UsageTotals, copied: UsageTotals, isSum: boolean): string {
  const own = withoutCopied(total, copied, isSum);
  const part = (bill: UsageTotals) =>
    `${isSum && bill.calls > 0 && !isUnpriced(bill) ? `${formatBill(bill)} for ` : ""}${formatMany(bill.calls, "call")}`;
  return `Before the fork: ${part(copied)}, which the other session counts too. Since the fork: ${part(own)}.`;
}

/**
 * Describes the source of a cost that is not only a sum of recorded prices; empty for a sum of recorded prices.
 *
 * @param models the bill of each model, which is an estimate where only the whole cost is recorded
 */
function sourceOfCost(
  { estimated, unpriced }: UsageTotals,
  recordedCost: number | null,
  models: readonly UsageTotals[],
): string {
  const sentences = [
    ...(recordedCost === null ? [] : ["This cost is recorded by Claude Code and includes sub-agents."]),
    ...(recordedCost !== null && models.some((model) => model.estimated > 0)
      ? [`Prices of single calls are not recorded: ≈ is an estimate by the list of ${PRICES_DATE}.`]
      : []),
    ...(estimated > 0
      ? [`≈ is an estimate: no price is recorded, so tokens are priced by the list of ${PRICES_DATE}.`]
      : []),
    ...(unpriced > 0
      ? [`The price of ${formatMany(unpriced, "call")} is unknown; add it to the setting "prices".`]
      : []),
  ];
  return sentences.join(" ");
}

/** Draws the cost of a session's sub-agents, and the total with the session, for people. */
function* viewSubAgents(runs: readonly SubAgentCost<UsageTotals>[], whole: UsageTotals, isIncluded: boolean) {
  if (runs.length === 0) return;
  const bill = sumOfBills(runs.map((run) => run.cost));
  const { calls, totalTokens } = bill;
  const sum = isIncluded && runs.every(isOfClaudeCode) ? "included" : `${formatBill(whole)} in total`;
  const price = isUnpriced(bill) ? "their cost is unknown" : `${formatBill(bill)}; ${sum}`;
  const size = `${formatMany(calls, "call")}, ${formatMany(totalTokens, "token")}`;
  yield `${formatMany(runs.length, "sub-agent")}: ${size}, ${price}`;
}

function bills<Row extends UsageTotals>(
  heading: string,
  rows: readonly Row[],
  nameOf: (row: Row) => string,
  shell: Look,
): Generator<string> {
  const cells = rows.map((row) => {
    const counts = [row.calls, row.input, row.output, row.cacheRead, row.cacheWrite].map(formatCount);
    return [plainLine(nameOf(row)), ...counts, formatBill(row)];
  });
  return viewTable([heading, ...BILL_HEADINGS], cells, shell);
}

function compactionCells(tree: Tree, stats: CompactionStats): string[] {
  const { entryId, timestamp, tokensBefore, tokensAfter, removed, durationMs, policy, source } = stats;
  return [
    `${plainLine(entryName(tree, entryId))}${stats.onPath ? "" : " (another branch)"}`,
    formatTime(timestamp),
    `${formatCount(tokensBefore)} → ${tokensAfter === null ? "?" : formatCount(tokensAfter)}`,
    removed === null ? "?" : formatMany(removed, "message"),
    durationMs === null ? "?" : formatSeconds(durationMs),
    formatPrice(stats),
    plainLine([policy, source].filter((name) => name !== null).join(", ")),
  ];
}

const parseMinutes = numberParser(
  (minutes) => minutes > 0 && Number.isFinite(minutes),
  "minutes above 0, for example 60",
);

/** Draws the breaks of the prompt cache for people: totals by cause, then each break with the entry that caused it. */
function* viewCache(
  session: Session,
  ledger: CacheLedger,
  runs: readonly SubAgentCost<CacheLedger>[],
  { colours, columns }: Look,
): Generator<string> {
  const { breaks, byCause } = ledger;
  yield colours.bold(cacheSummary(ledger));
  if (runs.length > 0) {
    const paid = runs.map(({ cost }) => cost);
    yield `${formatMany(runs.length, "sub-agent")}: ${lostOf(paid) || "their cost is unknown"}; \`espalier list --parent ${plainLine(session.header?.id ?? "")}\` lists them.`;
  }
  if (breaks.length === 0) return;
  yield "";
  const causes = Object.keys(byCause) as CacheCause[];
  const sums = causes.map((cause) => {
    const of = byCause[cause]!;
    return [CACHE_CAUSES[cause], ...[of.breaks, of.tokens].map(formatCount), costOfBreak(of.cost)];
  });
  yield* viewTable(["cause", "breaks", "tokens", "cost"], sums, { colours, columns });
  yield "";
  for (const cause of causes) yield colours.dim(`${CACHE_CAUSES[cause]}: ${CACHE_REASONS[cause]}`);
  for (const { call, entryId, tokens, cost, cause } of breaks) {
    yield "";
    yield `${formatTime(session.getEntry(call)?.timestamp)}  ${formatMany(tokens, "token")}, ${costOfBreak(cost)}: ${CACHE_CAUSES[cause]}`;
    yield colours.dim(`  ${entryLine(session, entryId, Math.min(columns, WIDE) - 2)}`);
  }
}

/** Formats the cost of a break. A break always costs something, so 0 means an unknown price. */
const costOfBreak = (cost: number): string => (cost > 0 ? formatCost(cost) : "unknown cost");

/** Formats the cost of breaks in all ledgers, `$3.76 of ≈ $18.96`; empty when no price is known. */
function lostOf(ledgers: readonly CacheLedger[]): string {
  const sum = (key: keyof CacheLedger["cost"]) => ledgers.reduce((total, { cost }) => total + cost[key], 0);
  const calls = ledgers.reduce((total, ledger) => total + ledger.calls.length, 0);
  const bill = { calls, cost: sum("total"), estimated: sum("estimated"), unpriced: sum("unpriced") };
  return isUnpriced(bill) || calls === 0 ? "" : `${formatCost(sum("lost"))} of ${formatBill(bill)}`;
}

const tokensOf = (breaks: CacheLedger["breaks"]): number => breaks.reduce((sum, one) => sum + one.tokens, 0);

/** Describes the prompt cache of a session in one sentence. */
function cacheSummary(ledger: CacheLedger): string {
  const { breaks } = ledger;
  const calls = formatMany(ledger.calls.length, "call");
  if (breaks.length === 0) return `Prompt cache: no break in ${calls}.`;
  const tokens = formatMany(tokensOf(breaks), "token");
  const paid = lostOf([ledger]);
  const lost = paid === "" ? "; its cost is unknown" : `: ${paid}`;
  return `Prompt cache: ${formatCount(breaks.length)} of ${calls} paid again for ${tokens}${lost}.`;
}

/** Commands about the cost of a session. */
export const costCommands: readonly AddCommand[] = [
  sessionCommand({
    usage: "stats <session>",
    description: "show the cost of a session, by model and by purpose, and its compactions over time",
    notes: `Each call on any branch is counted once, including calls whose summary was discarded. If a session records no price, its
tokens are priced by the list of ${PRICES_DATE} or the setting "prices", and the sum is marked with ≈. Claude Code records the
cost of a session with its sub-agents; that figure is used.`,
    examples: ["espalier stats session.jsonl", "espalier stats session.jsonl --json | jq .compactions"],
    use: "tree",
    async run({ session, shell }) {
      const { prices } = (await currentSettings(shell)).values;
      const figures = statsOf(session, undefined, prices);
      const ledger = cacheLedger(session.tree, { prices });
      const { breaks } = ledger;
      const runs = await subAgentCosts(session, shell, (tree) => statsOf(tree, undefined, prices).total);
      const whole = billWithRuns(figures, runs);
      const origin = originOf(session, prices);
      return {
        value: {
          ...statsValue(figures),
          forkOf: origin && { ...origin, copied: origin.copied && apart(origin.copied) },
          cache: { breaks: breaks.length, tokens: tokensOf(breaks), lost: knownCost(ledger).lost },
          subAgents: runs.map(({ id, ref: file, cost }) => ({ id, file, ...apart(cost) })),
          withSubAgents: apart(whole),
        },
        lines: viewStats(figures, ledger, { runs, whole, origin }, shell, session.tree),
      };
    },
  }),
  sessionCommand({
    usage: "cache <session>",
    description: "show each break of the provider's prompt cache, the entry that caused it, and its cost",
    options: [["--life <minutes>", "lifetime of an unused cache entry (default: 5)", parseMinutes]],
    notes: `Each request is rebuilt from the file and compared with the request before it. A break is a call in which the cache missed
more than 2,000 tokens of the earlier context. Some causes are not in the file (the system prompt, the tools, a restart of
the program); they are inferred from the sizes and times that the provider and the program report.`,
    examples: ["espalier cache session.jsonl", "espalier cache session.jsonl --json | jq .byCause"],
    use: "tree",
    async run({ session, shell, options }) {
      const lifeMs = options.life === undefined ? CACHE_LIFE_MS : options.life * 60_000;
      const { prices } = (await currentSettings(shell)).values;
      const ledger = cacheLedger(session.tree, { lifeMs, prices });
      const { calls, breaks, byCause } = ledger;
      const runs = await subAgentCosts(session, shell, (tree) => cacheLedger(tree, { lifeMs, prices }));
      return {
        value: {
          calls: calls.length,
          breaks: breaks.map((one) => ({ ...one, cost: one.cost || null })),
          cost: knownCost(ledger),
          byCause: Object.fromEntries(
            Object.entries(byCause).map(([cause, sum]) => [cause, { ...sum, cost: sum.cost || null }]),
          ),
          requests: calls,
          subAgents: runs.map(({ id, ref: file, cost }) => ({ id, file, ...knownCost(cost) })),
        },
        lines: viewCache(session, ledger, runs, shell),
      };
    },
  }),
];
