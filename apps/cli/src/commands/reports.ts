import { setTimeout } from "node:timers/promises";
import {
  type BranchComparison,
  type BranchSide,
  CACHE_CAUSES,
  CACHE_LIFE_MS,
  CACHE_REASONS,
  type CacheCause,
  type CacheLedger,
  type CompactionStats,
  cacheLedger,
  compareBranches,
  type HistoryHit,
  historyOf,
  type PolicyComparison,
  paced,
  type ReplayStep,
  type Session,
  type SessionStats,
  statsOf,
  type UsageTotals,
} from "@espalier/engine";
import { message } from "@espalier/session-tree";
import { InvalidArgumentError } from "commander";
import { type SessionCall, sessionCommand } from "../command.ts";
import { previewEntry } from "../entry-preview.ts";
import { entryNamed, existingEntry } from "../entry-reference.ts";
import { CommandError } from "../failure.ts";
import { formatCost, formatCount, formatMany, formatSeconds, formatTime, parseCount } from "../numbers.ts";
import { currentSettings } from "../opening.ts";
import { type Colours, jsonLine, printLine, printLines, printStep, type Shell } from "../shell.ts";
import { columnsOf, cutLine, cutToColumns, padToColumns, plainLine, plainText } from "../text.ts";

const diff = sessionCommand({
  usage: "diff <session> <a> <b>",
  description: "compare two branches from their common ancestor: entries, messages, tokens, cost, files",
  examples: [
    "espalier diff session.jsonl leaf http-cache-dead-end",
    "espalier diff session.jsonl a1B2 c3D4 --json | jq .a.files",
  ],
  use: "tree",
  async run({ session, shell }: SessionCall<object>, a: string, b: string) {
    const comparison = compareBranches(session.tree, entryNamed(session, a), entryNamed(session, b));
    return { value: comparison, lines: viewDiff(session, comparison, shell) };
  },
});

/** Columns of an entry's line where no terminal says how many there are. */
const WIDE = 120;

/** Two branches for people: where they part, what each comes to, and what was said on each. */
function* viewDiff(
  session: Session,
  { commonAncestorId, a, b }: BranchComparison,
  { colours, columns }: Pick<Shell, "colours" | "columns">,
): Generator<string> {
  const width = Math.min(columns, WIDE);
  yield colours.bold(
    commonAncestorId === null ? "The branches have no entry in common." : "Their last common entry:",
  );
  if (commonAncestorId !== null) yield entryLine(session, commonAncestorId, width);
  yield "";
  const row = (name: string, cell: (side: BranchSide) => string) => [name, cell(a), cell(b)];
  yield* viewTable(
    ["", ...[a, b].map(({ leafId }) => plainLine(leafId ?? "start"))],
    [
      row("entries", ({ entryIds }) => formatCount(entryIds.length)),
      row("messages", ({ messages }) => formatCount(messages)),
      row("tokens", ({ tokens }) => formatCount(tokens)),
      row("cost", ({ cost }) => formatCost(cost)),
      row("files", ({ files }) => formatCount(files.length)),
    ],
    colours,
  );
  for (const side of [a, b]) yield* sideLines(session, side, colours, width);
}

function* sideLines(
  session: Session,
  { leafId, entryIds, files }: BranchSide,
  colours: Shell["colours"],
  width: number,
): Generator<string> {
  yield "";
  yield colours.bold(`Only on the branch of ${plainLine(leafId ?? "start")}:`);
  if (entryIds.length === 0) yield "  nothing";
  for (const id of entryIds) yield `  ${entryLine(session, id, width - 2)}`;
  for (const file of files) yield colours.cyan(cutToColumns(`  file ${plainLine(file)}`, width));
}

function entryLine(session: Session, id: string, width: number): string {
  const entry = session.getEntry(id)!;
  const role = message.is(entry) ? entry.message.role : entry.type;
  return cutToColumns(`${plainLine(`${id} ${role}`)}  ${previewEntry(entry) ?? ""}`, width);
}

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
    return {
      value: { ...statsValue(figures), cache: { breaks: breaks.length, tokens, lost: cost.lost } },
      lines: viewStats(figures, ledger, shell),
    };
  },
});

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
  { colours }: Pick<Shell, "colours">,
): Generator<string> {
  if (total.calls === 0) yield "No model call was billed.";
  else {
    const share = branches.length > 1 ? `, of which ${formatCost(path.cost)} on the path of the leaf` : "";
    const calls = formatMany(total.calls, "call");
    // What an import brings is billed in tokens alone: that it was free would not be true.
    yield colours.bold(
      total.cost > 0 ? `${formatCost(total.cost)} for ${calls}${share}` : `${calls}; their cost is unknown`,
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
    yield "";
    yield cacheSummary(ledger);
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
    return {
      value: { calls: calls.length, breaks, cost, byCause, requests: calls },
      lines: viewCache(session, ledger, shell),
    };
  },
});

