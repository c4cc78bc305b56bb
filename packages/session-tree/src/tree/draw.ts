import stringWidth from "string-width";
import { branchSummary, compaction, contextEdit, type Entry } from "../entry/kinds.ts";
import { fieldText } from "../entry/message.ts";
import { labelsInForce, leafOf, roleAt, rowOfLeaf } from "./queries.ts";
import type { Tree } from "./tree.ts";

/**
 * Role of a piece of a drawing, for its colour. `active` is for entries on the path of the leaf, `summary` for
 * compactions and branch summaries anywhere, `dim` for all other entries, rails and folded runs. `label` is for a label
 * with its brackets, `leaf` for the `*` of the leaf.
 */
export type DrawnPart = "active" | "dim" | "summary" | "label" | "leaf";

/** Options of a drawing. Default: one line for every entry, without colours. */
export interface DrawOptions {
  /**
   * Id of the leaf to mark; null marks the start. Default: the leaf of the session; for a tree, that at which it opens.
   */
  leafId?: string | null;
  /** Id of the only entry to draw with its descendants. Throws `unknown-entry`. Default: the whole tree is drawn. */
  rootId?: string;
  /**
   * Returns one line about an entry. Characters that a terminal interprets are removed from the line. Default: the id
   * and, for a compaction, branch summary or edit, a short note on its effect.
   */
  describe?: (entry: Entry) => string;
  /**
   * Largest number of ordinary entries in a row that are drawn one by one. A longer run becomes one line. Default: no
   * limit.
   */
  fold?: number;
  /**
   * Returns whether an entry is never part of a folded run. The leaf, entries with labels, forks and ends are never
   * folded. Default: user messages, compactions and branch summaries, which are recognized without parsing their lines.
   */
  standsOut?: (entry: Entry) => boolean;
  /** True to fold user messages too. Has no effect with `standsOut`. Default: false. */
  foldPrompts?: boolean;
  /**
   * Returns whether an entry of the conversation has no line. Its descendants are drawn below its nearest ancestor that
   * has a line. Entries with a label and the entry `rootId` always have one. Default: false for every entry.
   */
  leaveOut?: (tree: Tree, row: number) => boolean;
  /** Width in columns. Descriptions of entries are cut to fit, to no less than 8 columns. Default: no limit. */
  width?: number;
  /** Colours a piece of a line, for a terminal or a page. Default: no colours. */
  colours?: Partial<Record<DrawnPart, (text: string) => string>>;
}

/**
 * Returns a tree as text: one line per entry, root first. The path of the leaf goes straight down, and other branches
 * are indented at their fork. Labels are in brackets, and the leaf has a `*`. Entries outside the conversation (labels,
 * names, usage) have no line. A line `(start)` comes first when there is not exactly one root, or the leaf is before
 * the first entry.
 */
export function drawTree(
  source: Tree | { readonly tree: Tree; readonly leafId: string | null },
  options: DrawOptions = {},
): string {
  return [...drawTreeLines(source, options)].join("\n");
}

/** Yields the lines of {@link drawTree} one by one, for trees of any size. */
export function* drawTreeLines(
  source: Tree | { readonly tree: Tree; readonly leafId: string | null },
  options: DrawOptions = {},
): Generator<string> {
  const { tree, leafId } = "tree" in source ? source : { tree: source, leafId: leafOf(source) };
  yield* new Drawing(tree, options.leafId === undefined ? leafId : options.leafId, options).lines();
}

const START = "(start)";

class Drawing {
  readonly #tree: Tree;
  /** Row of the only entry to draw with its descendants; -1 for the whole tree. */
  readonly #rootRow: number;
  readonly #shape: DrawnTree;
  readonly #labels: ReadonlyMap<string, { label: string }>;
  readonly #labelled: ReadonlySet<number>;
  readonly #options: DrawOptions;

  constructor(tree: Tree, leafId: string | null, options: DrawOptions) {
    this.#tree = tree;
    this.#options = options;
    this.#labels = labelsInForce(tree);
    this.#labelled = new Set(Array.from(this.#labels.keys(), (id) => tree.index.rowOf(id)));
    this.#rootRow = options.rootId === undefined ? -1 : rowOfLeaf(tree, options.rootId);
    this.#shape = new DrawnTree(this.#withoutLeftOut(), rowOfLeaf(tree, leafId));
  }

