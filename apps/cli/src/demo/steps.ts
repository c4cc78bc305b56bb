import { setTimeout } from "node:timers/promises";
import type { NothingToCompact } from "@espalier/compaction";
import { openSession, type Session } from "@espalier/engine";
import { EspalierError } from "@espalier/jsonl-stream";
import {
  branchSummary,
  compaction,
  type Entry,
  FORMAT_VERSION,
  isMessage,
  isOnPath,
  labelsInForce,
  pathRows,
  rowsOf,
  type SessionContext,
} from "@espalier/session-tree";
import { hiddenBy } from "../commands/context.ts";
import { sessionHeading, treeLines } from "../commands/tree.ts";
import { previewMessage } from "../entry-preview.ts";
import { formatCount, formatMany } from "../numbers.ts";
import { interruptible } from "../progress.ts";
import { type Colours, jsonLine, printLine, printLines, type Shell } from "../shell.ts";
import { cutToColumns, padToColumns, plainLine, plainText } from "../text.ts";

/** Lines of a summary that a step shows. */
const SUMMARY_LINES = 12;
const sizeOf = ({ messages, tokens }: SessionContext) => ({ messages: messages.length, tokens });

export async function showTree(stage: DemoStage, { colours }: Shell, session: Session): Promise<void> {
  await stage.show(
    "A session is a tree",
    "Every branch is a way it went; the bright one leads to the leaf (*).",
    { entries: session.tree.length, branches: session.branches().length, leafId: session.leafId },
    [...sessionHeading(session, colours), "", ...screenfulTree(session, colours, stage.columns)],
  );
}

export async function showContext(stage: DemoStage, session: Session): Promise<void> {
  const { context, leafId } = session;
  const hidden = hiddenBy(session, leafId, context);
  await stage.show(
    "The model reads one path of it",
    "Other branches are not in it; what a compaction stands for is a summary.",
    { leafId, ...sizeOf(context) },
    [...contextOutline(context, stage.columns - 1), ...(hidden ? ["", hidden] : [])],
  );
}

export async function showNavigation(stage: DemoStage, session: Session, place: DemoPlace): Promise<void> {
  const { leafId, header } = session;
  const wasOld = header !== undefined && header.version < FORMAT_VERSION;
  const before = session.context;
  const bytes = bytesOf(session);
  await session.navigate(place.id);
  const width = columnWidth(stage.columns);
  const grown = bytesOf(session) - bytes;
  await stage.show(
    `Go back to ${nameOf(place)}`,
    "That appends one line and removes nothing: the way back stays.",
    {
      from: leafId,
      to: session.leafId,
      before: sizeOf(before),
      after: sizeOf(session.context),
      bytesAppended: grown,
    },
    [
      ...sideBySide(
        { title: `before: ${leafId}`, lines: contextOutline(before, width) },
        { title: `after: ${session.leafId}`, lines: contextOutline(session.context, width) },
        stage.columns,
      ),
      "",
      wasOld
        ? "The copy had an old format: it was brought up to date first, and its first form is kept beside it."
        : `The file grew by ${formatMany(grown, "byte")}.`,
    ],
  );
  await session.undo();
}

export async function showSummary(
  stage: DemoStage,
  shell: Shell,
  session: Session,
  place: DemoPlace,
): Promise<void> {
  const without = session.contextAt(place.id);
  const arrival = await interruptible(shell, "The summary", (act) =>
    session.navigate(place.id, { summarize: true, ...act }),
  );
  const { context } = session;
  const width = columnWidth(stage.columns);
  const entry = arrival.summaryEntryId === null ? undefined : session.getEntry(arrival.summaryEntryId);
  const summary = entry && branchSummary.is(entry) ? entry.summary : "";
  await stage.show(
    "Go there again, and take along what was learnt",
    "The branch that is left is summarised here, so nothing is found out twice.",
    { summaryEntryId: arrival.summaryEntryId, without: sizeOf(without), with: sizeOf(context), summary },
    [
      ...sideBySide(
        { title: "without a summary", lines: contextOutline(without, width) },
        { title: "with it", lines: contextOutline(context, width) },
        stage.columns,
      ),
      "",
      ...beginningOf(summary, stage.columns),
    ],
  );
}

/** Steps that are built anew, too: to verify one costs as much as the path is long. */
const VERIFIED = 2_000;

const PROOF: Record<string, string> = {
  true: "each equal to a new build",
  false: "some of them differ from a new build",
  null: "too many to build each again here; `espalier replay --verify` does",
};

