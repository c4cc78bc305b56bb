import { cutToWidth, printable, textWidth } from "./cut-to-width.ts";
import { describeEntry } from "./describe-entry.ts";
import { DrawnTree, drawnLeaf } from "./drawn-tree.ts";
import { branchSummary } from "./entries/branch-summary.ts";
import { compaction } from "./entries/compaction.ts";
import type { Entry } from "./entry.ts";
import { labelsInForce } from "./labels.ts";
import { leafOf } from "./leaf.ts";
import { roleAt } from "./role-at.ts";
import { Tree } from "./tree.ts";

/**
 * What a piece of a drawing is, for whoever colours it: `active` entries are on the path of the leaf, `dim` is all else
 * (other entries, rails, folded runs), `summary` are compactions and branch summaries wherever they stand.
 */
export type DrawnPart = "active" | "dim" | "summary" | "label" | "leaf";

/** What of a tree is drawn, and how. Without any: every entry, one line each, without colours. */
export interface DrawOptions {
  /** The leaf that is marked; by default that of the session, or the one the log says. */
  leafId?: string | null;
  /** Draw only this entry and what hangs below it. Throws `unknown-entry`. */
  rootId?: string;
  /** One line about an entry; nothing in it acts on a terminal. Default: its id and, in short, what it does. */
  describe?: (entry: Entry) => string;
  /** Runs of more than so many entries in which nothing stands out become one line. Default: every entry has a line. */
  fold?: number;
  /**
   * Whether an entry stands out of a run; labels, partings and ends always do. Default: user messages, compactions,
   * branch summaries, for which no more of a line is read than its beginning.
   */
  standsOut?: (entry: Entry) => boolean;
  /** Columns; what an entry says is cut to them. Default: as wide as it gets. */
  width?: number;
  /** Colours a piece of a line, for a terminal or a page. Default: none. */
  colours?: Partial<Record<DrawnPart, (text: string) => string>>;
}

/**
 * A tree as text: one line an entry, root first, the path of the leaf straight down, other branches indented where they
 * part, labels in brackets, the leaf with a `*`. Entries beside the conversation (labels, names, usage) have no line.
 */
export function drawTree(
  source: Tree | { readonly tree: Tree; readonly leafId: string | null },
  options: DrawOptions = {},
): string {
  return [...drawTreeLines(source, options)].join("\n");
}

/** As {@link drawTree}, line by line: for trees of any size. */
export function* drawTreeLines(
  source: Tree | { readonly tree: Tree; readonly leafId: string | null },
  options: DrawOptions = {},
): Generator<string> {
  const tree = source instanceof Tree ? source : source.tree;
  const { leafId = source instanceof Tree ? leafOf(source) : source.leafId } = options;
  yield* new Drawing(tree, leafId, options).lines();
}

/** A branch that is still to be drawn: what stands before its first line and before the others. */
interface Waiting {
  row: number;
  first: string;
  rest: string;
}

const START = "(start)";

class Drawing {
  readonly #tree: Tree;
  readonly #leafRow: number;
  readonly #shape: DrawnTree;
  readonly #labels: ReadonlyMap<string, { label: string }>;
  readonly #labelled: ReadonlySet<number>;
  readonly #options: DrawOptions;

  constructor(tree: Tree, leafId: string | null, options: DrawOptions) {
    this.#tree = tree;
    this.#options = options;
    this.#leafRow = drawnLeaf(tree, leafId);
    this.#shape = new DrawnTree(tree, this.#leafRow);
    this.#labels = labelsInForce(tree);
    this.#labelled = new Set(Array.from(this.#labels.keys(), (id) => tree.index.rowOf(id)));
  }

  *lines(): Generator<string> {
    const waiting: Waiting[] = [];
    const { rootId } = this.#options;
    const rootRow = rootId === undefined ? -1 : drawnLeaf(this.#tree, rootId);
    const roots = rootRow < 0 ? this.#shape.roots : [rootRow];
    const startsAtLeaf = rootRow < 0 && this.#leafRow < 0;
    // Several roots part from a line that stands for the place before the first entry.
    if (roots.length !== 1 || startsAtLeaf)
      yield this.#paint("dim", START) + (startsAtLeaf ? this.#leafMark() : "");
    const straight = roots.find((row) => this.#shape.isActive(row)) ?? roots.at(-1);
    if (straight !== undefined) waiting.push({ row: straight, first: "", rest: "" });
    for (const row of roots.filter((root) => root !== straight).reverse()) waiting.push(aside(row, ""));
    for (let branch = waiting.pop(); branch; branch = waiting.pop()) yield* this.#branch(branch, waiting);
  }

  /** One line after another straight down, to the end or to where branches part; what follows there is put in front of the queue. */
  *#branch({ row, first, rest }: Waiting, waiting: Waiting[]): Generator<string> {
    let rails = first;
    let run: number[] = [];
    let runLength = 0;
    const { fold = Number.POSITIVE_INFINITY } = this.#options;
    for (let at = row; at >= 0; at = this.#shape.straight(at)) {
      const parts = this.#shape.parts(at);
      if (parts || fold === Number.POSITIVE_INFINITY || this.#standsOut(at)) {
        yield* this.#run(run, runLength, rails, rest);
        if (runLength > 0) rails = rest;
        run = [];
        runLength = 0;
        yield this.#entry(at, rails);
        rails = rest;
      } else if (runLength++ < fold) run.push(at);
      if (!parts) continue;
      waiting.push({ row: this.#shape.straight(at), first: rest, rest });
      for (const child of this.#shape.aside(at).reverse()) waiting.push(aside(child, rest));
      return;
    }
    yield* this.#run(run, runLength, rails, rest);
  }

  /** A run in which nothing stands out: its entries, or one line for all when they are too many. */
  *#run(rows: readonly number[], length: number, first: string, rest: string): Generator<string> {
    if (length > rows.length) {
      yield this.#paint("dim", `${first}… ${length} ${length === 1 ? "entry" : "entries"}`);
      return;
    }
    for (const [at, row] of rows.entries()) yield this.#entry(row, at === 0 ? first : rest);
  }

  #entry(row: number, rails: string): string {
    const { describe = describeEntry, width = Number.POSITIVE_INFINITY } = this.#options;
    const entry = this.#tree.entryAt(row);
    const label = this.#labels.get(entry.id)?.label;
    const name = label === undefined ? "" : ` [${printable(label)}]`;
    const isLeaf = row === this.#leafRow;
    const room = width - textWidth(rails) - textWidth(name) - (isLeaf ? 2 : 0);
    const text = cutToWidth(printable(describe(entry)), Math.max(room, LEAST_ROOM));
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
    if (row === this.#leafRow || this.#shape.straight(row) < 0 || this.#labelled.has(row)) return true;
    const { standsOut } = this.#options;
    return standsOut ? standsOut(this.#tree.entryAt(row)) : isLandmark(this.#tree, row);
  }

  #leafMark(): string {
    return ` ${this.#paint("leaf", "*")}`;
  }

  #paint(part: DrawnPart, text: string): string {
    return this.#options.colours?.[part]?.(text) ?? text;
  }
}

/** However narrow the drawing and deep the branch, an entry says at least so much. */
const LEAST_ROOM = 8;

const aside = (row: number, rails: string): Waiting => ({ row, first: `${rails}├─ `, rest: `${rails}│  ` });

function isLandmark(tree: Tree, row: number): boolean {
  const { type } = tree.kindAt(row);
  return type === compaction.type || type === branchSummary.type || roleAt(tree, row) === "user";
}
