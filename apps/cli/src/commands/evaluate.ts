// Separate from program.ts: each group of commands has a file.
import { spawn } from "node:child_process";
import { readdirSync } from "node:fs";
import { basename, join } from "node:path";
import { text as textOf } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import {
  missingKey,
  openSession,
  POLICY_NAMES,
  type PolicyName,
  providerNamed,
  type ResolvedSettings,
  type Session,
} from "@espalier/engine";
// Only types: the evaluation is loaded when it is used.
import type {
  Category,
  Column,
  DetailedRow,
  EvaluatedSession,
  EvaluateOptions,
  JudgedSession,
  JudgeForecast,
  JudgeOptions,
  Report,
  Row,
} from "@espalier/engine/eval";
import { EspalierError } from "@espalier/jsonl-stream";
import { message } from "@espalier/session-tree";
import { pricesOf, type Summarizer, summarizer, summaryError } from "@espalier/summarizer";
import { InvalidArgumentError } from "commander";
import { command } from "../command.ts";
import { WIDE } from "../entry-preview.ts";
import { CommandError } from "../failure.ts";
import { formatCost, formatCount, formatMany, isWhole, numberParser } from "../numbers.ts";
import { currentSettings, readySummarizer, withSession } from "../opening.ts";
import { given, type OptionsOf } from "../options.ts";
import { interruptible } from "../progress.ts";
import { confirmOnTerminal, type Look, type Shell } from "../shell.ts";
import { viewTable } from "../table.ts";
import { plainLine } from "../text.ts";
import { writeExport } from "../write-export.ts";

const parseTokens = numberParser(isWhole, "a whole number of tokens, for example 6000");
const parseSeed = numberParser((seed) => isWhole(seed, 0, 2 ** 32 - 1), "a whole number, for example 7");
const parseDollars = numberParser(
  (dollars) => dollars > 0 && Number.isFinite(dollars),
  "US dollars above 0, for example 1.50",
);

interface Limit {
  column: string;
  figure: number;
}

const OPTIONS = [
  ["--policy <policy>", "only this policy; repeatable", collectPolicies, { choices: POLICY_NAMES }],
  [
    "--summarizer-command <command>",
    'a program to compare: {"messages", "previousSummary"} on its stdin, the summary on its stdout',
  ],
  [
    "--keep-recent <tokens>",
    "newest tokens that a compaction keeps unchanged (default: 20,000; 6,000 in short sessions)",
    parseTokens,
  ],
  [
    "--floor <column=figure>",
    "exit 1 if the column's mean is below the figure, for example found=0.8; repeatable",
    collectLimits,
  ],
  [
    "--ceiling <column=figure>",
    "exit 1 if the column's mean is above the figure, for example dump=0.2; repeatable",
    collectLimits,
  ],
  ["--html <file>", "write the report as a page with charts"],
  ["--judge <model>", "a model that also judges the summaries: anthropic:MODEL, openai:MODEL"],
  ["--max-cost <dollars>", "maximum cost of models in US dollars", parseDollars],
  ["--seed <number>", "seed for the order in which the judge grades (default: 1)", parseSeed],
] as const;

type EvalOptions = OptionsOf<typeof OPTIONS>;