  /** Returns the shape of the tree without the entries that have no line. */
  #withoutLeftOut(): TreeShape {
    const { leaveOut } = this.#options;
    if (!leaveOut) return this.#tree;
    const { index } = this.#tree;
    const isShown = new Uint8Array(index.length);
    for (let row = 0; row < index.length; row++) {
      const isLine = this.#tree.kindAt(row).movesLeaf;
      const isWanted = row === this.#rootRow || this.#labelled.has(row) || !leaveOut(this.#tree, row);
      if (isLine && isWanted) isShown[row] = 1;
    }
    return { index, kindAt: (row) => ({ movesLeaf: isShown[row] === 1 }) };
  }

  *lines(): Generator<string> {
    const root = this.#rootRow;
    const { roots, leafRow } = this.#shape;
    // Several roots fork from a line for the position before the first entry.
    if (root < 0 && (roots.length !== 1 || leafRow < 0))
      yield this.#paint("dim", START) + (leafRow < 0 ? this.#leafMark() : "");
    const { fold = Number.POSITIVE_INFINITY } = this.#options;
    const { rows, depths } = this.#shape.order(root);
    /** First row of the current run of ordinary entries. The last entry of a branch stands out, so no run goes beyond. */
    let from = 0;
    for (let at = 0; at < rows.length; at++) {
      if (fold !== Number.POSITIVE_INFINITY && !this.#standsOut(rows[at]!)) continue;
      const length = at - from;
      if (length > fold) {
        const entries = `… ${length} ${length === 1 ? "entry" : "entries"}`;
        yield this.#paint("dim", `${this.#rails(rows[from]!, depths[from]!)}${entries}`);
        from = at;
      }
      for (; from <= at; from++) yield this.#entry(rows[from]!, this.#rails(rows[from]!, depths[from]!));
    }
  }

  #rails(row: number, depth: number): string {
    const begins = depth > 0 && this.#shape.isAside(row);
    return "│  ".repeat(begins ? depth - 1 : depth) + (begins ? "├─ " : "");
  }

  #entry(row: number, rails: string): string {
    const { describe = describeEntry, width = Number.POSITIVE_INFINITY } = this.#options;
    const entry = this.#tree.entryAt(row);
    const label = this.#labels.get(entry.id)?.label;
    const name = label === undefined ? "" : ` [${printable(label)}]`;
    const isLeaf = row === this.#shape.leafRow;
    const room = width - columnsOf(rails) - columnsOf(name) - (isLeaf ? 2 : 0);
    const text = cutToColumns(printable(describe(entry)), Math.max(room, LEAST_ROOM));
    return (
      (rails === "" ? "" : this.#paint("dim", rails)) +
      this.#paint(this.#partOf(row, entry), text) +
      (name === "" ? "" : this.#paint("label", name)) +
      (isLeaf ? this.#leafMark() : "")
    );
  }

  #partOf(row: number, entry: Entry): DrawnPart {
    if (compaction.is(entry) || branchSummary.is(entry)) return "summary";
    return this.#shape.isActive(row) ? "active" : "dim";
  }

  #standsOut(row: number): boolean {
    const isEnd = this.#shape.parts(row) || this.#shape.straight(row) < 0;
    if (isEnd || row === this.#shape.leafRow || this.#labelled.has(row)) return true;
    const { standsOut, foldPrompts = false } = this.#options;
    if (standsOut) return standsOut(this.#tree.entryAt(row));
    return isSummary(this.#tree, row) || (!foldPrompts && roleAt(this.#tree, row) === "user");
  }

  #leafMark(): string {
    return ` ${this.#paint("leaf", "*")}`;
  }

  #paint(part: DrawnPart, text: string): string {
    return this.#options.colours?.[part]?.(text) ?? text;
  }
}

/** Columns that the text of an entry gets at least, even in a narrow drawing or a deep branch. */
const LEAST_ROOM = 8;

function isSummary(tree: Tree, row: number): boolean {
  const { type } = tree.kindAt(row);
  return type === compaction.type || type === branchSummary.type;
}

