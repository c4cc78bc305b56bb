import { archivedRows, type Session } from "@espalier/engine";
import {
  branchSummary,
  compaction,
  type DrawOptions,
  drawTreeLines,
  type Entry,
  isBookkeepingAt,
  labelsInForce,
  message,
  type SessionIssue,
  type Tree,
  tipRows,
  titleOf,
} from "@espalier/session-tree";
import { type SessionCall, sessionCommand } from "../command.ts";
import { previewEntry } from "../entry-preview.ts";
import { entryName } from "../entry-reference.ts";
import { formatMany } from "../numbers.ts";
import { warnOfDamage } from "../opening.ts";
import type { Colours, Shell } from "../shell.ts";
import { fieldText, NO_PROMPT, plainLine } from "../text.ts";

interface TreeOptions extends ViewTreeOptions {
  ids?: boolean;
}

export const tree = sessionCommand({
  usage: "tree <session>",
  description: "draw a session: branches, labels, summaries, and the path that the model reads",
  options: [
    ["--ids", "with --json: only the structure, without role, timestamp and preview"],
    ["--all", "draw a line for every entry; by default long runs are folded and bookkeeping is left out"],
    ["--ascii", "draw with - and | instead of lines"],
  ],
  notes: `Bookkeeping is what an agent writes for itself: reminders to the model, changes of the model or the thinking level, state
of extensions. JSON has all entries.`,
  examples: [
    "espalier tree session.jsonl",
    "espalier tree session.jsonl --json | jq '.entries[] | select(.label)'",
  ],
  use: "read",
  async run({ session, shell, options }: SessionCall<TreeOptions>) {
    // Some damage is only found when a line is parsed, and here all lines are parsed anyway.
    const issues = shell.json && !options.ids ? session.diagnose().issues : session.tree.issues;
    warnOfDamage(shell, session, issues);
    return { value: treeValue(session, issues, options), lines: viewTree(session, shell, options) };
  },
});

function treeValue(session: Session, issues: readonly SessionIssue[], { ids = false }: TreeOptions): object {
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

/** An entry in the output of `tree --json`; fields without a value are null. */
interface TreeEntry {
  id: string;
  /** Parent in the tree; null for an entry whose parent is missing. */
  parentId: string | null;
  type: string;
  role?: string | null;
  timestamp?: string | null;
  label: string | null;
  preview?: string | null;
  /** True on the path of the leaf. */
  onPath: boolean;
  /** True on the path of the leaf, for an entry that a compaction hides from the model. */
  archived: boolean;
}

/**
 * Yields all entries in file order. With `structure`, role, timestamp and preview are missing, so that no line is
 * parsed.
 */
function* treeEntries(tree: Tree, leafId: string | null, structure = false): Generator<TreeEntry> {
  const labels = labelsInForce(tree);
  const archived = archivedRows({ tree, leafId });
  const onPath = new Uint8Array(tree.length);
  for (let row = leafId === null ? -1 : tree.row(leafId); row >= 0; row = tree.index.parent(row))
    onPath[row] = 1;
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
      ...(entry
        ? { role: message.is(entry) ? entry.message.role : null, timestamp: entry.timestamp || null }
        : {}),
      label: labels.get(id)?.label ?? null,
      ...(entry ? { preview: previewEntry(entry) } : {}),
      onPath: onPath[row] === 1,
      archived: archived.has(row),
    };
    previousId = id;
  }
}

interface ViewTreeOptions {
  /** True: a line for every entry, bookkeeping included. */
  all?: boolean;
  /** True: draw with - and | only. */
  ascii?: boolean;
  /** Tokens of the next request, as its agent counts them. Default: an estimate for the messages only. */
  tokens?: number;
}

/** Longest run of ordinary entries that is drawn in full; a longer run becomes one line. */
const FOLD = 2;

/** Maximum length of an id in a drawing. Ids of other programs can be long. */
const ID_LENGTH = 12;

/** Draws a session for people: its heading, its tree, and the size of the context at the leaf. */
export function* viewTree(
  session: Session,
  { colours, columns }: Pick<Shell, "colours" | "columns">,
  options: ViewTreeOptions = {},
): Generator<string> {
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

/** Two lines about a session: its name, and its size. */
export function* sessionHeading(
  session: Session,
  colours: Colours,
  tokens = session.context.tokens,
): Generator<string> {
  const { tree, header, context } = session;
  const title = plainLine(titleOf(tree) ?? "") || NO_PROMPT;
  yield `${colours.bold(title)} ${colours.dim(plainLine(header?.cwd ?? ""))}`.trimEnd();
  const facts = [
    formatMany(tree.length, "entry", "entries"),
    formatMany(tipRows(tree).length, "branch", "branches"),
    `the model reads ${formatMany(context.messages.length, "message")}, ${formatMany(tokens, "token")}`,
  ];
  yield colours.dim(facts.join(" · "));
}

/** Draws the tree in the colours of the command line. */
export function treeLines(
  session: Session,
  colours: Colours,
  options: DrawOptions,
  ascii = false,
): Iterable<string> {
  const rails = ascii ? asciiRails : (text: string) => text;
  return drawTreeLines(session, {
    describe: (entry) => describeEntry(entry, (id) => entryName(session.tree, id)),
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

const cutId = (id: string): string => id.slice(0, ID_LENGTH);

/**
 * Describes an entry of a drawing in one line: its id, its kind, its first words.
 *
 * @param short shortens ids; by default to 12 characters
 */
export function describeEntry(entry: Entry, short = cutId): string {
  return `${short(entry.id)} ${kindName(entry, short)}  ${previewEntry(entry) ?? ""}`.trimEnd();
}

/** Name of an entry's kind, for people. */
function kindName(entry: Entry, short: (id: string) => string): string {
  if (message.is(entry)) return entry.message.role;
  if (compaction.is(entry)) return "compaction";
  if (branchSummary.is(entry)) return `summary of ${short(fieldText(entry.fromId)) || "a branch"}`;
  return entry.type;
}

/** Replaces the line characters of a drawing with ASCII. */
function asciiRails(text: string): string {
  return text
    .replace(/^[│├─ ]+/, (rails) => rails.replaceAll("│", "|").replaceAll("├", "+").replaceAll("─", "-"))
    .replace("…", "...");
}