export const evaluation = command({
  usage: "eval [sessions...]",
  description:
    "measure how much of a session each policy and summarizer keeps; calls a model only if you name one",
  options: OPTIONS,
  notes: `A session is cut at six points. At each point, the messages before the kept tail are summarized, and the summary is measured
against the rest of the session. Import sessions of other agents first. Without arguments, the sessions that come with espalier
are measured. No session is changed. Floors and ceilings apply to the means under policies, not to the controls. A column
without a figure fails its floor and its ceiling.
A judge writes questions from the history, answers them from each summary, and grades the answers without knowing which
summary they are from. A model of --summarizer gets its own row. The expected cost is printed before a model is called.
docs/guides/evaluate-a-compaction.md explains the columns and their limits.`,
  examples: [
    "espalier eval session.jsonl",
    "espalier eval session.jsonl --policy token-budget --floor found=0.8 --ceiling dump=0.2",
    'espalier eval session.jsonl --summarizer-command "node my-summarizer.mjs" --json | jq .mean',
    "espalier eval session.jsonl --html report.html",
    "espalier eval session.jsonl --policy token-budget --judge anthropic:claude-sonnet-5-5 --max-cost 2",
  ],
  async run({ shell, options }, refs) {
    const { CATEGORIES, COLUMNS, evaluate, reportPage } = await import("@espalier/engine/eval");
    const limits = [
      ...(options.floor ?? []).map((limit) => ({ ...limit, isFloor: true })),
      ...(options.ceiling ?? []).map((limit) => ({ ...limit, isFloor: false })),
    ].map((limit) => ({ ...limit, column: knownColumn(limit.column, COLUMNS) }));
    const sessions = refs.length === 0 ? await ownSessions() : await sessionsNamed(shell, refs);
    const { policy = POLICY_NAMES, summarizerCommand: line, keepRecent, html } = options;
    const named = await namedSummarizer(shell);
    const judge = await judgeOf(options, await currentSettings(shell));
    const plan: EvaluateOptions = {
      policies: POLICY_NAMES.filter((name) => policy.includes(name)),
      summarizers: [...(named ? [named] : []), ...(line === undefined ? [] : [commandSummarizer(line)])],
      ...given({ keepTokens: keepRecent, judge }),
    };
    await tellCost(shell, options, sessions, plan, named);
    const report = await interruptible(shell, "The evaluation", ({ signal }, tell) =>
      evaluate(sessions, { ...plan, signal, onProgress: (_done, _total, what) => tell(what) }),
    );
    const page = html === undefined ? undefined : writeExport(html, onePiece(reportPage(report))).file;
    const failures = report.mean.flatMap((row) => [
      ...new Set(limits.flatMap((limit) => failureOf(row, limit) ?? [])),
    ]);
    if (failures.length > 0 || report.mean.length === 0) shell.exitCode = 1;
    const names = { columns: COLUMNS, categories: CATEGORIES };
    return {
      value: { ...report, failures, html: page },
      lines: viewReport(report, failures, page, names, shell),
    };
  },
});

function collectPolicies(name: string, given: readonly PolicyName[] = []): PolicyName[] {
  const known = POLICY_NAMES.find((policy) => policy === name);
  if (!known) throw new InvalidArgumentError(`Choose one of ${POLICY_NAMES.join(", ")}`);
  return [...given, known];
}

function* onePiece(text: string): Generator<string, number> {
  yield text;
  return 1;
}

/** Returns the model of `--summarizer`, named as the user wrote it; undefined without one, and for `extractive`. */
async function namedSummarizer(shell: Shell): Promise<Summarizer | undefined> {
  const { summarizer: name } = shell.globals;
  if (name === undefined || name === "extractive") return undefined;
  return { ...(await readySummarizer(shell)), name };
}

/** Returns the judge of `--judge`; undefined without the option. @throws CommandError `no-key` */
async function judgeOf(
  { judge: name, maxCost, seed }: EvalOptions,
  { values: settings }: ResolvedSettings,
): Promise<JudgeOptions | undefined> {
  if (name === undefined) return undefined;
  const missing = missingKey(name, { settings });
  if (missing) throw new CommandError("no-key", `The judge ${name} needs a key: set ${missing.variable}.`);
  const provider = providerNamed(name, { settings });
  return { provider, maxCost, prices: settings.prices, ...given({ seed }) };
}

/**
 * Prints the expected cost of the judge and of the model of `--summarizer`. Without `--max-cost`, a person on a
 * terminal has to confirm. Does nothing if no such model is named.
 *
 * @throws EspalierError `over-budget` for a cost above `--max-cost`, `bad-input` for `--max-cost` without a known
 * price; CommandError `aborted`
 */
