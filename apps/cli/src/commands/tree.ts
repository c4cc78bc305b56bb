import { setTimeout } from "node:timers/promises";
import { paced, type ReplayStep, type Session } from "@espalier/engine";
import {
  archivedRows,
  type BranchComparison,
  type BranchSide,
  compareBranches,
} from "@espalier/engine/reading";
import {
  branchSummary,
  type DrawOptions,
  drawTreeLines,
  type Entry,
  isBookkeepingAt,
  labelsInForce,
  message,
  pathMarks,
  type SessionIssue,
  type Tree,
  tipRows,
  titleOf,
} from "@espalier/session-tree";
import { sessionCommand } from "../command.ts";
import { entryLine, previewEntry, WIDE } from "../entry-preview.ts";
import { entryName, entryNamed, existingEntry } from "../entry-reference.ts";
import { CommandError } from "../failure.ts";
import { formatCount, formatMany, formatPrice, numberParser } from "../numbers.ts";
import { currentSettings, warnOfDamage } from "../opening.ts";
import { type Colours, type Look, printLine, printStep, type Shell } from "../shell.ts";
import { viewTable } from "../table.ts";
import { columnsOf, cutToColumns, fieldText, NO_PROMPT, padToColumns, plainLine } from "../text.ts";

export const tree = sessionCommand({
  usage: "tree <session>",
  description: "draw a session: branches, labels, summaries, and the path that the model reads",
  options: [
    ["--ids", "with --json: only the structure, without role, timestamp and preview"],
    ["--all", "draw each entry of the conversation; by default runs are folded and bookkeeping is left out"],
    ["--ascii", "draw with - and | instead of lines"],
  ],
  notes: `Bookkeeping is what an agent writes for itself: reminders to the model, changes of the model or the thinking level, state
of extensions. JSON has all entries.`,
  examples: [
    "espalier tree session.jsonl",
    "espalier tree session.jsonl --json | jq '.entries[] | select(.label)'",
  ],
  use: "read",
  async run({ session, shell, options }) {
    // Some damage is only found when a line is parsed, and here all lines are parsed anyway.
    const issues = shell.json && !options.ids ? session.diagnose().issues : session.tree.issues;
    warnOfDamage(shell, session, issues);
    return { value: treeValue(session, issues, options), lines: viewTree(session, shell, options) };
  },
});

function treeValue(session: Session, issues: readonly SessionIssue[], { ids = false }: { ids?: boolean }) {
  const { header, file, leafId, tree } = session;
  return {
    session: {
      id: header?.id || null,
      version: header?.version ?? null,
      cwd: header?.cwd || null,
      file,
      name: session.name ?? null,
    },
    leafId,
    entries: treeEntries(tree, leafId, ids),
    issues,
  };
}

/**
 * Yields all entries in file order. Fields without a value are null: `parentId` for a root, and for an entry whose parent
 * is missing. `archived` is true on the path of the leaf for an entry that a compaction hides from the model. With
 * `structure`, role, timestamp and preview are missing, so that a line is parsed only if its type is not in the index.
 */
function* treeEntries(tree: Tree, leafId: string | null, structure: boolean): Generator<object> {
  const labels = labelsInForce(tree);
  const archived = archivedRows({ tree, leafId });
  const onPath = pathMarks(tree, leafId === null ? -1 : tree.row(leafId));
  let previousId = "";
  for (let row = 0; row < tree.length; row++) {
    const id = tree.idAt(row);
    const parent = tree.index.parent(row);
    const entry = structure ? undefined : tree.entryAt(row);
    yield {
      id,
      // Mostly an entry's parent is the entry before it, whose id is already known.
      parentId: parent >= 0 && parent === row - 1 ? previousId : tree.parentIdAt(row),
      type: entry?.type ?? (tree.kindAt(row).type || tree.entryAt(row).type),
      role: entry && (message.is(entry) ? entry.message.role : null),
      timestamp: entry && (entry.timestamp || null),
      label: labels.get(id)?.label ?? null,
      preview: entry && previewEntry(entry),
      onPath: onPath[row] === 1,
      archived: archived.has(row),
    };
    previousId = id;
  }
}