/** Breaks of the prompt cache for people: sums by cause, then each with the entry that broke it. */
function* viewCache(
  session: Session,
  ledger: CacheLedger,
  { colours, columns }: Pick<Shell, "colours" | "columns">,
): Generator<string> {
  const { breaks, byCause } = ledger;
  yield colours.bold(cacheSummary(ledger));
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

const policies = sessionCommand({
  usage: "policies <session>",
  description: "compare the effect of each compaction policy on a session; asks no model, writes nothing",
  notes:
    "Each policy counts tokens in its own way, so tokens compare within a row. A call is one request to a summarizer. `anew` is what the next request writes to the prompt cache, as the provider counts, and `pays back` the calls after which smaller requests have paid for it.",
  examples: ["espalier policies session.jsonl"],
  use: "plan",
  async run({ session, shell }: SessionCall<object>) {
    const rows = session.comparePolicies();
    return { value: rows, lines: viewPolicies(rows, shell) };
  },
});

const HEADINGS = ["policy", "messages", "tokens", "summarised", "kept", "calls", "anew", "pays back"];

/** One table of what each policy would do with a session, for people. */
function* viewPolicies(
  policies: readonly PolicyComparison[],
  { colours }: Pick<Shell, "colours">,
): Generator<string> {
  yield* viewTable(HEADINGS, policies.map(cellsOf), colours);
  const idle = policies.filter(({ eligible }) => !eligible);
  if (idle.length > 0) yield "";
  for (const { policy, reason } of idle) yield colours.dim(plainLine(`${policy}: ${reason}`));
}

function cellsOf(row: PolicyComparison): string[] {
  const { policy, eligible, messagesBefore, messagesAfter, tokensBefore, tokensAfter, summarised, calls } =
    row;
  const { anew = 0, paysBackAfter = null } = row.cache ?? {};
  const change = (before: number, after: number) =>
    eligible ? `${formatCount(before)} → ${formatCount(after)}` : formatCount(before);
  const figures = [summarised, Math.max(0, messagesAfter - 1), calls].map(formatCount);
  return [
    policy,
    change(messagesBefore, messagesAfter),
    change(tokensBefore, tokensAfter),
    ...(eligible ? figures : figures.map(() => "-")),
    eligible ? formatCount(anew) : "-",
    paysBackAfter === null ? "-" : formatMany(paysBackAfter, "call"),
  ];
}

/** A table for people: the first column to the left, all others, which are figures, to the right. */
export function* viewTable(
  headings: readonly string[],
  rows: readonly (readonly string[])[],
  colours: Colours,
): Generator<string> {
  const widths = headings.map((heading, column) =>
    Math.max(columnsOf(heading), ...rows.map((cells) => columnsOf(cells[column] ?? ""))),
  );
  const line = (cells: readonly string[]) =>
    cells
      .map((cell, column) =>
        column === 0
          ? padToColumns(cell, widths[column]!)
          : " ".repeat(Math.max(0, widths[column]! - columnsOf(cell))) + cell,
      )
      .join("  ")
      .trimEnd();
  yield colours.dim(line(headings));
  for (const cells of rows) yield line(cells);
}

interface ReplayOptions {
  until?: string;
  speed?: number;
  verify?: boolean;
}

const replay = sessionCommand({
  usage: "replay <session>",
  description: "play a session back, entry by entry: the leaf, and the context that the model read",
  options: [
    ["--until <id>", "stop after this entry"],
    [
      "--speed <factor>",
      "at the session's own pace, times this factor; pauses of two seconds at most",
      parseSpeed,
    ],
    ["--verify", "build every step again from scratch and compare; exit 1 where they differ"],
  ],
  examples: [
    "espalier replay session.jsonl --speed 20",
    "espalier replay session.jsonl --verify --json | tail -1",
  ],
  use: "tree",
  async run({ session, shell, options }: SessionCall<ReplayOptions>) {
    const { steps, differing } = await play(shell, session, options);
    if (differing > 0)
      throw new CommandError(
        "verify",
        `${formatMany(differing, "step")} of ${formatCount(steps)} differ from a new build.`,
      );
    if (!shell.json) await printLine(shell, closingLine(steps, options));
  },
});

const history = sessionCommand({
  usage: "history <session> <query>",
  description: "search the original messages, also those that a summary replaces in the context",
  options: [["--limit <count>", "at most this many, the newest", parseCount]],
  notes: `A message matches when it has all words of the query, in any case and order. Messages that a compaction covers and
those of other branches are searched too, and marked. An agent's model does the same with the tool query_history.`,
  examples: [
    'espalier history session.jsonl "cache key"',
    "espalier history session.jsonl etag --limit 3 --json | jq -r .text",
  ],
  use: "read",
  async run({ session, shell, options: { limit } }: SessionCall<{ limit?: number }>, query: string) {
    const hits = historyOf(session, { query, ...(limit === undefined ? {} : { limit }) });
    if (!shell.json) return printLines(shell, viewHistory(hits, shell));
    for (const hit of hits) await shell.output.writeLine(jsonLine(historyValue(hit)));
  },
});

const historyValue = ({ entryId, text, covered, onPath }: HistoryHit): object => ({
  entryId,
  text,
  covered,
  onPath,
});

/** Lines of a message that are shown, and characters of each. */
const SHOWN = 6;
const LINE_LENGTH = 200;

/** Original messages for people: which, whose, whether the model still reads them, and how they begin. */
function* viewHistory(hits: readonly HistoryHit[], { colours }: Pick<Shell, "colours">): Generator<string> {
  if (hits.length === 0) yield "No message matches.";
  for (const [at, { entryId, role, text, timestamp, covered, onPath }] of hits.entries()) {
    if (at > 0) yield "";
    const facts = [
      entryId,
      formatTime(timestamp),
      covered ? "covered by a summary" : "",
      onPath ? "" : "on another branch",
    ].filter((fact) => fact !== "");
    yield `${colours.cyan(plainLine(role))} ${colours.dim(plainLine(facts.join(" · ")))}`;
    const lines = plainText(text).split("\n");
    for (const line of lines.slice(0, SHOWN)) yield `  ${cutLine(line, LINE_LENGTH)}`;
    if (lines.length > SHOWN) yield colours.dim(`  … ${lines.length - SHOWN} more lines`);
  }
}

/** Read-only analyses of a session. */
export const reportCommands = [diff, stats, cache, policies, replay, history] as const;

function closingLine(steps: number, { verify = false }: ReplayOptions): string {
  const all = formatMany(steps, "step");
  return verify ? `${all}, each equal to a new build.` : `${all}.`;
}

async function play(shell: Shell, session: Session, { until, speed, verify = false }: ReplayOptions) {
  const last = until === undefined ? {} : { until: existingEntry(session, until) };
  const steps = session.replay({ ...last, verify });
  const played = { steps: 0, differing: 0 };
  for await (const step of speed === undefined ? steps : paced(steps, session.tree, speed, setTimeout)) {
    played.steps++;
    if (step.verified === false) played.differing++;
    await printStep(shell, step, () => viewStep(session, step, shell));
    // Whoever watches a paced replay wants to see each step when it happens.
    if (speed !== undefined) await shell.output.flush();
  }
  return played;
}

function parseSpeed(text: string): number {
  const speed = Number(text);
  if (!(speed > 0)) throw new InvalidArgumentError("expected a number above 0, for example 10");
  return speed;
}

/** Columns of a step's entry and of its type; longer ones are cut. */
const ID_WIDTH = 12;
const TYPE_WIDTH = 14;

/** Fewest columns for the text of an entry, even when the line becomes too long. */
const NARROWEST = 10;

/** One step of a replay on a line: which entry, what the model reads then, where the leaf is, what the entry says. */
export function viewStep(
  session: Session,
  { seq, entryId, type, leafId, contextMessages, contextTokens, verified }: ReplayStep,
  { colours, columns }: Pick<Shell, "colours" | "columns">,
): string {
  const facts = [
    formatCount(seq).padStart(6),
    cell(entryId, ID_WIDTH),
    cell(type, TYPE_WIDTH),
    `${formatCount(contextMessages).padStart(5)} messages`,
    `${formatCount(contextTokens).padStart(9)} tokens`,
  ].join(" ");
  const mark = verified === false ? " differs" : "";
  const moved = leafId === entryId ? "" : `leaf ${leafId ?? "before the first entry"}`;
  const entry = session.getEntry(entryId);
  const said = plainLine(`${moved} ${(entry && previewEntry(entry)) ?? ""}`);
  const room = columns - columnsOf(facts + mark) - 2;
  return `${facts}${colours.red(mark)}  ${colours.dim(cutToColumns(said, Math.max(NARROWEST, room)))}`;
}

/** Ids and types are those of whoever wrote the session: of any length, and of any characters. */
const cell = (text: string, columns: number): string =>
  padToColumns(cutToColumns(plainLine(text), columns), columns);
