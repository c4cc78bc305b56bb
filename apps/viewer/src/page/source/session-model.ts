import { DrawnTree, type Entry } from "@espalier/session-tree";
import type { EntryGist } from "../../model/entry-gist.ts";
import type { SessionFacts } from "../../model/facts.ts";
import { BOOKKEEPING, OutlineRows } from "../../model/outline.ts";
import type { CacheBreakPoint, Spending } from "../../model/spending.ts";
import type { SessionReader } from "../../model/tree-reader.ts";

/** Rows whose outline is asked for at once, and whose gists are. */
const OUTLINE_RANGE = 200_000;
const GIST_RANGE = 128;

/** Entries kept at hand, and all of those that were asked for last; the others go, the longest unused first. */
const ENTRIES_KEPT = 600;

/** The session that a page shows: its whole shape, and the entries that a user looked at. */
export class SessionModel {
  readonly reader: SessionReader;
  facts: SessionFacts;
  readonly rows = new OutlineRows();
  /** The end of the path that is shown; -1 before the first entry. */
  tip = -1;
  /** The end of the path that the tree draws straight down: `tip`, until a key leads to another branch. */
  #straight = -1;
  /** The entry that is looked at; on the path of `tip`. */
  selected = -1;
  fold = true;
  /** True where bookkeeping is shown like everything else; else it has no lines and no cards of its own. */
  showsBookkeeping = false;
  readonly opened = new Set<number>();
  layout: TreeLayout;
  path: number[] = [];
  /** Rows of the path that are shown: without bookkeeping where that is folded. */
  shownPath: number[] = [];
  labels = new Map<number, string>();
  /** Rows of the path that an edit on it keeps from the model. */
  readonly leftOut = new Set<number>();
  /** First row of the path that the newest compaction keeps; the rows before it are hidden. 0 without a compaction. */
  #hiddenBefore = 0;
  /** Dollars by line of the layout, once they are known. */
  lineCosts = new Float64Array(0);
  /** Cost over time, once it is known. */
  spending: Spending | undefined;
  /** Breaks of the prompt cache by the row of their call, once they are known. */
  breaks: ReadonlyMap<number, CacheBreakPoint> = new Map();
  readonly #gists = new Map<number, EntryGist>();
  readonly #asked = new Set<number>();
  readonly #entries = new Map<number, Entry>();
  readonly #observers = new Set<() => void>();
  #growing: Promise<void> = Promise.resolve();
  #next: Promise<void> | undefined;

  private constructor(reader: SessionReader, facts: SessionFacts) {
    this.reader = reader;
    this.facts = facts;
    this.layout = layOutTree(this.rows, this.#layoutOptions());
  }

  /** Reads the shape of a session. */
  static async open(reader: SessionReader): Promise<SessionModel> {
    // Asked for at once: most sessions are one range.
    const [facts, outline] = await Promise.all([reader.facts(), reader.outline(0, OUTLINE_RANGE)]);
    const model = new SessionModel(reader, facts);
    model.rows.add(outline);
    await model.#readOutline(facts);
    model.tip = model.facts.leafRow;
    model.#arrange();
    model.selected = model.end;
    return model;
  }

  /** The last entry of the path that is shown: of a session, the last thing said. -1 before the first entry. */
  get end(): number {
    return this.shownPath.at(-1) ?? -1;
  }

  /** Calls back on every change; returns the function that ends it. */
  subscribe(observer: () => void): () => void {
    this.#observers.add(observer);
    return () => this.#observers.delete(observer);
  }

  /** Looks at an entry. One that is not on the path shown brings its own branch, to its end. */
  select(row: number): void {
    this.#look(row, () => this.#arrange());
  }

  /** Looks at an entry as {@link select}, and leaves the lines of the tree in their order: a key pressed again goes on. */
  step(row: number): void {
    this.#look(row, () => this.#arrange(this.#straight));
  }

  #look(row: number, arrange: () => void): void {
    const isThere = row >= 0 && row < this.rows.length;
    if (!isThere || !this.rows.kindAt(row).movesLeaf) return;
    this.selected = row;
    if (this.layout.active[row] !== 1) {
      this.tip = this.#endOf(row);
      arrange();
    }
    this.#tell();
  }

  /** Shows the path to an entry and nothing beyond; looks at its end where `selected` is left out, or not on it. */
  show(end: number, selected = -1): void {
    if (end >= this.rows.length) return;
    // An entry beside the conversation does not end a path: the one above it does.
    this.tip = this.rows.path(end).at(-1) ?? -1;
    this.#arrange();
    this.selected = this.path.includes(selected) ? selected : this.end;
    this.#tell();
  }