interface ViewTreeOptions {
  /** True: a line for every entry, bookkeeping included. */
  all?: boolean;
  ascii?: boolean;
  /** Tokens of the next request, as its agent counts them. Default: an estimate for the messages only. */
  tokens?: number;
}

/** Longest run of ordinary entries that is drawn in full; a longer run becomes one line. */
const FOLD = 2;

/** Draws a session for people: its heading, its tree, and the size of the context at the leaf. */
export function* viewTree(session: Session, { colours, columns }: Look, options: ViewTreeOptions) {
  yield* sessionHeading(session, colours, options.tokens);
  const leftOut = options.all ? 0 : bookkeepingIn(session.tree);
  if (leftOut > 0) {
    const entries = formatMany(leftOut, "entry of bookkeeping is", "entries of bookkeeping are");
    yield colours.dim(`${entries} left out; --all shows everything.`);
  }
  yield "";
  const shown = options.all ? {} : { fold: FOLD, leaveOut: isBookkeepingAt };
  yield* treeLines(session, colours, { width: columns, ...shown }, options.ascii);
}

/** Counts the entries of bookkeeping, which a drawing leaves out. */
function bookkeepingIn(tree: Tree): number {
  let count = 0;
  for (let row = 0; row < tree.length; row++)
    if (tree.kindAt(row).movesLeaf && isBookkeepingAt(tree, row)) count++;
  return count;
}

/** Maximum width in columns of a title above a tree, about that of the entries below it. */
const TITLE_WIDTH = 100;

/** Two lines about a session: title and folder; entries, branches and the size of the context at the leaf. */
export function* sessionHeading(session: Session, colours: Colours, tokens = session.context.tokens) {
  const { tree, header, context } = session;
  const title = cutToColumns(plainLine(titleOf(tree) ?? ""), TITLE_WIDTH) || NO_PROMPT;
  yield `${colours.bold(title)} ${colours.dim(plainLine(header?.cwd ?? ""))}`.trimEnd();
  const facts = [
    formatMany(tree.length, "entry", "entries"),
    formatMany(tipRows(tree).length, "branch", "branches"),
    `the model reads ${formatMany(context.messages.length, "message")}, ${formatMany(tokens, "token")}`,
  ];
  yield colours.dim(facts.join(" · "));
}

/** Draws the tree in the colours of the command line. */
export function treeLines(session: Session, colours: Colours, options: DrawOptions, ascii = false) {
  const rails = ascii ? asciiRails : (text: string) => text;
  return drawTreeLines(session, {
    describe: (entry) => describeEntry(session.tree, entry),
    ...options,
    colours: {
      active: (text) => text,
      dim: (text) => colours.dim(rails(text)),
      summary: colours.magenta,
      label: colours.yellow,
      leaf: (text) => colours.bold(colours.green(text)),
    },
  });
}

/** Describes an entry in one line: its short id, its kind, its first words. */
export function describeEntry(tree: Tree, entry: Entry): string {
  return `${entryName(tree, entry.id)} ${kindName(tree, entry)}  ${previewEntry(entry) ?? ""}`.trimEnd();
}

function kindName(tree: Tree, entry: Entry): string {
  if (message.is(entry)) return entry.message.role;
  if (!branchSummary.is(entry)) return entry.type;
  return `summary of ${entryName(tree, fieldText(entry.fromId)) || "a branch"}`;
}

/** Replaces the line characters of a drawing with ASCII. */
function asciiRails(text: string): string {
  return text
    .replace(/^[│├─ ]+/, (rails) => rails.replaceAll("│", "|").replaceAll("├", "+").replaceAll("─", "-"))
    .replace("…", "...");
}