async function tellCost(
  shell: Shell,
  { judge: judgeName, maxCost, keepRecent: keepTokens }: EvalOptions,
  sessions: readonly EvaluatedSession[],
  { policies = [], summarizers = [], judge }: EvaluateOptions,
  named: Summarizer | undefined,
): Promise<void> {
  if (!judge && !named) return;
  const { forecastJudgement, forecastSummaries } = await import("@espalier/engine/eval");
  const { prices } = (await currentSettings(shell)).values;
  const summaries = (1 + summarizers.length) * (1 + policies.length);
  const forecasts: { who: string; model: Summarizer["model"]; of: JudgeForecast[] }[] = [];
  if (named)
    forecasts.push({
      who: `the summarizer ${named.name}`,
      model: named.model,
      of: sessions.map(({ messages }) => forecastSummaries(messages, policies.length, keepTokens)),
    });
  if (judge)
    forecasts.push({
      who: `the judge ${judgeName}`,
      model: judge.provider,
      of: sessions.map(({ messages }) => forecastJudgement(messages, summaries, { ...judge, keepTokens })),
    });
  let total = 0;
  const unpriced: string[] = [];
  for (const { who, model, of } of forecasts) {
    const sum = (field: "requests" | "inputTokens" | "outputTokens") =>
      of.reduce((all, one) => all + one[field], 0);
    const [input, output] = [sum("inputTokens"), sum("outputTokens")];
    const price = pricesOf(model ?? null, Math.ceil(input / Math.max(1, sum("requests"))), prices);
    const cost = price ? (input * price.input + output * price.output) / 1_000_000 : null;
    total += cost ?? 0;
    if (cost === null) unpriced.push(who);
    const told = cost === null ? "at an unknown price (setting prices)" : `about ${formatCost(cost)}`;
    shell.complain(
      `${capitalized(who)} gets about ${formatMany(sum("requests"), "request")} with about ${formatCount(input + output)} tokens: ${told}.`,
    );
  }
  if (maxCost !== undefined && unpriced.length > 0)
    throw new EspalierError(
      "bad-input",
      `No price is known for ${unpriced.join(" and ")}, so --max-cost cannot be enforced; add the price to the setting \`prices\`, or omit --max-cost.`,
    );
  const all = capitalized(forecasts.map(({ who }) => who).join(" and "));
  if (maxCost !== undefined && total > maxCost)
    throw new EspalierError(
      "over-budget",
      `${all} would cost about ${formatCost(total)}, more than --max-cost of ${formatCost(maxCost)}; no model was called. Raise the limit, or choose fewer sessions or policies.`,
    );
  if (maxCost === undefined && shell.interactive && !(await confirmOnTerminal("Continue?")))
    throw new CommandError("aborted", "No model was called, and nothing was spent.");
}

const capitalized = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);

function collectLimits(text: string, given: Limit[] = []): Limit[] {
  const [, column, figure] = /^([a-z]+)=(\d+(?:\.\d+)?|\.\d+)$/.exec(text) ?? [];
  if (column === undefined)
    throw new InvalidArgumentError("Expected a column and a figure, for example found=0.8");
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

/**
 * Describes a row that is beyond a limit, has no figure for it, or was not measured at all. Undefined for a row within
 * the limit, a control, and a row without a policy.
 */
function failureOf(
  row: Row,
  { column, figure, isFloor }: { column: Column; figure: number; isFloor: boolean },
): string | undefined {
  const measured = row[column];
  if (row.isControl || row.policy === null) return undefined;
  if (row.rounds === 0) return `Nothing was measured under ${row.policy} with ${row.summarizer}.`;
  const limit = isFloor ? "floor" : "ceiling";
  if (measured === null)
    return `${column} has no figure under ${row.policy} with ${row.summarizer}, so its ${limit} of ${figure} cannot be checked.`;
  if (isFloor ? measured >= figure : measured <= figure) return undefined;
  const passed = isFloor ? "below its floor" : "above its ceiling";
  return `${column} is ${measured} under ${row.policy} with ${row.summarizer}: ${passed} of ${figure}.`;
}

/** Messages on the leaf's path of a session. Messages that a compaction replaced are included. */
const messagesOf = (session: Session): EvaluatedSession["messages"] =>
  session.getBranch().flatMap((entry) => (message.is(entry) ? [entry.message] : []));

async function sessionsNamed(shell: Shell, refs: readonly string[]): Promise<EvaluatedSession[]> {
  const sessions: EvaluatedSession[] = [];
  for (const ref of refs)
    sessions.push(
      await withSession(shell, "tree", ref, async (session) => ({
        name: basename(ref, ".jsonl"),
        messages: messagesOf(session),
      })),
    );
  return sessions;
}

/** The demo session and the sessions that were written for the project. */
async function ownSessions(): Promise<EvaluatedSession[]> {
  const folder = fileURLToPath(new URL("assets/sessions/", import.meta.url));
  const files = ["../demo-session.jsonl", ...readdirSync(folder).sort()];
  const sessions: EvaluatedSession[] = [];
  for (const file of files) {
    const session = await openSession({ file: join(folder, file) }, { mode: "read" });
    try {
      sessions.push({ name: basename(file, ".jsonl"), messages: messagesOf(session) });
    } finally {
      await session.close();
    }
  }
  return sessions;
}

/** Summarizer that runs a program: messages on its stdin, the summary on its stdout. */
function commandSummarizer(line: string): Summarizer {
  return summarizer(
    async ({ messages, previousSummary, instructions }, signal) => {
      const child = spawn(line, { shell: true, stdio: ["pipe", "pipe", "pipe"], signal });
      const ended = new Promise<number | null>((resolve, reject) => {
        child.on("error", reject);
        child.on("close", resolve);
      });
      // A program that does not read its input may close stdin early.
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
        `The summarizer command ended with ${code}: ${reason || "it printed no reason"}.`,
      );
    },
    { name: "command" },
  );
}