  setBookkeeping(shows: boolean): void {
    this.showsBookkeeping = shows;
    this.opened.clear();
    this.#arrange();
    if (!shows && this.isFolded(this.selected))
      this.selected = this.shownPath.findLast((row) => row < this.selected) ?? this.end;
    this.#tell();
  }

  /** Returns whether a row is bookkeeping that is not shown now. */
  isFolded(row: number): boolean {
    return !this.showsBookkeeping && BOOKKEEPING.has(this.rows.kind(row)) && !this.labels.has(row);
  }

  setFold(fold: boolean): void {
    this.fold = fold;
    this.opened.clear();
    this.#arrange();
    this.#tell();
  }

  /** Opens the run whose line begins with a row. */
  openRun(row: number): void {
    this.opened.add(row);
    this.#arrange();
    this.#tell();
  }

  /** Returns whether a compaction of the path replaces an entry, so that the model no longer reads it. */
  isHidden(row: number): boolean {
    return this.layout.active[row] === 1 && row < this.#hiddenBefore && this.rows.kind(row) !== "c";
  }

  /**
   * Takes in what the session has grown by; who looked at its leaf goes on looking at it. One at a time, since each goes
   * on from where the one before ended; who asks meanwhile gets the next one, which sees all that is there by then.
   */
  grow(): Promise<void> {
    this.#next ??= this.#growing.then(() => {
      this.#next = undefined;
      const growing = this.#takeIn();
      // The caller receives its error; the next call tries again.
      this.#growing = growing.catch(() => undefined);
      return growing;
    });
    return this.#next;
  }

  async #takeIn(): Promise<void> {
    const facts = await this.reader.facts();
    await this.#readOutline(facts);
    // A user may have gone elsewhere meanwhile.
    const followed = this.tip === this.facts.leafRow;
    const atEnd = this.selected === this.end;
    this.facts = facts;
    if (followed) this.tip = facts.leafRow;
    this.#arrange();
    if (followed && (atEnd || this.layout.active[this.selected] !== 1)) this.selected = this.end;
    this.#tell();
    await this.readCosts();
  }

  /** Text of a row on one line; undefined while it is being loaded. */
  gist(row: number): EntryGist | undefined {
    const gist = this.#gists.get(row);
    const range = Math.floor(row / GIST_RANGE);
    if (!gist && !this.#asked.has(range)) void this.#readGists(range);
    return gist;
  }

  /** Entries, as they are in the log. */
  async entries(rows: readonly number[]): Promise<Entry[]> {
    const missing = rows.filter((row) => !this.#entries.has(row));
    const read = await this.reader.entries(missing);
    const found = new Map(read.map((entry, at) => [missing[at]!, entry]));
    for (const row of rows) {
      const entry = found.get(row) ?? this.#entries.get(row)!;
      found.set(row, entry);
      // What was asked for now goes last.
      this.#entries.delete(row);
      this.#entries.set(row, entry);
    }
    for (const row of this.#entries.keys()) {
      if (this.#entries.size <= Math.max(ENTRIES_KEPT, rows.length)) break;
      this.#entries.delete(row);
    }
    return rows.map((row) => found.get(row)!);
  }

  /** Reads what each entry cost, and where the cache broke, so that tree and timeline can show it. */
  async readCosts(): Promise<void> {
    this.spending = await this.reader.spending();
    this.#sumCosts();
    this.#tell();
    const breaks = await this.reader.breaks();
    this.breaks = new Map(breaks.map((one) => [one.row, one]));
    this.#tell();
  }

  async #readOutline({ length, labels }: SessionFacts): Promise<void> {
    while (this.rows.length < length) {
      const from = this.rows.length;
      this.rows.add(await this.reader.outline(from, Math.min(length, from + OUTLINE_RANGE)));
      if (this.rows.length === from) break;
    }
    this.labels = new Map(labels.map(({ row, label }) => [row, label]));
  }

  async #readGists(range: number): Promise<void> {
    this.#asked.add(range);
    const from = range * GIST_RANGE;
    // What could not be read is asked for again when it is drawn again.
    const gists = await this.reader.gists(from, from + GIST_RANGE).catch(() => []);
    for (const gist of gists) this.#gists.set(gist.row, gist);
    // The last range of a session that grows is asked for again.
    if (gists.length < GIST_RANGE) this.#asked.delete(range);
    if (gists.length > 0) this.#tell();
  }

  /** The end of the branch that an entry is on. */
  #endOf(row: number): number {
    let end = row;
    for (let next = row; next >= 0; next = this.layout.shape.straight(next)) end = next;
    return end;
  }

  #arrange(straight = this.tip): void {
    this.#straight = straight;
    this.path = this.rows.path(this.tip);
    const shown = this.path.filter((row) => !this.isFolded(row));
    // A path of nothing else is shown all the same.
    this.shownPath = shown.length > 0 ? shown : this.path;
    this.layout = layOutTree(this.rows, this.#layoutOptions());
    this.#markHidden();
    this.#sumCosts();
  }

  #markHidden(): void {
    const isActive = (row: number) => this.layout.active[row] === 1;
    this.#hiddenBefore = this.facts.compactions.findLast(({ row }) => isActive(row))?.firstKeptRow ?? 0;
    this.leftOut.clear();
    for (const { row, targetRow, hides } of this.facts.edits) {
      if (!isActive(row) || !isActive(targetRow)) continue;
      if (hides) this.leftOut.add(targetRow);
      else this.leftOut.delete(targetRow);
    }
  }

  #sumCosts(): void {
    this.lineCosts = new Float64Array(this.layout.rows.length);
    for (const [row, cost] of this.spending?.costs ?? []) {
      const line = this.layout.lineOf[row] ?? -1;
      if (line >= 0) this.lineCosts[line]! += cost;
    }
  }

  #layoutOptions(): LayoutOptions {
    const { fold, opened, labels, path } = this;
    return {
      tip: this.#straight,
      path,
      fold,
      opened,
      standsOut: labels,
      isFolded: (row) => this.isFolded(row),
    };
  }

  #tell(): void {
    for (const observer of this.#observers) observer();
  }
}