export async function showFork(
  stage: DemoStage,
  session: Session,
  place: DemoPlace,
  out: string | undefined,
): Promise<void> {
  const fork = await session.fork(place.id, out === undefined ? {} : { out });
  const copy = await openSession({ file: fork.file }, { mode: "read", store: session.store });
  try {
    await copy.load();
    const verify = copy.tree.length <= VERIFIED;
    const tokens: number[] = [];
    let differing = 0;
    for (const step of copy.replay({ verify })) {
      if (step.verified === false) differing++;
      tokens.push(step.contextTokens);
    }
    const steps = tokens.length;
    const verified = verify ? differing === 0 : null;
    await stage.show(
      "Fork there, and play the fork back",
      "A fork is a file of its own; played back, it shows how its context grew.",
      { file: fork.file, id: fork.id, leafId: fork.leafId, steps, verified },
      [
        `the fork    ${fork.file}`,
        `its size    ${formatMany(bytesOf(copy), "byte")} (the session it is from: ${formatCount(bytesOf(session))})`,
        `the context ${sparkline(tokens, Math.min(60, stage.columns - 40))}  ${formatCount(tokens.at(-1) ?? 0)} tokens`,
        `replayed    ${formatMany(steps, "step")}, ${PROOF[String(verified)]}`,
      ],
    );
  } finally {
    await copy.close();
  }
}

export async function showCompaction(stage: DemoStage, shell: Shell, session: Session): Promise<void> {
  // Back to where the session was before anybody went anywhere.
  await session.undo();
  const before = session.context;
  const keepRecentTokens = Math.min(20_000, Math.floor(before.tokens / 3));
  const result = await interruptible(shell, "The compaction", (act) =>
    session.compact({ settings: { keepRecentTokens }, ...act }).catch(notWorthIt),
  );
  const title = "Compact it";
  const notice = "A summary stands for the older part; that part itself stays in the file.";
  if (!result.eligible) {
    await stage.show(title, notice, { eligible: false, reason: result.reason }, [result.reason]);
    return;
  }
  const { entryId, summary, source, firstKeptEntryId } = result;
  const width = columnWidth(stage.columns);
  await stage.show(
    title,
    notice,
    { entryId, firstKeptEntryId, source, before: sizeOf(before), after: sizeOf(session.context), summary },
    [
      ...sideBySide(
        { title: "before", lines: contextOutline(before, width) },
        { title: `after (summary by ${source})`, lines: contextOutline(session.context, width) },
        stage.columns,
      ),
      "",
      ...beginningOf(summary, stage.columns),
    ],
  );
}

/** A session of a few words is no smaller as a summary; that is an answer here. */
function notWorthIt(error: unknown): NothingToCompact {
  if (error instanceof EspalierError && error.code === "no-smaller")
    return { eligible: false, reason: error.message };
  throw error;
}

/** Bytes of a session that was loaded. */
const bytesOf = ({ tree }: Session): number => tree.view.size;
const nameOf = ({ id, label }: DemoPlace): string => (label === undefined ? id : `“${plainText(label)}”`);

function beginningOf(summary: string, columns: number): string[] {
  const lines = plainText(summary)
    .split("\n")
    .filter((line) => line.trim() !== "");
  const shown = lines.slice(0, SUMMARY_LINES).map((line) => cutToColumns(line, columns - 3));
  const left = lines.length - shown.length;
  return [...shown, ...(left > 0 ? [`… ${formatMany(left, "more line")}`] : [])].map((line) => `  ${line}`);
}

/** Target of the demo: an entry, and its label. */
interface DemoPlace {
  id: string;
  /** Its label; undefined where the session has none that would do. */
  label: string | undefined;
}

/**
 * A place worth going to: the first labelled entry on the leaf's path that something follows; without one, the end of
 * a turn in the middle of the path. Undefined when there is nothing behind the leaf.
 */
export function demoPlace({ tree, leafId }: Session): DemoPlace | undefined {
  if (leafId === null) return undefined;
  const leafRow = tree.row(leafId);
  for (const [id, { label }] of labelsInForce(tree)) {
    if (tree.has(id) && tree.row(id) < leafRow && isOnPath(tree, tree.row(id), leafRow)) return { id, label };
  }
  const path = pathRows(tree, leafRow);
  const middle = Math.floor(path.length / 2);
  const turnEnds = path.flatMap((row, at) =>
    at > 0 && isMessage(tree.entryAt(row), "user") ? [path[at - 1]!] : [],
  );
  const row = turnEnds.find((end) => end >= path[middle]!) ?? turnEnds.at(-1) ?? path[middle]!;
  return row < leafRow ? { id: tree.idAt(row), label: undefined } : undefined;
}

/** Milliseconds a reader gets for each step on a terminal. */
const PAUSE = 1_200;

/** Output of the demo's steps: a heading, a remark, and lines to see. */
export interface DemoStage {
  /** Columns there are. */
  readonly columns: number;
  /**
   * @param title what the step does
   * @param notice what a newcomer should see in it, in one sentence
   * @param facts what a program is told of it
   */
  show(title: string, notice: string, facts: object, lines: Iterable<string>): Promise<void>;
}

