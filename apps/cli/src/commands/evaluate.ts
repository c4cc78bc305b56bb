import { spawn } from "node:child_process";
import { basename } from "node:path";
import { text as textOf } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import { openSession, POLICY_NAMES, type PolicyName } from "@espalier/engine";
// Types alone: the evaluation is loaded when it is used.
import type { Column, DetailedRow, EvaluatedSession, Report, Row } from "@espalier/engine/eval";
import { message } from "@espalier/session-tree";
import { type Summarizer, summarizer, summaryError } from "@espalier/summarizer";
import { InvalidArgumentError, Option } from "commander";
import { type Call, command } from "../command.ts";
import { CommandError } from "../failure.ts";
import { formatCost, formatCount, formatMany } from "../numbers.ts";
import { withSession } from "../opening.ts";
import { interruptible } from "../progress.ts";
import type { Shell } from "../shell.ts";
import { plainLine } from "../text.ts";
import { viewTable } from "./reports.ts";

interface EvalOptions {
  policy?: PolicyName[];
  summarizerCommand?: string;
  keepRecent?: number;
  floor?: Limit[];
  ceiling?: Limit[];
}

/** A column and the figure that it must not pass. */
interface Limit {
  column: string;
  figure: number;
}

const evaluation = command({
  usage: "eval [sessions...]",
  description: "measure how much of a session each policy and summarizer keeps; without a model",
  options: [
    new Option("--policy <policy>", "only this policy; repeatable")
      .choices(POLICY_NAMES)
      .argParser(collectPolicies),
    [
      "--summarizer-command <command>",
      'a program to compare: {"messages", "previousSummary"} on its stdin, the summary on its stdout',
    ],
    [
      "--keep-recent <tokens>",
      "tokens that a compaction keeps (default: 20,000; 6,000 in short sessions)",
      parseTokens,
    ],
    new Option(
      "--floor <column=figure>",
      "exit 1 where a mean is below it, for example found=0.8; repeatable",
    ).argParser(collectLimits),
    new Option(
      "--ceiling <column=figure>",
      "exit 1 where a mean is above it, for example dump=0.2; repeatable",
    ).argParser(collectLimits),
  ],
  notes: `A session is cut at six points. At each, what is before the kept tail is summarized, and the summary is measured by what the
session did next. Sessions of other agents have to be imported first. Without sessions, those that come with espalier are
measured. Nothing is written. Floors and ceilings are for the means under policies; controls have none.
docs/guides/evaluate-a-compaction.md says what each column can and cannot tell.`,
  examples: [
    "espalier eval session.jsonl",
    "espalier eval session.jsonl --policy token-budget --floor found=0.8 --ceiling dump=0.2",
    'espalier eval session.jsonl --summarizer-command "node my-summarizer.mjs" --json | jq .mean',
  ],
  async run({ shell, options }: Call<EvalOptions>, refs: string[]) {
    const { COLUMNS, evaluate } = await import("@espalier/engine/eval");
    const limits = [
      ...(options.floor ?? []).map((limit) => ({ ...limit, isFloor: true })),
      ...(options.ceiling ?? []).map((limit) => ({ ...limit, isFloor: false })),
    ].map((limit) => ({ ...limit, column: knownColumn(limit.column, COLUMNS) }));
    const sessions = refs.length === 0 ? await ownSessions() : await sessionsNamed(shell, refs);
    const { policy, summarizerCommand, keepRecent } = options;
    const report = await interruptible(shell, "The evaluation", ({ signal }, tell) =>
      evaluate(sessions, {
        ...(policy ? { policies: POLICY_NAMES.filter((name) => policy.includes(name)) } : {}),
        ...(summarizerCommand === undefined ? {} : { summarizers: [commandSummarizer(summarizerCommand)] }),
        ...(keepRecent === undefined ? {} : { keepTokens: keepRecent }),
        signal,
        onProgress: (_done, _total, what) => tell(what),
      }),
    );
    const failures = report.mean.flatMap((row) => [
      ...new Set(limits.flatMap((limit) => failureOf(row, limit) ?? [])),
    ]);
    if (failures.length > 0 || report.mean.length === 0) shell.exitCode = 1;
    return { value: { ...report, failures }, lines: viewReport(report, failures, COLUMNS, shell) };
  },
});