/** The part of a tree that decides its drawing. A `Tree` has this shape, and so has the description of a remote tree. */
export interface TreeShape {
  readonly index: {
    readonly length: number;
    /** Returns the row of the parent; negative for a root. */
    parent(row: number): number;
  };
  /** Returns whether a row's entry is part of the conversation (`movesLeaf`) or outside of it (a label, a bill). */
  kindAt(row: number): { readonly movesLeaf: boolean };
}

/**
 * The shape of a drawing: entries that move the leaf, each below its nearest ancestor that does. One child of each
 * entry continues straight down: the child towards the leaf, or else the child with the most descendants. The other
 * children are branches. So the depth of indentation is at most the logarithm of the number of entries.
 */
export class DrawnTree {
  /** Rows without a parent in the drawing, in file order. */
  readonly roots: readonly number[];
  /** Row of the leaf, or of its nearest ancestor in the drawing; -1 without one. */
  readonly leafRow: number;
  /** Root that continues straight down; -1 for an empty drawing. */
  readonly #straightRoot: number;
  readonly #parent: Int32Array;
  readonly #straight: Int32Array;
  /** First child of each row, including the one that continues straight down. {@link #next} has the siblings. */
  readonly #first: Int32Array;
  readonly #next: Int32Array;
  readonly #active: Uint8Array;

