import { setTimeout } from "node:timers/promises";
import {
  type BranchComparison,
  type BranchSide,
  compareBranches,
  type Diagnosis,
  type HistoryHit,
  historyOf,
  othersMayRead,
  type PolicyComparison,
  paced,
  type RepairReport,
  type ReplayStep,
  repairSession,
  type Session,
} from "@espalier/engine";
import { isBookkeepingAt } from "@espalier/session-tree";
import { InvalidArgumentError } from "commander";
import { type SessionCall, sessionCommand } from "../command.ts";
import { entryLine, previewEntry, WIDE } from "../entry-preview.ts";
import { entryName, entryNamed, existingEntry } from "../entry-reference.ts";
import { CommandError } from "../failure.ts";
import { formatChange, formatCount, formatMany, formatPrice, formatTime, parseCount } from "../numbers.ts";
import { currentSettings } from "../opening.ts";
import { jsonLine, print, printLine, printStep, printWrapped, type Shell } from "../shell.ts";
import { viewTable } from "../table.ts";
import { aroundMatch, columnsOf, cutToColumns, padToColumns, plainLine, plainText } from "../text.ts";
import { costCommands } from "./costs.ts";

const diff = sessionCommand({
  usage: "diff <session> <a> <b>",
  description: "compare two branches from their common ancestor: entries, messages, tokens, cost, files",
  options: [["--all", "show bookkeeping too; by default it is only counted (JSON has it all)"]],
  examples: [
    "espalier diff session.jsonl leaf http-cache-dead-end",
    "espalier diff session.jsonl a1B2 c3D4 --json | jq .a.files",
  ],
  use: "tree",
  async run({ session, shell, options }: SessionCall<DiffOptions>, a: string, b: string) {
    const { prices } = (await currentSettings(shell)).values;
    const [first, second] = [entryNamed(session, a), entryNamed(session, b)];
    const comparison = compareBranches(session.tree, first, second, { prices });
    const sideValue = (side: BranchSide) => ({ ...side, estimated: side.estimated > 0 });
    const value = { ...comparison, a: sideValue(comparison.a), b: sideValue(comparison.b) };
    return { value, lines: viewDiff(session, comparison, shell, options) };
  },
});

interface DiffOptions {
  /** True: a line for every entry, bookkeeping included. */
  all?: boolean;
}

/** Draws two branches for people: their last common entry, the size of each, and the messages of each. */
function* viewDiff(
  session: Session,
  { commonAncestorId, a, b }: BranchComparison,
  { colours, columns }: Pick<Shell, "colours" | "columns">,
  { all = false }: DiffOptions,
): Generator<string> {
  const width = Math.min(columns, WIDE);
  yield colours.bold(
    commonAncestorId === null ? "The branches have no entry in common." : "Their last common entry:",
  );
  if (commonAncestorId !== null) yield entryLine(session, commonAncestorId, width);
  yield "";
  const row = (name: string, cell: (side: BranchSide) => string) => [name, cell(a), cell(b)];
  yield* viewTable(
    [
      "",
      ...[a, b].map(({ leafId }) => plainLine(leafId === null ? "start" : entryName(session.tree, leafId))),
    ],
    [
      row("entries", ({ entryIds }) => formatCount(entryIds.length)),
      row("messages", ({ messages }) => formatCount(messages)),
      row("tokens", ({ tokens }) => formatCount(tokens)),
      row("cost", formatPrice),
      row("files", ({ files }) => formatCount(files.length)),
    ],
    { colours, columns },
  );
  for (const side of [a, b]) yield* sideLines(session, side, { colours, width, all });
}

function* sideLines(
  session: Session,
  { leafId, entryIds, files }: BranchSide,
  { colours, width, all }: { colours: Shell["colours"]; width: number; all: boolean },
): Generator<string> {
  const { tree } = session;
  const shown = all ? entryIds : entryIds.filter((id) => !isBookkeepingAt(tree, tree.row(id)));
  const leftOut = entryIds.length - shown.length;
  yield "";
  yield colours.bold(
    `Only on the branch of ${plainLine(leafId === null ? "start" : entryName(tree, leafId))}:`,
  );
  if (entryIds.length === 0) yield "  nothing";
  for (const id of shown) yield `  ${entryLine(session, id, width - 2)}`;
  if (leftOut > 0)
    yield colours.dim(
      `  ${formatMany(leftOut, "entry", "entries")} of bookkeeping; --all shows ${leftOut === 1 ? "it" : "them"}`,
    );
  for (const file of files) yield colours.cyan(cutToColumns(`  file ${plainLine(file)}`, width));
}

const policies = sessionCommand({
  usage: "policies <session>",
  description: "compare the effect of each compaction policy on a session; calls no model, writes nothing",
  notes:
    "Each policy counts tokens in its own way, so compare tokens only within a row. A call is one request to a summarizer. `anew` is the number of tokens that the next request writes to the prompt cache, as the provider counts. `pays back` is the number of calls after which smaller requests have saved this cost.",
  examples: ["espalier policies session.jsonl"],
  use: "plan",
  async run({ session, shell }: SessionCall<object>) {
    const rows = session.comparePolicies();
    return { value: rows, lines: viewPolicies(rows, shell) };
  },
});