export const diff = sessionCommand({
  usage: "diff <session> <a> <b>",
  description: "compare two branches from their common ancestor: entries, messages, tokens, cost, files",
  options: [["--all", "show bookkeeping too; by default it is only counted (JSON has it all)"]],
  examples: [
    "espalier diff session.jsonl leaf http-cache-dead-end",
    "espalier diff session.jsonl a1B2 c3D4 --json | jq .a.files",
  ],
  use: "tree",
  async run({ session, shell, options }, a, b) {
    const { prices } = (await currentSettings(shell)).values;
    const [first, second] = [entryNamed(session, a), entryNamed(session, b)];
    const comparison = compareBranches(session.tree, first, second, { prices });
    const sideValue = (side: BranchSide) => ({ ...side, estimated: side.estimated > 0 });
    const value = { ...comparison, a: sideValue(comparison.a), b: sideValue(comparison.b) };
    return { value, lines: viewDiff(session, comparison, shell, options) };
  },
});

/** Draws two branches for people: their last common entry, the figures of each, and the entries and files of each. */
function* viewDiff(
  session: Session,
  { commonAncestorId, a, b }: BranchComparison,
  { colours, columns }: Look,
  { all = false }: { all?: boolean },
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

const parseSpeed = numberParser((speed) => speed > 0, "a number above 0, for example 10");

export const replay = sessionCommand({
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
  async run({ session, shell, options: { until, speed, verify = false } }) {
    const last = until === undefined ? {} : { until: existingEntry(session, until) };
    const replayed = session.replay({ ...last, verify });
    const paces = speed === undefined ? replayed : paced(replayed, session.tree, speed, setTimeout);
    let steps = 0;
    let differing = 0;
    for await (const step of paces) {
      steps++;
      if (step.verified === false) differing++;
      await printStep(shell, step, () => viewStep(session, step, shell));
      // With a pace, each step must appear when it happens.
      if (speed !== undefined) await shell.output.flush();
    }
    const all = formatMany(steps, "step");
    if (differing > 0)
      throw new CommandError(
        "verify",
        `${formatMany(differing, "step")} of ${formatCount(steps)} differ from a context built from scratch.`,
      );
    if (!shell.json)
      await printLine(shell, verify ? `${all}, each equal to a context built from scratch.` : `${all}.`);
  },
});

/** Width in columns of a step's entry, and of its type; a longer type is cut, a longer name of an entry is not. */
const ID_WIDTH = 12;
const TYPE_WIDTH = 14;

/** Minimum width in columns of the text of an entry, even if the line becomes too long. */
const NARROWEST = 10;

/** Draws one step of a replay as one line: its entry, the size of the context, the leaf, and the text of the entry. */
export function viewStep(
  session: Session,
  { seq, entryId, type, leafId, contextMessages, contextTokens, verified }: ReplayStep,
  { colours, columns }: Look,
): string {
  const facts = [
    formatCount(seq).padStart(6),
    padToColumns(plainLine(entryName(session.tree, entryId)), ID_WIDTH),
    padToColumns(cutToColumns(plainLine(type), TYPE_WIDTH), TYPE_WIDTH),
    formatMany(contextMessages, "message").padStart(14),
    formatMany(contextTokens, "token").padStart(16),
  ].join(" ");
  const mark = verified === false ? " differs" : "";
  const moved =
    leafId === entryId
      ? ""
      : `leaf ${leafId === null ? "before the first entry" : entryName(session.tree, leafId)}`;
  const entry = session.getEntry(entryId);
  // The text of a leaf entry is its target again.
  const preview = type === "leaf" ? undefined : entry && previewEntry(entry);
  const said = plainLine([moved, preview].filter(Boolean).join(" · "));
  const room = columns - columnsOf(facts + mark) - 2;
  return `${facts}${colours.red(mark)}  ${colours.dim(cutToColumns(said, Math.max(NARROWEST, room)))}`;
}