/** Columns where no terminal says how many there are. */
const PAGE = 100;

export function openStage(shell: Shell): DemoStage {
  const { colours, output, json } = shell;
  const isTerminal = Number.isFinite(shell.columns);
  const columns = isTerminal ? shell.columns : PAGE;
  let step = 0;
  return {
    columns,
    async show(title, notice, facts, lines) {
      step++;
      if (json) return output.writeLine(jsonLine({ step, title, ...facts }));
      if (step > 1 && isTerminal) await setTimeout(PAUSE);
      await printLine(shell, `\n${colours.bold(colours.cyan(`${step}. ${title}`))}`);
      await printLine(shell, `   ${colours.italic(notice)}\n`);
      await printLines(shell, lines);
      await output.flush();
    },
  };
}

/** Lines below which a drawing has room for what users said. */
const SPARSE = 16;

/** Lines of a drawing at the most. */
const SCREEN = 40;

/**
 * A session's tree on about one screen: labels, summaries, partings and ends, and all else folded; where that leaves
 * next to nothing, as in a session without branches, every so many words of the user too.
 */
function screenfulTree(session: Session, colours: Colours, width: number): string[] {
  const draw = (standsOut: (entry: Entry) => boolean) => [
    ...treeLines(session, colours, { fold: 1, standsOut, width }),
  ];
  let lines = draw(isSummary);
  if (lines.length < SPARSE) {
    const said = new Set(sample([...userIds(session)], SPARSE - lines.length));
    lines = draw((entry) => isSummary(entry) || said.has(entry.id));
  }
  const left = lines.length - SCREEN;
  return left > 0 ? [...lines.slice(0, SCREEN), `… ${left} more lines`] : lines;
}

const isSummary = (entry: Entry): boolean => compaction.is(entry) || branchSummary.is(entry);

function* userIds({ tree }: Session): Generator<string> {
  for (const [, entry] of rowsOf(tree, "message")) if (isMessage(entry, "user")) yield entry.id;
}

/** At most `count` of them, evenly spread. */
function sample(ids: readonly string[], count: number): string[] {
  const step = Math.max(1, Math.ceil(ids.length / count));
  return ids.filter((_, at) => at % step === 0);
}

const GAP = " │ ";

/** Two texts beside one another, each under its title. */
function* sideBySide(
  left: { title: string; lines: readonly string[] },
  right: { title: string; lines: readonly string[] },
  columns: number,
): Generator<string> {
  const width = columnWidth(columns);
  const height = Math.max(left.lines.length, right.lines.length);
  yield row(left.title, right.title, width);
  yield `${"─".repeat(width)}─┼─${"─".repeat(width)}`;
  for (let at = 0; at < height; at++) yield row(left.lines[at] ?? "", right.lines[at] ?? "", width);
}

/** Columns of one of the two texts. */
function columnWidth(columns: number): number {
  return Math.max(16, Math.floor((Math.min(columns - 1, 140) - GAP.length) / 2));
}

function row(left: string, right: string, width: number): string {
  return `${padToColumns(cutToColumns(left, width), width)}${GAP}${cutToColumns(right, width)}`.trimEnd();
}

/** Messages that an outline names at its beginning and at its end. */
const ENDS = 4;

/** A context in a few lines: what it comes to, its first and its last messages. */
function contextOutline({ messages, tokens }: SessionContext, width: number): string[] {
  const lines = messages.map((message) => () => {
    const role = ROLES[message.role] ?? plainLine(message.role);
    return cutToColumns(`${role.padEnd(9)} ${previewMessage(message)}`, width);
  });
  const left = lines.length - 2 * ENDS;
  const shown =
    left > 1
      ? [...lines.slice(0, ENDS), () => `… ${formatMany(left, "more message")}`, ...lines.slice(-ENDS)]
      : lines;
  return [
    `${formatMany(messages.length, "message")}, ${formatMany(tokens, "token")}`,
    ...shown.map((line) => line()),
  ];
}

/** Roles in a narrow column. */
const ROLES: Record<string, string> = {
  compactionSummary: "summary",
  branchSummary: "branch",
  toolResult: "result",
  bashExecution: "shell",
};

const BARS = "▁▂▃▄▅▆▇█";

/** Numbers as a row of bars, at most `width` of them. */
function sparkline(numbers: readonly number[], width: number): string {
  const count = Math.max(1, Math.min(numbers.length, width));
  const shown = Array.from(
    { length: count },
    (_, at) => numbers[Math.floor(((at + 1) * numbers.length) / count) - 1] ?? 0,
  );
  const most = shown.reduce((larger, number) => Math.max(larger, number), 1);
  return shown
    .map((number) => BARS[Math.min(BARS.length - 1, Math.floor((number / most) * BARS.length))])
    .join("");
}