const HEADINGS = ["policy", "messages", "tokens", "summarised", "kept", "calls", "anew", "pays back"];

/** Width in columns of the whole table. On a narrower terminal `kept` is left out, which follows from `messages`. */
const ALL_CELLS = 90;

/** Draws one table with the effect of each policy on a session, for people. */
function* viewPolicies(
  policies: readonly PolicyComparison[],
  { colours, columns }: Pick<Shell, "colours" | "columns">,
): Generator<string> {
  const shown = (cells: readonly string[]) =>
    cells.filter((_, column) => columns >= ALL_CELLS || HEADINGS[column] !== "kept");
  const rows = policies.map((policy) => shown(cellsOf(policy)));
  yield* viewTable(shown(HEADINGS), rows, { colours, columns });
  const idle = policies.filter(({ eligible }) => !eligible);
  if (idle.length > 0) yield "";
  for (const { policy, reason } of idle) yield colours.dim(plainLine(`${policy}: ${reason}`));
}

function cellsOf(row: PolicyComparison): string[] {
  const { policy, eligible, messagesBefore, messagesAfter, tokensBefore, tokensAfter, summarised, calls } =
    row;
  const { anew = 0, paysBackAfter = null } = row.cache ?? {};
  const change = (before: number, after: number) => formatChange(before, eligible ? after : null);
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

interface ReplayOptions {
  until?: string;
  speed?: number;
  verify?: boolean;
}

const replay = sessionCommand({
  usage: "replay <session>",
  description: "replay a session entry by entry: the leaf, and the context that the model read",
  options: [
    ["--until <id>", "stop after this entry"],
    [
      "--speed <factor>",
      "replay at the recorded speed times this factor; pauses last two seconds at most",
      parseSpeed,
    ],
    ["--verify", "build the context of every step from scratch and compare; exit 1 if one differs"],
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
        `${formatMany(differing, "step")} of ${formatCount(steps)} differ from a context built from scratch.`,
      );
    if (!shell.json) await printLine(shell, closingLine(steps, options));
  },
});

const history = sessionCommand({
  usage: "history <session> <query>",
  description: "search the original messages, including those that a summary replaces in the context",
  options: [["--limit <count>", "show at most this many, the newest", parseCount]],
  notes: `A message matches if it contains all words of the query, in any case and order. Messages that a compaction covers and
messages of other branches are searched too, and marked. The tool query_history gives a model the same search.`,
  examples: [
    'espalier history session.jsonl "cache key"',
    "espalier history session.jsonl etag --limit 3 --json | jq -r .text",
  ],
  use: "read",
  async run({ session, shell, options: { limit } }: SessionCall<{ limit?: number }>, query: string) {
    const hits = historyOf(session, { query, ...(limit === undefined ? {} : { limit }) });
    if (!shell.json) return printWrapped(shell, viewHistory(session, hits, query, shell));
    for (const hit of hits) await shell.output.writeLine(jsonLine(historyValue(hit)));
  },
});

const historyValue = ({ entryId, text, covered, onPath }: HistoryHit): object => ({
  entryId,
  text,
  covered,
  onPath,
});

/** Maximum number of lines of a message, and of columns of a line. */
const SHOWN = 6;
const LINE_LENGTH = 200;

/**
 * Draws original messages for people: id, role, whether the model still reads them, and their first lines, or those
 * around the line with the most words of the query.
 */
function* viewHistory(
  { tree }: Session,
  hits: readonly HistoryHit[],
  query: string,
  { colours }: Pick<Shell, "colours">,
): Generator<string> {
  if (hits.length === 0) yield "No message matches.";
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  const wordsIn = (line: string) => words.filter((word) => line.toLowerCase().includes(word));
  for (const [at, { entryId, role, text, timestamp, covered, onPath }] of hits.entries()) {
    if (at > 0) yield "";
    const facts = [
      entryName(tree, entryId),
      formatTime(timestamp),
      covered ? "covered by a summary" : "",
      onPath ? "" : "on another branch",
    ].filter((fact) => fact !== "");
    yield `${colours.cyan(plainLine(role))} ${colours.dim(plainLine(facts.join(" · ")))}`;
    const lines = plainText(text)
      .replace(/^(?:[ \t]*\n)+/, "")
      .split("\n");
    const found = lines.map((line) => wordsIn(line).length);
    const best = found.indexOf(Math.max(...found));
    const from = best < SHOWN ? 0 : best - 1;
    if (from > 0) yield colours.dim(`  … ${formatMany(from, "line")} before`);
    for (const line of lines.slice(from, from + SHOWN))
      yield `  ${aroundMatch(line, wordsIn(line)[0] ?? "", LINE_LENGTH)}`;
    const after = lines.length - from - SHOWN;
    if (after > 0) yield colours.dim(`  … ${formatMany(after, "more line")}`);
  }
}