/** Commands that evaluate. */
export const evaluationCommands = [evaluation] as const;

function collectPolicies(name: string, given: readonly PolicyName[] = []): PolicyName[] {
  const known = POLICY_NAMES.find((policy) => policy === name);
  if (!known) throw new InvalidArgumentError(`choose one of ${POLICY_NAMES.join(", ")}`);
  return [...given, known];
}

function parseTokens(text: string): number {
  const tokens = Number(text);
  if (Number.isInteger(tokens) && tokens >= 0) return tokens;
  throw new InvalidArgumentError("expected a whole number of tokens, for example 6000");
}

function collectLimits(text: string, given: Limit[] = []): Limit[] {
  const [, column, figure] = /^([a-z]+)=(\d+(?:\.\d+)?|\.\d+)$/.exec(text) ?? [];
  if (column === undefined)
    throw new InvalidArgumentError("expected a column and a figure, for example found=0.8");
  return [...given, { column, figure: Number(figure) }];
}

function knownColumn(name: string, columns: readonly Column[]): Column {
  const column = columns.find((one) => one === name);
  if (column) return column;
  throw new CommandError(
    "usage",
    `There is no column ${JSON.stringify(name)}; choose one of ${columns.join(", ")}.`,
  );
}

/** The sentence of a row that passes a limit; undefined for one that keeps it, controls, and what has no such figure. */
function failureOf(
  row: Row,
  { column, figure, isFloor }: { column: Column; figure: number; isFloor: boolean },
): string | undefined {
  const measured = row[column];
  if (row.isControl || row.policy === null) return undefined;
  if (row.rounds === 0) return `Nothing was measured under ${row.policy} with ${row.summarizer}.`;
  if (measured === null) return undefined;
  if (isFloor ? measured >= figure : measured <= figure) return undefined;
  const passed = isFloor ? "below its floor" : "above its ceiling";
  return `${column} is ${measured} under ${row.policy} with ${row.summarizer}: ${passed} of ${figure}.`;
}

/** The messages on the leaf's path of sessions, without what compactions replaced them by. */
async function sessionsNamed(shell: Shell, refs: readonly string[]): Promise<EvaluatedSession[]> {
  const sessions: EvaluatedSession[] = [];
  for (const ref of refs)
    sessions.push(
      await withSession(shell, "tree", ref, async (session) => ({
        name: basename(ref, ".jsonl"),
        messages: session.getBranch().flatMap((entry) => (message.is(entry) ? [entry.message] : [])),
      })),
    );
  return sessions;
}

/** The demo's session, and those that were written for the project. */
async function ownSessions(): Promise<EvaluatedSession[]> {
  const { atlas, queue, search, shop } = await import("@espalier/engine/eval");
  const demo = await openSession({ file: DEMO }, { mode: "read" });
  try {
    const messages = demo.getBranch().flatMap((entry) => (message.is(entry) ? [entry.message] : []));
    return [
      { name: "demo", messages },
      { name: "code mode", messages: queue },
      { name: "opencode", messages: atlas },
      { name: "korean", messages: shop },
      { name: "chinese", messages: search },
    ];
  } finally {
    await demo.close();
  }
}

const DEMO = fileURLToPath(new URL("assets/demo-session.jsonl", import.meta.url));

