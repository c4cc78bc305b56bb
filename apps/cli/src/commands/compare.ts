import { setTimeout } from "node:timers/promises";
import {
  type BranchComparison,
  type BranchSide,
  type CompactionStats,
  compareBranches,
  type PolicyComparison,
  paced,
  type ReplayStep,
  type Session,
  type SessionStats,
  statsOf,
  type UsageTotals,
} from "@espalier/engine";
import { message } from "@espalier/session-tree";
import { type Command, InvalidArgumentError } from "commander";
import { previewEntry } from "../entry-preview.ts";
import { entryNamed, existingEntry } from "../entry-reference.ts";
import { CommandError } from "../failure.ts";
import { formatCost, formatCount, formatMany, formatSeconds, formatTime } from "../numbers.ts";
import { planning, reading, warnOfDamage } from "../opening.ts";
import { type Colours, print, printLine, printStep, type Shell } from "../shell.ts";
import { columnsOf, cutToColumns, padToColumns, plainLine } from "../text.ts";

export function addDiff(program: Command, shell: Shell): void {
  program
    .command("diff <session> <a> <b>")
    .description("compare two branches from where they part: entries, messages, tokens, cost, files")
    .addHelpText(
      "after",
      `
Examples:
  espalier diff session.jsonl leaf http-cache-dead-end
  espalier diff session.jsonl a1B2 c3D4 --json | jq .a.files`,
    )
    .action((ref: string, a: string, b: string) =>
      reading(shell, ref, async (session) => {
        warnOfDamage(shell, session, session.tree.issues);
        const comparison = compareBranches(session.tree, entryNamed(session, a), entryNamed(session, b));
        await print(shell, comparison, () => viewDiff(session, comparison, shell));
      }),
    );
}

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
    commonAncestorId === null ? "They have no entry in common." : "The last entry they have in common:",
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

export function addStats(program: Command, shell: Shell): void {
  program
    .command("stats <session>")
    .description("tell what a session cost, by model and by what for, and how it was compacted over time")
    .addHelpText(
      "after",
      `
Calls are counted once each, on all branches, those whose summary was thrown away among them.

Examples:
  espalier stats session.jsonl
  espalier stats session.jsonl --json | jq .compactions`,
    )
    .action((ref: string) =>
      reading(shell, ref, async (session) => {
        warnOfDamage(shell, session, session.tree.issues);
        const stats = statsOf(session);
        await print(shell, statsValue(stats), () => viewStats(stats, shell));
      }),
    );
}

/** Usage and cost stand apart in every sum. */
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

/** What a session cost and how it was compacted, for people. */
function* viewStats(
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

export function addPolicies(program: Command, shell: Shell): void {
  program
    .command("policies <session>")
    .description(
      "compare what each policy of compaction would do with a session; asks no model, writes nothing",
    )
    .addHelpText(
      "after",
      `
Each policy counts tokens in its own way, so tokens compare within a row. A call is one request to a summarizer.

Example:
  espalier policies session.jsonl`,
    )
    .action((ref: string) =>
      planning(shell, ref, async (session) => {
        const rows = session.comparePolicies();
        await print(shell, rows, () => viewPolicies(rows, shell));
      }),
    );
}

const HEADINGS = ["policy", "messages", "tokens", "summarised", "kept", "calls"];

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
  const change = (before: number, after: number) =>
    eligible ? `${formatCount(before)} → ${formatCount(after)}` : formatCount(before);
  const figures = [summarised, Math.max(0, messagesAfter - 1), calls].map(formatCount);
  return [
    policy,
    change(messagesBefore, messagesAfter),
    change(tokensBefore, tokensAfter),
    ...(eligible ? figures : figures.map(() => "-")),
  ];
}

/** A table for people: the first column to the left, all others, which are figures, to the right. */
function* viewTable(
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

export function addReplay(program: Command, shell: Shell): void {
  program
    .command("replay <session>")
    .description("play a session back, entry by entry: where the leaf was, and what the model read")
    .option("--until <id>", "stop after this entry")
    .option(
      "--speed <factor>",
      "at the session's own pace, so many times as fast; pauses of two seconds at most",
      parseSpeed,
    )
    .option("--verify", "build every step anew from scratch, too, and compare; exit 1 where they differ")
    .addHelpText(
      "after",
      `
Examples:
  espalier replay session.jsonl --speed 20
  espalier replay session.jsonl --verify --json | tail -1`,
    )
    .action((ref: string, options: ReplayOptions) =>
      reading(shell, ref, async (session) => {
        warnOfDamage(shell, session, session.tree.issues);
        const { steps, differing } = await play(shell, session, options);
        if (differing > 0)
          throw new CommandError(
            "verify",
            `${formatMany(differing, "step")} of ${formatCount(steps)} differ from what was built anew.`,
          );
        if (!shell.json) await printLine(shell, closingLine(steps, options));
      }),
    );
}

function closingLine(steps: number, { verify = false }: ReplayOptions): string {
  const all = formatMany(steps, "step");
  return verify ? `${all}, each the same when it is built anew.` : `${all}.`;
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
  if (!(speed > 0)) throw new InvalidArgumentError("It is a number above 0: 10 is ten times as fast.");
  return speed;
}

/** Columns of a step's entry and of its type; longer ones are cut. */
const ID_WIDTH = 12;
const TYPE_WIDTH = 14;

/** The fewest columns for what an entry says, also where that makes a line too long. */
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