interface LayoutOptions {
  /** The row whose path goes straight down; -1 before the first entry. */
  tip: number;
  /** Rows of the path that is active. Default: that of `tip`. */
  path?: readonly number[];
  /** True where runs without a notable entry are one line. */
  fold: boolean;
  /** First rows of runs that are unfolded. */
  opened: ReadonlySet<number>;
  /** Rows that are never inside a run: labelled ones. */
  standsOut: { has(row: number): boolean };
  /** Returns whether a row has no line of its own. Default: none. */
  isFolded?(row: number): boolean;
}

/** Runs shorter than this stay as they are. */
const SHORTEST_RUN = 3;

/** Kinds that end a run: messages of people, and summaries. */
const OUTSTANDING = new Set(["u", "c", "f", "x", "b"]);

/** The lines of a drawing, from the top. Side branches come right below where they part, the straight one goes on after. */
interface TreeLayout {
  /** For each line, the row it shows; of a run, the first. */
  rows: Int32Array;
  /** For each line, the row whose words it shows: of a run, the first answer. */
  tellers: Int32Array;
  /** For each line, how many entries it shows: 1, or those of a run. */
  counts: Int32Array;
  /** For each line, its lane, from 0. */
  lanes: Uint8Array;
  /** For each line, the line it follows; -1 for a root. */
  parents: Int32Array;
  /** For each line, one bit for each lane that passes by. */
  passing: Uint32Array;
  /** Of those, the lanes of the active path. */
  passingActive: Uint32Array;
  /** For each line, 1 when its lane continues below. */
  goesOn: Uint8Array;
  /** For each row, its line; -1 for those beside the conversation. */
  lineOf: Int32Array;
  /** For each row, 1 on the active path. */
  active: Uint8Array;
  /** Number of lanes. */
  width: number;
  shape: DrawnTree;
}

export function layOutTree(tree: OutlineRows, options: LayoutOptions): TreeLayout {
  const shape = new DrawnTree(tree, options.tip);
  const length = tree.length;
  const layout: TreeLayout = {
    rows: new Int32Array(length),
    tellers: new Int32Array(length),
    counts: new Int32Array(length),
    lanes: new Uint8Array(length),
    parents: new Int32Array(length),
    passing: new Uint32Array(length),
    passingActive: new Uint32Array(length),
    goesOn: new Uint8Array(length),
    lineOf: new Int32Array(length).fill(-1),
    active: new Uint8Array(length),
    width: 0,
    shape,
  };
  const lines = placeLines(tree, shape, options, layout);
  for (const row of options.path ?? tree.path(options.tip)) layout.active[row] = 1;
  markPassing(layout, lines);
  return {
    ...layout,
    rows: layout.rows.subarray(0, lines),
    tellers: layout.tellers.subarray(0, lines),
    counts: layout.counts.subarray(0, lines),
    lanes: layout.lanes.subarray(0, lines),
    parents: layout.parents.subarray(0, lines),
    passing: layout.passing.subarray(0, lines),
    passingActive: layout.passingActive.subarray(0, lines),
    goesOn: layout.goesOn.subarray(0, lines),
  };
}

/** A branch that is still to be placed. */
interface Waiting {
  row: number;
  lane: number;
  /** The line it follows. */
  parent: number;
}

