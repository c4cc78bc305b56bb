import {
  CACHE_CAUSES,
  CACHE_LIFE_MS,
  CACHE_REASONS,
  type CacheCause,
  type CacheLedger,
  type CompactionStats,
  cacheLedger,
  nothingBilled,
  type Session,
  type SessionStats,
  type SubAgentRun,
  statsOf,
  subAgentsOf,
  type UsageTotals,
} from "@espalier/engine";
import { pathRows } from "@espalier/session-tree";
import { InvalidArgumentError } from "commander";
import { type SessionCall, sessionCommand } from "../command.ts";
import { entryLine, WIDE } from "../entry-preview.ts";
import { formatCost, formatCount, formatMany, formatSeconds, formatTime } from "../numbers.ts";
import { currentSettings, storeOf, tellSkipped } from "../opening.ts";
import type { Shell } from "../shell.ts";
import { viewTable } from "../table.ts";
import { plainLine } from "../text.ts";

const stats = sessionCommand({
  usage: "stats <session>",
  description: "show the cost of a session, by model and by purpose, and its compactions over time",
  notes: "Each call is counted once, on all branches, also those whose summary was discarded.",
  examples: ["espalier stats session.jsonl", "espalier stats session.jsonl --json | jq .compactions"],
  use: "tree",
  async run({ session, shell }: SessionCall<object>) {
    const figures = statsOf(session);
    const { prices } = (await currentSettings(shell)).values;
    const ledger = cacheLedger(session.tree, { prices });
    const { breaks, cost } = ledger;
    const tokens = breaks.reduce((sum, one) => sum + one.tokens, 0);
    const runs = await subAgentCosts(session, shell, ({ tree }) => statsOf(tree).total);
    const whole = sumOfBills([figures.total, ...runs.map(({ cost }) => cost)]);
    const origin = originOf(session);
    return {
      value: {
        ...statsValue(figures),
        ...(origin ? { forkOf: origin } : {}),
        cache: { breaks: breaks.length, tokens, lost: cost.lost },
        subAgents: runs.map(({ id, file, cost }) => ({ id, file, ...apart(cost) })),
        withSubAgents: apart(whole),
      },
      lines: viewStats(figures, ledger, { runs, whole, origin }, shell),
    };
  },
});

/** Session that a fork was copied from. */
interface Origin {
  sessionId: string;
  /** Entries of the path that both sessions have; null where the fork does not say. */
  sharedEntries: number | null;
}

function originOf({ header, tree }: Session): Origin | undefined {
  const { kind, sessionId, entryId } = header?.parent ?? {};
  if (kind !== "fork" || sessionId === undefined) return undefined;
  const isThere = typeof entryId === "string" && tree.has(entryId);
  return { sessionId, sharedEntries: isThere ? pathRows(tree, tree.row(entryId)).length : null };
}

/** A sub-agent's session, and its cost. */
interface SubAgentCost<Cost> {
  id: string;
  file: string;
  cost: Cost;
}

async function subAgentCosts<Cost>(
  session: Session,
  shell: Shell,
  costOf: (run: SubAgentRun) => Cost,
): Promise<SubAgentCost<Cost>[]> {
  const runs: SubAgentCost<Cost>[] = [];
  for await (const run of subAgentsOf(session, { ...storeOf(shell), ...tellSkipped(shell) }))
    runs.push({ id: run.listing.id, file: run.listing.ref, cost: costOf(run) });
  return runs;
}

function sumOfBills(bills: readonly UsageTotals[]): UsageTotals {
  const sum = nothingBilled();
  for (const bill of bills)
    for (const key of Object.keys(sum) as (keyof UsageTotals)[]) sum[key] += bill[key];
  return sum;
}

/** Usage and cost are separate in every sum. */
function statsValue({ total, path, branches, models, kinds, compactions }: SessionStats): object {
  return {
    ...apart(total),
    path: apart(path),
    branches: branches.map(({ leafId, ...sum }) => ({ leafId, ...apart(sum) })),
    models: models.map(({ provider, model, ...sum }) => ({ provider, model, ...apart(sum) })),
    kinds: kinds.map(({ kind, ...sum }) => ({ kind, ...apart(sum) })),
    compactions,
  };
}