/** Maximum number of rules in the list. */
const LISTED_RULES = 8;

/** Number of columns of the first of two tables, where one table is wider than the terminal. */
const NARROW_PART = 7;

/** Draws a report for people: the mean of all sessions as a table, and notes on the limits of the figures. */
function* viewReport(
  { mean, sessions, judged = [] }: Report,
  failures: readonly string[],
  page: string | undefined,
  { columns, categories }: { columns: readonly Column[]; categories: readonly Category[] },
  { colours, columns: width }: Look,
): Generator<string> {
  const measured = sessions.filter(({ skipped }) => skipped === null);
  if (measured.length > 0) {
    const names = measured.map(({ session }) => plainLine(session)).join(", ");
    yield colours.bold(
      measured.length === 1 ? names : `Mean of ${formatMany(measured.length, "session")}: ${names}`,
    );
    // Controls under policies are in --json and on the page.
    const shown = mean.filter(({ isControl, policy }) => !isControl || policy === null);
    const parts = width < WIDE ? [columns.slice(0, NARROW_PART), columns.slice(NARROW_PART)] : [columns];
    for (const part of parts) {
      const cells = shown.map((row) => [
        row.policy ?? "at once",
        row.isControl ? `(${row.summarizer})` : row.summarizer,
        ...part.map((column) => cellOf(column, row[column])),
      ]);
      yield "";
      yield* viewTable(["policy", "summarizer", ...part], cells, { colours });
    }
  }
  for (const { session, skipped } of sessions)
    if (skipped !== null) yield colours.yellow(`${plainLine(session)}: ${skipped}`);
  for (const { session, unmeasured } of measured)
    if (unmeasured !== null) yield colours.dim(`${plainLine(session)}: ${unmeasured}`);
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
  for (const session of judged) yield* viewJudged(session, categories, colours);
  for (const failure of failures) yield colours.red(failure);
  if (page === undefined) return;
  yield "";
  yield `The page is ${plainLine(page)}.`;
}

/** Maximum number of questions in the list. */
const LISTED_QUESTIONS = 12;

/** Draws the judgement of one session: scores, lost answers, and left-out questions. */
function* viewJudged(
  { session, judge, probes, dropped, rubbish, empty, full, rows, spent }: JudgedSession,
  categories: readonly Category[],
  colours: Shell["colours"],
): Generator<string> {
  const figure = (value: number | null) => (value === null ? "–" : value.toFixed(2));
  yield "";
  yield colours.bold(plainLine(`${session}, judged by ${judge}: ${formatMany(probes, "question")}`));
  yield "";
  const cells = rows.map(({ policy, summarizer: name, score, categories: of, next }) => [
    policy ?? "at once",
    name,
    ...[score, ...categories.map((category) => of[category]), next].map(figure),
  ]);
  yield* viewTable(["policy", "summarizer", "score", ...categories, "next call"], cells, { colours });
  yield "";
  const lost = rows.flatMap((row) => row.lost.map((probe) => ({ row, probe })));
  for (const { row, probe } of lost.slice(0, LISTED_QUESTIONS))
    yield plainLine(
      `  lost ${row.policy ?? "at once"}, ${row.summarizer}, ${probe.category}: ${probe.question}`,
    );
  if (lost.length > LISTED_QUESTIONS)
    yield colours.dim(`  … and ${lost.length - LISTED_QUESTIONS} more; --json lists all`);
  const { unquoted, unreadable, inTail, ungraded } = dropped;
  yield colours.dim(
    `Score without any history ${figure(empty)}, with the whole history ${figure(full)}. Questions left out: ${unquoted} without a literal quotation, ${unreadable} unreadable, ${inTail} that the kept messages answer, ${ungraded} without an answer or a grade.`,
  );
  if (rubbish > 0)
    yield colours.yellow(
      `${formatMany(rubbish, "answer")} of the judge could not be read, even after a retry; they are not counted.`,
    );
  const cost = spent.cost === null ? "of unknown price" : formatCost(spent.cost);
  yield colours.dim(
    `${formatMany(spent.requests, "request")}, ${formatCount(spent.tokens)} tokens, ${cost}.`,
  );
}

function* viewFallen(rows: readonly { session: string; row: DetailedRow }[], colours: Shell["colours"]) {
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
  return column === "invented" ? figure.toFixed(1) : figure.toFixed(2);
}