  /**
   * @param leafRow the row of the leaf; -1 when the leaf is before the first entry
   * @param isBySize false: where no child is towards the leaf, the first one continues straight down. Default true
   */
  constructor(tree: TreeShape, leafRow: number, isBySize = true) {
    const { length } = tree.index;
    const parent = drawnParents(tree);
    this.#parent = parent;
    this.leafRow = leafRow < 0 || tree.kindAt(leafRow).movesLeaf ? leafRow : parent[leafRow]!;
    this.#active = new Uint8Array(length);
    for (let row = this.leafRow; row >= 0; row = parent[row]!) this.#active[row] = 1;
    this.#straight = new Int32Array(length).fill(-1);
    this.#first = new Int32Array(length).fill(-1);
    this.#next = new Int32Array(length).fill(-1);
    const size = new Int32Array(length).fill(1);
    const roots: number[] = [];
    // From the last row to the first, so that all descendants of an entry are counted before the entry.
    for (let row = length - 1; row >= 0; row--) {
      if (!tree.kindAt(row).movesLeaf) continue;
      const above = parent[row]!;
      if (above < 0) {
        roots.push(row);
        continue;
      }
      size[above] = size[above]! + size[row]!;
      this.#next[row] = this.#first[above]!;
      this.#first[above] = row;
      const rival = this.#straight[above]!;
      const wins =
        rival < 0 ||
        this.#active[row] === 1 ||
        (this.#active[rival] === 0 && (!isBySize || size[row]! > size[rival]!));
      if (wins) this.#straight[above] = row;
    }
    this.roots = roots.reverse();
    this.#straightRoot = this.roots.find((row) => this.isActive(row)) ?? this.roots.at(-1) ?? -1;
  }

  /** Returns whether a row is on the path of the leaf. */
  isActive(row: number): boolean {
    return this.#active[row] === 1;
  }

  /** Returns the nearest ancestor in the drawing; -1 when there is none. */
  parent(row: number): number {
    return this.#parent[row]!;
  }

  /** Returns the child that continues straight down; -1 when there is none. */
  straight(row: number): number {
    return this.#straight[row]!;
  }

  /** Returns the last row straight below a row: the end of its branch. */
  end(row: number): number {
    let end = row;
    for (let at = row; at >= 0; at = this.#straight[at]!) end = at;
    return end;
  }

  /** Returns whether a row has more than one child in the drawing. */
  parts(row: number): boolean {
    const first = this.#first[row]!;
    return first >= 0 && this.#next[first]! >= 0;
  }

  /** Returns the children that are branches, in file order. */
  aside(row: number): number[] {
    const rows: number[] = [];
    for (let child = this.#first[row]!; child >= 0; child = this.#next[child]!)
      if (child !== this.#straight[row]) rows.push(child);
    return rows;
  }

  /** Returns whether a row of the drawing is the first one of a branch. */
  isAside(row: number): boolean {
    const parent = this.#parent[row]!;
    return row !== (parent < 0 ? this.#straightRoot : this.#straight[parent]);
  }

  /**
   * Returns the rows from top to bottom, and the number of branches around each. Branches are directly below their
   * fork, in file order; the child that continues straight down is below them.
   *
   * @param root row of the only entry to include, with its descendants; default: all rows
   */
  order(root = -1): { rows: Int32Array; depths: Uint8Array } {
    const rows = new Int32Array(this.#parent.length);
    const depths = new Uint8Array(rows.length);
    const first = root < 0 ? this.#straightRoot : root;
    /** Branches that have no place yet. */
    const waiting = [{ row: first, depth: 0 }];
    const wait = (row: number, depth: number) => waiting.push({ row, depth });
    if (root < 0) for (const other of this.roots.toReversed()) if (other !== first) wait(other, 1);
    let length = 0;
    for (let branch = waiting.pop(); branch; branch = waiting.pop()) {
      const { depth } = branch;
      for (let row = branch.row; row >= 0; row = this.#straight[row]!) {
        rows[length] = row;
        depths[length++] = depth;
        if (!this.parts(row)) continue;
        wait(this.#straight[row]!, depth);
        for (const child of this.aside(row).reverse()) wait(child, depth + 1);
        break;
      }
    }
    return { rows: rows.subarray(0, length), depths: depths.subarray(0, length) };
  }
}

/**
 * Returns the parent of each row in the drawing: its nearest ancestor that moves the leaf; -1 for a root. Linear,
 * because parents come before children.
 */
function drawnParents(tree: TreeShape): Int32Array {
  const { index } = tree;
  const parents = new Int32Array(index.length);
  for (let row = 0; row < index.length; row++) {
    const above = index.parent(row);
    parents[row] = above < 0 ? -1 : tree.kindAt(above).movesLeaf ? above : parents[above]!;
  }
  return parents;
}

/**
 * Returns a text on one line, without characters that a terminal interprets. Its spaces stay, because they may align
 * the text.
 */
function printable(text: string): string {
  return plainText(text).replace(/[\t\n]+/g, " ");
}

/**
 * Characters that always take one column: letters of Europe, punctuation, and the dots, arrows, lines, blocks and
 * shapes of drawings. `string-width` takes a hundred times as long to measure them.
 */
const ONLY_NARROW =
  /^[ -~\u00a1-\u00ac\u00ae-\u02ff\u0370-\u0377\u037a-\u037f\u0384-\u038a\u038e-\u03a1\u03a3-\u0482\u048a-\u052f\u2010-\u2027\u2030-\u205e\u20a0-\u20bf\u2100-\u218b\u2190-\u2319\u2460-\u25fc\u2600-\u2613]*$/;

/**
 * Longer texts are measured character by character, because the time of `string-width` grows with the square of the
 * length.
 */
const LONG = 1_000;

/** Returns the number of terminal columns that a text takes. Escape sequences for styles take none. */
export function columnsOf(text: string): number {
  if (ONLY_NARROW.test(text)) return text.length;
  if (text.length <= LONG) return stringWidth(text);
  let columns = 0;
  for (const character of graphemes(withoutOrders(text))) columns += stringWidth(character);
  return columns;
}

/**
 * Returns a text cut to a number of terminal columns. A cut text ends in `…`, which is included in the number. The rest
 * of the text is not measured.
 */
export function cutToColumns(text: string, columns: number): string {
  // No code unit takes more than two columns, so most texts need not be measured.
  if (text.length * 2 <= columns) return text;
  if (ONLY_NARROW.test(text))
    return text.length <= columns ? text : `${text.slice(0, Math.max(0, columns - 1))}…`;
  let used = 0;
  let end = 0;
  let kept = 0;
  for (const character of graphemes(text)) {
    used += columnsOf(character);
    if (used > columns) return `${text.slice(0, kept)}…`;
    end += character.length;
    if (used < columns) kept = end;
  }
  return text;
}

/** Returns a text cut to at most `length` code points, including the `…` at the end of a cut text. */
export function cutLine(text: string, length: number): string {
  // A code point has at most two code units, so later characters cannot matter.
  const points = Array.from(text.slice(0, (length + 1) * 2));
  return points.length <= length && points.join("").length === text.length
    ? text
    : `${points.slice(0, length - 1).join("")}…`;
}

/** Code units that are segmented at once. ICU's time grows with the square of the length. */
const PIECE_LENGTH = 1_000;

/**
 * Yields the characters that a reader sees, in time linear in the part that is consumed. A character of more than 1,000
 * code units, which only many combining marks produce, is split.
 */
export function* graphemes(text: string): Generator<string> {
  for (let at = 0; at < text.length; ) {
    const end = at + PIECE_LENGTH;
    const piece = text.slice(at, isInPair(text, end) ? end - 1 : end);
    const isLast = at + piece.length === text.length;
    let before = "";
    for (const { segment } of segmenter().segment(piece)) {
      if (before !== "") yield before;
      at += before.length;
      before = segment;
    }
    // The last character of a piece may continue in the next piece, unless it fills the whole piece.
    if (!isLast && before.length < piece.length) continue;
    yield before;
    at += before.length;
  }
}

/** Returns whether a position is between the two halves of a surrogate pair. */
const isInPair = (text: string, at: number): boolean =>
  /[\ud800-\udbff]/.test(text[at - 1] ?? "") && /[\udc00-\udfff]/.test(text[at] ?? "");

/** Returns the segmenter. It is created on first use, because ICU takes 7 ms for the first one of a process. */
const segmenter = (): Intl.Segmenter => {
  characters ??= new Intl.Segmenter();
  return characters;
};
let characters: Intl.Segmenter | undefined;

/** Returns an entry's id and its effect on other entries. Content is only shown by `DrawOptions.describe`. */
function describeEntry(entry: Entry): string {
  const { id } = entry;
  if (compaction.is(entry)) {
    return entry.firstKeptEntryId === id
      ? `${id} (compaction, keeps nothing)`
      : `${id} (compaction, keeps from ${entry.firstKeptEntryId})`;
  }
  if (branchSummary.is(entry)) return `${id} (summary of ${fieldText(entry.fromId) || "a branch"})`;
  if (contextEdit.is(entry))
    return `${id} (${entry.replacement === null ? "leaves out" : "replaces"} ${entry.targetId})`;
  return id;
}

/**
 * Characters that a terminal or a page interprets instead of showing: controls except tab and newline, characters that
 * reverse or break a line of text, and characters without width that can hide text (spaces, operators, tags). The
 * joiners of emoji and of scripts are not included.
 */
const ACTING =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u180e\u200b\u200e\u200f\u2028\u2029\u202a-\u202e\u2060-\u206f\ufeff]|\udb40[\udc00-\udc7f]/g;
const ACTS = new RegExp(ACTING.source);

/**
 * Escape sequences of a terminal: a style or a cursor position (CSI), a text for the terminal itself (a title, a link)
 * up to its end on the same line, and all other sequences that begin with escape. Sequences do not nest, so one pass is
 * enough.
 */
const ORDER =
  /\u001b\[[0-?]*[ -/]*[@-~]|\u009b[0-?]*[ -/]*[@-~]|\u001b[\]PX^_][^\u0007\u001b\u009c\r\n]*(?:\u0007|\u001b\\|\u009c)|\u001b[ -/]*[0-~]/g;

/** All line ends of Unicode. */
const LINE_END = /\r\n?|[\u000b\u000c\u0085\u2028\u2029]/g;

/**
 * Returns a text from outside in a form that is safe to show. Removes the characters and sequences that a terminal or a
 * page interprets. Keeps tabs and lines; each line end becomes `\n`, and a lone surrogate becomes U+FFFD.
 */
export function plainText(text: string): string {
  if (!ACTS.test(text)) return text.toWellFormed();
  return text.replace(ORDER, "").replace(LINE_END, "\n").replace(ACTING, "").toWellFormed();
}

/** Returns {@link plainText} on one line: each run of white space becomes one space, and none is left at the ends. */
export function plainLine(text: string): string {
  return plainText(text).replace(/\s+/g, " ").trim();
}

/** Returns a JSON text with the same value that is safe to show: characters that {@link plainText} removes are escaped. */
export function plainJson(json: string): string {
  return json.replace(ACTING, (character) =>
    Array.from({ length: character.length }, (_, at) => escaped(character.charCodeAt(at))).join(""),
  );
}

const escaped = (unit: number): string => `\\u${unit.toString(16).padStart(4, "0")}`;

/** Returns the text without escape sequences of a terminal, such as styles. */
const withoutOrders = (text: string): string => text.replace(ORDER, "");
