// Separate from program.ts: each group of commands has a file.
import { type ExecException, exec } from "node:child_process";
import { readdirSync } from "node:fs";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import {
  missingKey,
  openSession,
  POLICY_NAMES,
  type PolicyName,
  providerNamed,
  type Session,
} from "@espalier/engine";
// Only types: the evaluation is loaded when it is used.
import type {
  Column,
  EvaluatedSession,
  EvaluateOptions,
  JudgedSession,
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

type Evaluation = typeof import("@espalier/engine/eval");

const parseTokens = numberParser(isWhole, "a whole number of tokens, for example 6000");
const parseSeed = numberParser((seed) => isWhole(seed, 0, 2 ** 32 - 1), "a whole number, for example 7");
const parseDollars = numberParser(
  (dollars) => dollars > 0 && Number.isFinite(dollars),
  "US dollars above 0, for example 1.50",
);

interface Limit {
  kind: "floor" | "ceiling";
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
    collectLimits("floor"),
  ],
  [
    "--ceiling <column=figure>",
    "exit 1 if the column's mean is above the figure, for example dump=0.2; repeatable",
    collectLimits("ceiling"),
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
    const evaluation = await import("@espalier/engine/eval");
    const limits = [...(options.floor ?? []), ...(options.ceiling ?? [])].map((limit) => ({
      ...limit,
      column: knownColumn(limit.column, evaluation.COLUMNS),
    }));
    const sessions = await sessionsOf(shell, refs);
    const { policy = POLICY_NAMES, summarizerCommand: line, keepRecent, html } = options;
    const named = await namedSummarizer(shell);
    const judge = await judgeOf(shell, options);
    const plan: EvaluateOptions = {
      policies: POLICY_NAMES.filter((name) => policy.includes(name)),
      summarizers: [...(named ? [named] : []), ...(line === undefined ? [] : [commandSummarizer(line)])],
      ...given({ keepTokens: keepRecent, judge }),
    };
    await tellCost(shell, options, sessions, plan, named);
    const report = await interruptible(shell, "The evaluation", ({ signal }, tell) =>
      evaluation.evaluate(sessions, { ...plan, signal, onProgress: (_done, _total, what) => tell(what) }),
    );
    const page =
      html === undefined
        ? undefined
        : writeExport(html, onePiece(evaluation.reportPage(report)), "--html").file;
    const failures = report.mean.flatMap((row) => [
      ...new Set(limits.flatMap((limit) => failureOf(row, limit) ?? [])),
    ]);
    if (failures.length > 0 || report.mean.length === 0) shell.exitCode = 1;
    const value = { ...report, failures, html: page };
    return { value, lines: viewReport(value, evaluation, shell) };
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
async function judgeOf(shell: Shell, { judge: name, maxCost, seed }: EvalOptions) {
  if (name === undefined) return undefined;
  const { values: settings } = await currentSettings(shell);
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
  const forecasts = [
    named && {
      who: `summarizer ${named.name}`,
      model: named.model,
      of: sessions.map(({ messages }) => forecastSummaries(messages, policies.length, keepTokens)),
    },
    judge && {
      who: `judge ${judgeName}`,
      model: judge.provider,
      of: sessions.map(({ messages }) => forecastJudgement(messages, summaries, { ...judge, keepTokens })),
    },
  ].filter((forecast) => forecast !== undefined);
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
      `The ${who} gets about ${formatMany(sum("requests"), "request")} with about ${formatCount(input + output)} tokens: ${told}.`,
    );
  }
  if (maxCost !== undefined && unpriced.length > 0)
    throw new EspalierError(
      "bad-input",
      `No price is known for the ${unpriced.join(" and the ")}, so --max-cost cannot be enforced; add the price to the setting \`prices\`, or omit --max-cost.`,
    );
  const all = forecasts.map(({ who }) => who).join(" and the ");
  if (maxCost !== undefined && total > maxCost)
    throw new EspalierError(
      "over-budget",
      `The ${all} would cost about ${formatCost(total)}, more than --max-cost of ${formatCost(maxCost)}; no model was called. Raise the limit, or choose fewer sessions or policies.`,
    );
  if (maxCost === undefined && shell.interactive && !(await confirmOnTerminal("Continue?")))
    throw new CommandError("aborted", "No model was called, and nothing was spent.");
}