/** A summarizer that is a program: the messages on its stdin, the summary on its stdout. */
function commandSummarizer(line: string): Summarizer {
  return summarizer(
    async ({ messages, previousSummary, instructions }, signal) => {
      const child = spawn(line, { shell: true, stdio: ["pipe", "pipe", "pipe"], signal });
      const ended = new Promise<number | null>((resolve, reject) => {
        child.on("error", reject);
        child.on("close", resolve);
      });
      // A program that does not read its input may close it early.
      child.stdin.on("error", () => undefined);
      child.stdin.end(JSON.stringify({ messages, previousSummary, instructions }));
      const [code, summary, complaint] = await Promise.all([
        ended,
        textOf(child.stdout),
        textOf(child.stderr),
      ]);
      if (code === 0) return summary;
      const reason = plainLine(complaint.trim().split("\n").at(-1) ?? "");
      throw summaryError(
        "failed",
        `The summarizer command ended with ${code}: ${reason || "it said nothing"}.`,
      );
    },
    { name: "command" },
  );
}

/** Columns of the table, with their headings. */
const HEADINGS: Partial<Record<Column, string>> = { inventions: "invented" };

/** Rules that are listed at most. */
const LISTED_RULES = 8;

/** A report for people: the mean of all sessions as a table, and what the figures do not say. */
function* viewReport(
  { mean, sessions }: Report,
  failures: readonly string[],
  columns: readonly Column[],
  { colours }: Pick<Shell, "colours">,
): Generator<string> {
  const measured = sessions.filter(({ skipped }) => skipped === null);
  if (measured.length > 0) {
    const names = measured.map(({ session }) => plainLine(session)).join(", ");
    yield colours.bold(
      measured.length === 1 ? names : `Mean of ${formatMany(measured.length, "session")}: ${names}`,
    );
    yield "";
    const headings = ["policy", "summarizer", ...columns.map((column) => HEADINGS[column] ?? column)];
    // Controls under policies are in --json and on the page.
    const shown = mean.filter(({ isControl, policy }) => !isControl || policy === null);
    const cells = shown.map((row) => [
      row.policy ?? "at once",
      row.isControl ? `(${row.summarizer})` : row.summarizer,
      ...columns.map((column) => cellOf(column, row[column])),
    ]);
    yield* viewTable(headings, cells, colours);
  }
  for (const { session, skipped } of sessions)
    if (skipped !== null) yield colours.yellow(`${plainLine(session)}: ${skipped}`);
  const rows = measured.flatMap(({ session, rows: of }) => of.map((row) => ({ session, row })));
  const real = rows.filter(({ row }) => !row.isControl);
  yield* viewFallen(
    real.filter(({ row }) => row.policy !== null),
    colours,
  );
  for (const { session, row } of real) {
    const where = `${session}, ${row.policy ?? "at once"} with ${row.summarizer}`;
    if (row.problem !== null) yield colours.yellow(plainLine(`${where}: ${row.problem}`));
  }
  for (const failure of failures) yield colours.red(failure);
}

function* viewFallen(
  rows: readonly { session: string; row: DetailedRow }[],
  colours: Shell["colours"],
): Generator<string> {
  const fallen = rows.flatMap(({ session, row }) =>
    row.ruleFigures.fallen.map((rule) => ({ session, row, rule })),
  );
  if (fallen.length === 0) return;
  yield "";
  yield colours.bold(`Rules that the model no longer reads: ${formatCount(fallen.length)}`);
  for (const { session, row, rule } of fallen.slice(0, LISTED_RULES))
    yield plainLine(
      `  ${session}, ${row.policy} with ${row.summarizer}, round ${rule.fell} (stated in ${rule.stated}): ${rule.text.slice(0, 80)}`,
    );
  if (fallen.length > LISTED_RULES)
    yield colours.dim(`  … and ${fallen.length - LISTED_RULES} more; --json lists all`);
}

function cellOf(column: Column, figure: number | null): string {
  if (figure === null) return "–";
  if (column === "tokens" || column === "refetch") return formatCount(Math.round(figure));
  if (column === "price") return formatCost(figure);
  return column === "inventions" ? figure.toFixed(1) : figure.toFixed(2);
}