/** Read-only analyses of a session. */
export const reportCommands = [diff, ...costCommands, policies, replay, history] as const;

function closingLine(steps: number, { verify = false }: ReplayOptions): string {
  const all = formatMany(steps, "step");
  return verify ? `${all}, each equal to a context built from scratch.` : `${all}.`;
}

async function play(shell: Shell, session: Session, { until, speed, verify = false }: ReplayOptions) {
  const last = until === undefined ? {} : { until: existingEntry(session, until) };
  const steps = session.replay({ ...last, verify });
  const played = { steps: 0, differing: 0 };
  for await (const step of speed === undefined ? steps : paced(steps, session.tree, speed, setTimeout)) {
    played.steps++;
    if (step.verified === false) played.differing++;
    await printStep(shell, step, () => viewStep(session, step, shell));
    // With a pace, each step must appear when it happens.
    if (speed !== undefined) await shell.output.flush();
  }
  return played;
}

function parseSpeed(text: string): number {
  const speed = Number(text);
  if (!(speed > 0)) throw new InvalidArgumentError("expected a number above 0, for example 10");
  return speed;
}

/** Width in columns of a step's entry and of its type; longer ones are cut. */
const ID_WIDTH = 12;
const TYPE_WIDTH = 14;

/** Minimum width in columns of the text of an entry, even if the line becomes too long. */
const NARROWEST = 10;

/** Draws one step of a replay as one line: its entry, the size of the context, the leaf, and the text of the entry. */
export function viewStep(
  session: Session,
  { seq, entryId, type, leafId, contextMessages, contextTokens, verified }: ReplayStep,
  { colours, columns }: Pick<Shell, "colours" | "columns">,
): string {
  const facts = [
    formatCount(seq).padStart(6),
    cell(entryId, ID_WIDTH),
    cell(type, TYPE_WIDTH),
    formatMany(contextMessages, "message").padStart(14),
    formatMany(contextTokens, "token").padStart(16),
  ].join(" ");
  const mark = verified === false ? " differs" : "";
  const moved = leafId === entryId ? "" : `leaf ${leafId ?? "before the first entry"}`;
  const entry = session.getEntry(entryId);
  const said = plainLine(`${moved} ${(entry && previewEntry(entry)) ?? ""}`);
  const room = columns - columnsOf(facts + mark) - 2;
  return `${facts}${colours.red(mark)}  ${colours.dim(cutToColumns(said, Math.max(NARROWEST, room)))}`;
}

/** Ids and types come from the session's author: they may have any length and any characters. */
const cell = (text: string, columns: number): string =>
  padToColumns(cutToColumns(plainLine(text), columns), columns);

/** Command that checks the file of a session. */
export const doctor = sessionCommand({
  usage: "doctor <session>",
  description: "check every line and report errors with line and offset; exit 1 if there are any",
  options: [["--repair <file>", "write a healed copy to this file, and a report next to it"]],
  examples: ["espalier doctor session.jsonl", "espalier doctor session.jsonl --repair healed.jsonl"],
  use: "read",
  async run({ session, shell, ref, options: { repair } }: SessionCall<{ repair?: string }>) {
    if (repair !== undefined) {
      const report = await repairSession(session.log, repair);
      return { value: report, lines: viewRepair(report) };
    }
    if (othersMayRead(session.file))
      shell.complain(`Other users of this machine can read ${session.file}; \`chmod 600\` prevents this.`);
    const diagnosis = session.diagnose();
    if (!diagnosis.ok) shell.exitCode = 1;
    await print(shell, diagnosis, viewDiagnosis(shell, diagnosis));
    if (!diagnosis.ok && !shell.json)
      shell.complain(`\`espalier doctor ${ref} --repair <file>\` writes a healed copy.`);
  },
});

function* viewDiagnosis({ colours }: Shell, { ok, entries, issues }: Diagnosis): Generator<string> {
  for (const { kind, line, offset, id, message } of issues) {
    const byte = `byte ${formatCount(offset)}`;
    const place = line === null ? byte : `line ${formatCount(line)}, ${byte}`;
    yield `${colours.yellow(kind.padEnd(18))} ${colours.dim(place)} ${plainLine(id ? `${id}: ${message}` : message)}`;
  }
  const usable = `${formatMany(entries, "entry", "entries")} can be used`;
  yield ok
    ? colours.green(`The session is sound: ${usable}.`)
    : `${usable}; ${formatMany(issues.length, "issue")}.`;
}

function* viewRepair({ file, report, entries, issues, changes, lost }: RepairReport): Generator<string> {
  const bytes = lost.reduce((sum, { length }) => sum + length, 0);
  yield `The healed copy is ${file}: ${formatMany(entries, "entry", "entries")}, ${formatMany(issues.length, "issue")} repaired.`;
  yield `${formatMany(changes.length, "change")} to readable lines; ${formatMany(bytes, "byte")} were lost.`;
  yield `The report is in ${report}; the session itself was only read.`;
}