function collectLimits(kind: Limit["kind"]) {
  return (text: string, given: Limit[] = []): Limit[] => {
    const [, column, figure] = /^([a-z]+)=(\d+(?:\.\d+)?|\.\d+)$/.exec(text) ?? [];
    if (column === undefined)
      throw new InvalidArgumentError("Expected a column and a figure, for example found=0.8");
    return [...given, { kind, column, figure: Number(figure) }];
  };
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
function failureOf(row: Row, { kind, column, figure }: Limit & { column: Column }): string | undefined {
  if (row.isControl || row.policy === null) return undefined;
  const measured = row[column];
  const where = `under ${row.policy} with ${row.summarizer}`;
  if (row.rounds === 0) return `Nothing was measured ${where}.`;
  if (measured === null)
    return `${column} has no figure ${where}, so its ${kind} of ${figure} cannot be checked.`;
  if (kind === "floor" ? measured >= figure : measured <= figure) return undefined;
  const passed = kind === "floor" ? "below" : "above";
  return `${column} is ${measured} ${where}: ${passed} its ${kind} of ${figure}.`;
}

/** Returns the messages on the leaf's path of a session. Messages that a compaction replaced are included. */
const evaluated = (file: string, session: Session): EvaluatedSession => ({
  name: basename(file, ".jsonl"),
  messages: session.getBranch().flatMap((entry) => (message.is(entry) ? [entry.message] : [])),
});

/** Reads the named sessions; without names, the demo session and those that were written for the project. */
async function sessionsOf(shell: Shell, refs: readonly string[]): Promise<EvaluatedSession[]> {
  const sessions: EvaluatedSession[] = [];
  for (const ref of refs)
    sessions.push(await withSession(shell, "tree", ref, async (session) => evaluated(ref, session)));
  if (refs.length > 0) return sessions;
  const folder = fileURLToPath(new URL("assets/sessions/", import.meta.url));
  for (const file of ["../demo-session.jsonl", ...readdirSync(folder).sort()]) {
    const session = await openSession({ file: join(folder, file) }, { mode: "read" });
    try {
      sessions.push(evaluated(file, session));
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
      const running = promisify(exec)(line, { signal, maxBuffer: Number.POSITIVE_INFINITY });
      const { stdin } = running.child;
      // A program that does not read its input may close stdin early.
      stdin?.on("error", () => undefined);
      stdin?.end(JSON.stringify({ messages, previousSummary, instructions }));
      try {
        return (await running).stdout;
      } catch (error) {
        signal?.throwIfAborted();
        const { code, signal: killer, stderr = "" } = error as ExecException;
        const reason = plainLine(stderr.trim().split("\n").at(-1) ?? "") || "it printed no reason";
        throw summaryError("failed", `The summarizer command ended with ${code ?? killer}: ${reason}.`);
      }
    },
    { name: "command" },
  );
}

/** Number of columns of the first of two tables, where one table is wider than the terminal. */
const NARROW_PART = 7;

/** Draws a report for people: the mean of all sessions as a table, and notes on the limits of the figures. */
function* viewReport(
  { mean, sessions, judged = [], failures, html }: Report & { failures: string[]; html: string | undefined },
  evaluation: Evaluation,
  { colours, columns: width }: Look,
): Generator<string> {
  const { COLUMNS, figureText } = evaluation;
  const measured = sessions.filter(({ skipped }) => skipped === null);
  if (measured.length > 0) {
    const names = measured.map(({ session }) => plainLine(session)).join(", ");
    yield colours.bold(
      measured.length === 1 ? names : `Mean of ${formatMany(measured.length, "session")}: ${names}`,
    );
    // Controls under policies are in --json and on the page.
    const shown = mean.filter(({ isControl, policy }) => !isControl || policy === null);
    const parts = width < WIDE ? [COLUMNS.slice(0, NARROW_PART), COLUMNS.slice(NARROW_PART)] : [COLUMNS];
    for (const part of parts) {
      const cells = shown.map((row) => [
        row.policy ?? "at once",
        row.isControl ? `(${row.summarizer})` : row.summarizer,
        ...part.map((column) => figureText(column, row[column])),
      ]);
      yield "";
      yield* viewTable(["policy", "summarizer", ...part], cells, { colours });
    }
  }
  for (const { session, skipped } of sessions)
    if (skipped !== null) yield colours.yellow(`${plainLine(session)}: ${skipped}`);
  for (const { session, unmeasured } of measured)
    if (unmeasured !== null) yield colours.dim(`${plainLine(session)}: ${unmeasured}`);
  const real = measured.flatMap(({ session, rows }) =>
    rows.filter(({ isControl }) => !isControl).map((row) => ({ session, ...row })),
  );
  const fallen = real.flatMap(({ session, policy, summarizer: by, ruleFigures }) =>
    (policy === null ? [] : ruleFigures.fallen).map(
      ({ text, stated, fell }) =>
        `${session}, ${policy} with ${by}, round ${fell} (stated in ${stated}): ${text.slice(0, 80)}`,
    ),
  );
  if (fallen.length > 0) {
    yield "";
    yield colours.bold(`Rules that the model no longer reads: ${formatCount(fallen.length)}`);
    yield* viewFirst(8, fallen, colours);
  }
  for (const { session, policy, summarizer: by, problem } of real)
    if (problem !== null)
      yield colours.yellow(plainLine(`${session}, ${policy ?? "at once"} with ${by}: ${problem}`));
  for (const session of judged) yield* viewJudged(session, evaluation, colours);
  for (const failure of failures) yield colours.red(failure);
  if (html === undefined) return;
  yield "";
  yield `The page is ${plainLine(html)}.`;
}

/** Draws the judgement of one session: scores, lost answers, and left-out questions. */
function* viewJudged(
  judged: JudgedSession,
  { judgedTable }: Evaluation,
  colours: Shell["colours"],
): Generator<string> {
  const { session, judge, probes, rubbish, empty, full, rows, spent } = judged;
  yield "";
  yield colours.bold(plainLine(`${session}, judged by ${judge}: ${formatMany(probes, "question")}`));
  yield "";
  const { headings, lines, leftOut } = judgedTable(judged);
  yield* viewTable(headings, lines, { colours });
  yield "";
  const lost = rows.flatMap(({ policy, summarizer: by, lost: of }) =>
    of.map(({ category, question }) => `lost ${policy ?? "at once"}, ${by}, ${category}: ${question}`),
  );
  yield* viewFirst(12, lost, colours);
  yield colours.dim(
    `Score without any history ${empty?.toFixed(2) ?? "–"}, with the whole history ${full?.toFixed(2) ?? "–"}. Questions left out: ${leftOut}`,
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

/** Draws the first `most` lines of a list, and the number of the others. */
function* viewFirst(most: number, lines: readonly string[], colours: Shell["colours"]): Generator<string> {
  for (const line of lines.slice(0, most)) yield `  ${plainLine(line)}`;
  if (lines.length > most) yield colours.dim(`  … and ${lines.length - most} more; --json lists all`);
}