/** Returns the number of lines. */
function placeLines(tree: OutlineRows, shape: DrawnTree, options: LayoutOptions, layout: TreeLayout): number {
  const { rows, tellers, counts, lanes, parents, goesOn, lineOf } = layout;
  const { isFolded = () => false } = options;
  // A row with branches has a line, so that they have a place to part from.
  const folds = (row: number) => row >= 0 && isFolded(row) && !shape.parts(row);
  const next = nextRows(tree, shape, folds);
  const straightRoot = shape.roots.find((row) => shape.isActive(row)) ?? shape.roots.at(-1) ?? -1;
  const waiting: Waiting[] = [{ row: straightRoot, lane: 0, parent: -1 }];
  for (const row of shape.roots.filter((root) => root !== straightRoot).reverse())
    waiting.push({ row, lane: 1, parent: -1 });
  let line = 0;
  for (let branch = waiting.pop(); branch; branch = waiting.pop()) {
    const { lane } = branch;
    let { row, parent } = branch;
    // What a branch begins with is put on the line that it follows; of a root, on its first one.
    if (folds(row) && next[row]! >= 0)
      row = placeFolded(shape, folds, row, lineOf, parent < 0 ? line : parent);
    // The rest is a branch of nothing else: it has a line where it is all that there is.
    else if (folds(row) && parent >= 0) row = placeFolded(shape, folds, row, lineOf, parent);
    else if (folds(row) && row !== straightRoot) continue;
    // Entries of an opened run that are still to come.
    let opened = 0;
    while (row >= 0) {
      let run = opened > 0 ? [row] : runFrom(tree, shape, next, row, options);
      if (opened > 0) opened--;
      else if (run.length > 1 && options.opened.has(row)) {
        opened = run.length - 1;
        run = [row];
      }
      rows[line] = row;
      tellers[line] = run.find((member) => tree.kind(member) === "a") ?? row;
      lanes[line] = lane;
      parents[line] = parent;
      counts[line] = run.length;
      let after = row;
      let last = row;
      for (const member of run) {
        lineOf[member] = line;
        last = member;
        after = shape.straight(member);
        if (folds(after)) after = placeFolded(shape, folds, after, lineOf, line);
      }
      layout.width = Math.max(layout.width, lane + 1);
      parent = line++;
      row = after;
      if (row >= 0) goesOn[parent] = 1;
      if (!shape.parts(last)) continue;
      waiting.push({ row, lane, parent });
      for (const aside of shape.aside(last).reverse()) waiting.push({ row: aside, lane: lane + 1, parent });
      break;
    }
  }
  return line;
}

/** Puts a row and the folded ones straight below it on a line; returns the row after them, -1 at the end. */
function placeFolded(
  shape: DrawnTree,
  folds: (row: number) => boolean,
  row: number,
  lineOf: Int32Array,
  line: number,
): number {
  let at = row;
  for (; folds(at); at = shape.straight(at)) lineOf[at] = line;
  return at;
}

/** For each row the next one straight below it that is not folded; -1 at the end of a branch. */
function nextRows(tree: OutlineRows, shape: DrawnTree, folds: (row: number) => boolean): Int32Array {
  const next = new Int32Array(tree.length);
  for (let row = tree.length - 1; row >= 0; row--) {
    const below = shape.straight(row);
    next[row] = folds(below) ? next[below]! : below;
  }
  return next;
}

/** The run that begins with a row: rows in which nothing stands out, one straight below the other. Or the row alone. */
function runFrom(
  tree: OutlineRows,
  shape: DrawnTree,
  next: Int32Array,
  row: number,
  { fold, standsOut }: LayoutOptions,
): number[] {
  const inRun = (at: number) =>
    at >= 0 && !OUTSTANDING.has(tree.kind(at)) && !standsOut.has(at) && !shape.parts(at) && next[at]! >= 0;
  const run: number[] = [];
  for (let at = row; fold && inRun(at); at = next[at]!) run.push(at);
  return run.length < SHORTEST_RUN ? [row] : run;
}

/** Marks an entry's lane on the lines of the side branches between it and the entry that continues it. */
function markPassing(
  { rows, parents, lanes, active, passing, passingActive }: TreeLayout,
  lines: number,
): void {
  for (let line = 0; line < lines; line++) {
    const parent = parents[line]!;
    if (parent < 0 || lanes[parent] !== lanes[line]) continue;
    const lane = 1 << lanes[line]!;
    const isActive = active[rows[line]!] === 1;
    for (let at = parent + 1; at < line; at++) {
      passing[at]! |= lane;
      if (isActive) passingActive[at]! |= lane;
    }
  }
}
