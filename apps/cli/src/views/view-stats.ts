import type { CompactionStats, SessionStats, UsageTotals } from "@espalier/engine";
import { formatCost, formatCount, formatMany, formatSeconds, formatTime } from "../numbers.ts";
import { plainLine } from "../plain-text.ts";
import type { Shell } from "../shell.ts";
import { viewTable } from "./view-table.ts";

const BILL_HEADINGS = ["calls", "input", "output", "cache read", "cache write", "cost"];
const COMPACTION_HEADINGS = ["compaction", "when", "tokens", "removed", "took", "cost", "by"];

/** What a session cost and how it was compacted, for people. */
export function* viewStats(
  { total, path, models, kinds, compactions, branches }: SessionStats,
  { colours }: Pick<Shell, "colours">,
): Generator<string> {
  if (total.calls === 0) yield "No call to a model was billed.";
  else {
    const share = branches.length > 1 ? `, of which ${formatCost(path.cost)} on the path of the leaf` : "";
    const calls = formatMany(total.calls, "call");
    // What an import brings is billed in tokens alone: that it was free would not be true.
    yield colours.bold(
      total.cost > 0
        ? `${formatCost(total.cost)} for ${calls}${share}`
        : `${calls}; what was paid is not known`,
    );
    yield "";
    yield* bills(
      "model",
      models,
      ({ provider, model }) => (provider === model ? model : `${provider}/${model}`),
      colours,
    );
    yield "";
    yield* bills("what for", kinds, ({ kind }) => kind, colours);
  }
  yield "";
  if (compactions.length === 0) yield "It was never compacted.";
  else yield* viewTable(COMPACTION_HEADINGS, compactions.map(compactionCells), colours);
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