const apart = ({ cost, calls, ...usage }: UsageTotals): object => ({ calls, usage, cost });

const BILL_HEADINGS = ["calls", "input", "output", "cache read", "cache write", "cost"];
const COMPACTION_HEADINGS = ["compaction", "when", "tokens", "removed", "took", "cost", "by"];

/** Cost and compactions of a session, for people. */
function* viewStats(
  { total, path, models, kinds, compactions, branches }: SessionStats,
  ledger: CacheLedger,
  {
    runs,
    whole,
    origin,
  }: { runs: readonly SubAgentCost<UsageTotals>[]; whole: UsageTotals; origin: Origin | undefined },
  { colours }: Pick<Shell, "colours">,
): Generator<string> {
  if (origin) {
    const { sessionId, sharedEntries: shared } = origin;
    const entries =
      shared === null
        ? ""
        : `: its first ${shared === 1 ? "entry is" : `${formatCount(shared)} entries are`} that session's too`;
    yield `A fork of ${plainLine(sessionId)}${entries}.`;
  }
  if (total.calls === 0) yield "No model call was billed.";
  else {
    const share = branches.length > 1 ? `, of which ${formatCost(path.cost)} on the path of the leaf` : "";
    const calls = formatMany(total.calls, "call");
    // What an import brings is billed in tokens alone: that it was free would not be true.
    yield colours.bold(
      total.cost > 0 ? `${formatCost(total.cost)} for ${calls}${share}` : `${calls}; their cost is unknown`,
    );
    yield* viewSubAgents(runs, whole);
    yield "";
    yield* bills(
      "model",
      models,
      ({ provider, model }) => (provider === model ? model : `${provider}/${model}`),
      colours,
    );
    yield "";
    yield* bills("what for", kinds, ({ kind }) => kind, colours);
    yield "";
    yield cacheSummary(ledger);
  }
  yield "";
  if (compactions.length === 0) yield "It was never compacted.";
  else yield* viewTable(COMPACTION_HEADINGS, compactions.map(compactionCells), colours);
}

/** Cost of the sub-agents that a session started, and of all together, for people. */
function* viewSubAgents(runs: readonly SubAgentCost<UsageTotals>[], whole: UsageTotals): Generator<string> {
  if (runs.length === 0) return;
  const { calls, totalTokens, cost } = sumOfBills(runs.map((run) => run.cost));
  const price =
    cost > 0 ? `${formatCost(cost)}; ${formatCost(whole.cost)} with them` : "their cost is unknown";
  const size = `${formatMany(calls, "call")}, ${formatMany(totalTokens, "token")}`;
  yield `${formatMany(runs.length, "sub-agent")}: ${size}, ${price}`;
}

function bills<Row extends UsageTotals>(
  heading: string,
  rows: readonly Row[],
  nameOf: (row: Row) => string,
  colours: Shell["colours"],
): Generator<string> {
  const cells = rows.map((row) => {
    const counts = [row.calls, row.input, row.output, row.cacheRead, row.cacheWrite].map(formatCount);
    return [plainLine(nameOf(row)), ...counts, formatCost(row.cost)];
  });
  return viewTable([heading, ...BILL_HEADINGS], cells, colours);
}

function compactionCells(stats: CompactionStats): string[] {
  const { entryId, timestamp, tokensBefore, tokensAfter, removed, durationMs, cost, policy, source } = stats;
  return [
    `${plainLine(entryId)}${stats.onPath ? "" : " (another branch)"}`,
    formatTime(timestamp),
    `${formatCount(tokensBefore)} → ${tokensAfter === null ? "?" : formatCount(tokensAfter)}`,
    removed === null ? "?" : formatMany(removed, "message"),
    durationMs === null ? "?" : formatSeconds(durationMs),
    formatCost(cost),
    plainLine([policy, source].filter((name) => name !== null).join(", ")),
  ];
}

const cache = sessionCommand({
  usage: "cache <session>",
  description: "show where the provider's prompt cache broke, the entry that broke it, and what that cost",
  options: [["--life <minutes>", "life of an unused cache entry (default: 5)", parseMinutes]],
  notes: `Each answer's request is built again from the file and compared with the one before it. A break is a call that missed
more than 2,000 tokens of the context before. What the file does not record (the system prompt, the tools, the start of a
program) is found by elimination: by the sizes and times that the provider and the program report.`,
  examples: ["espalier cache session.jsonl", "espalier cache session.jsonl --json | jq .byCause"],
  use: "tree",
  async run({ session, shell, options }: SessionCall<{ life?: number }>) {
    const { life: lifeMs = CACHE_LIFE_MS } = options;
    const { prices } = (await currentSettings(shell)).values;
    const ledger = cacheLedger(session.tree, { lifeMs, prices });
    const { calls, breaks, cost, byCause } = ledger;
    const runs = await subAgentCosts(
      session,
      shell,
      ({ tree }) => cacheLedger(tree, { lifeMs, prices }).cost,
    );
    return {
      value: {
        calls: calls.length,
        breaks,
        cost,
        byCause,
        requests: calls,
        subAgents: runs.map(({ id, file, cost }) => ({ id, file, ...cost })),
      },
      lines: viewCache(session, ledger, runs, shell),
    };
  },
});

/** Breaks of the prompt cache for people: sums by cause, then each with the entry that broke it. */
function* viewCache(
  session: Session,
  ledger: CacheLedger,
  runs: readonly SubAgentCost<CacheLedger["cost"]>[],
  { colours, columns }: Pick<Shell, "colours" | "columns">,
): Generator<string> {
  const { breaks, byCause } = ledger;
  yield colours.bold(cacheSummary(ledger));
  if (runs.length > 0) {
    const [lost, total] = (["lost", "total"] as const).map((key) =>
      formatCost(runs.reduce((sum, { cost }) => sum + cost[key], 0)),
    );
    yield `${formatMany(runs.length, "sub-agent")}: ${lost} of ${total}; \`espalier list --parent ${plainLine(session.header?.id ?? "")}\` lists them.`;
  }
  if (breaks.length === 0) return;
  yield "";
  const causes = Object.keys(byCause) as CacheCause[];
  const sums = causes.map((cause) => {
    const of = byCause[cause]!;
    return [CACHE_CAUSES[cause], ...[of.breaks, of.tokens].map(formatCount), formatCost(of.cost)];
  });
  yield* viewTable(["cause", "breaks", "tokens", "cost"], sums, colours);
  yield "";
  for (const cause of causes) yield colours.dim(`${CACHE_CAUSES[cause]}: ${CACHE_REASONS[cause]}`);
  for (const { call, entryId, tokens, cost, cause } of breaks) {
    yield "";
    yield `${formatTime(session.getEntry(call)?.timestamp)}  ${formatMany(tokens, "token")}, ${formatCost(cost)}: ${CACHE_CAUSES[cause]}`;
    yield colours.dim(`  ${entryLine(session, entryId, Math.min(columns, WIDE) - 2)}`);
  }
}

/** The prompt cache of a session in one sentence. */
function cacheSummary({ calls, breaks, cost }: CacheLedger): string {
  const of = `${formatCount(breaks.length)} of ${formatMany(calls.length, "call")}`;
  if (breaks.length === 0) return `Prompt cache: no break in ${formatMany(calls.length, "call")}.`;
  const tokens = breaks.reduce((sum, one) => sum + one.tokens, 0);
  const lost = cost.lost > 0 ? `: ${formatCost(cost.lost)} of ${formatCost(cost.total)}` : "";
  return `Prompt cache: ${of} paid anew for ${formatMany(tokens, "token")}${lost}.`;
}

function parseMinutes(text: string): number {
  const minutes = Number(text);
  if (minutes > 0 && Number.isFinite(minutes)) return minutes * 60_000;
  throw new InvalidArgumentError("expected minutes above 0, for example 60");
}

/** Commands about what a session cost. */
export const costCommands = [stats, cache] as const;
