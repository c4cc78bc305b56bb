// Separate from session-view.tsx: it is pure: rows and figures of a session, without a page.
import { DrawnTree, type Entry } from "@espalier/session-tree";
import type { EntryGist } from "../../model/entry-gist.ts";
import { oneAfterTheOther } from "../../model/long-work.ts";
import { BOOKKEEPING, OutlineRows } from "../../model/outline.ts";
import type { CacheBreakPoint, SessionFacts, SessionReader, Spending } from "../../model/tree-reader.ts";

/** Number of rows whose outline is requested at once, and whose gists are. */
const OUTLINE_RANGE = 200_000;
const GIST_RANGE = 128;

/** Maximum number of cached entries, or those of the last request if they are more; the least recently used go first. */
const ENTRIES_KEPT = 600;

/** The session that a page shows: its whole structure, and the entries that were requested. */
export class SessionModel {
  readonly reader: SessionReader;
  facts: SessionFacts;
  readonly rows = new OutlineRows();
  /** Last row of the shown path; -1 before the first entry. */
  tip = -1;
  /** Last row of the path that the tree draws straight down: `tip`, or the earlier `tip` after a step by key. */
  #straight = -1;
  /** Selected row, on the path of `tip`. */
  selected = -1;
  fold = true;
  /** True: bookkeeping has lines and cards like other entries. False: it is folded. */
  showsBookkeeping = false;
  readonly opened = new Set<number>();
  layout: TreeLayout;
  path: number[] = [];
  /** Visible rows of the path; without bookkeeping while it is folded. */
  shownPath: number[] = [];
  labels = new Map<number, string>();
  /** Rows of the path that an edit hides from the model. */
  readonly leftOut = new Set<number>();
  /**
   * First row of the path that the newest compaction keeps; 0 without a compaction. Earlier rows are hidden from the
   * model.
   */
  #hiddenBefore = 0;
  /** Cost in dollars by line of the layout, once known. */
  lineCosts = new Float64Array(0);
  /** Cost over time, once it is known. */
  spending: Spending | undefined;
  /** Breaks of the prompt cache by the row of their call, once they are known. */
  breaks: ReadonlyMap<number, CacheBreakPoint> = new Map();
  readonly #gists = new Map<number, EntryGist>();
  readonly #asked = new Set<number>();
  readonly #entries = new Map<number, Entry>();
  readonly #observers = new Set<() => void>();
  /** Number of selections so far. An answer for an earlier selection is not used. */
  selections = 0;
  /** Entry to show when the page has read its own change, unless the user selects another one before. */
  #shows: { as: "leaf" | "selected"; since: number } | undefined;
  /**
   * Reads new entries; a selection on the leaf follows the leaf. Calls run one after the other, because each continues
   * from the end of the previous one.
   */
  readonly grow = oneAfterTheOther(() => this.#takeIn());
  /** Reads the cost of each entry and the cache breaks, for tree and timeline. */
  readonly readCosts = oneAfterTheOther(() => this.#readCosts());

  private constructor(reader: SessionReader, facts: SessionFacts) {
    this.reader = reader;
    this.facts = facts;
    this.layout = layOutTree(this.rows, this.#layoutOptions());
  }

  /** Opens a session and reads its structure. */
  static async open(reader: SessionReader): Promise<SessionModel> {
    // Both are requested at once, because one range is enough for most sessions.
    const [facts, outline] = await Promise.all([reader.facts(), reader.outline(0, OUTLINE_RANGE)]);
    const model = new SessionModel(reader, facts);
    model.rows.add(outline);
    await model.#readOutline(facts);
    model.tip = model.facts.leafRow;
    model.#arrange();
    model.selected = model.end;
    return model;
  }

  /** Last visible entry of the shown path, mostly the last message. -1 before the first entry. */
  get end(): number {
    return this.shownPath.at(-1) ?? -1;
  }

  /** Calls `observer` on every change; returns a function that ends this. */
  subscribe(observer: () => void): () => void {
    this.#observers.add(observer);
    return () => this.#observers.delete(observer);
  }

  /** Selects an entry of the conversation; other rows are ignored. Off the shown path, its own branch is shown, to its end. */
  select(row: number): void {
    this.#look(row, () => this.#arrange());
  }

  /** Selects an entry like {@link select}, but keeps the order of the tree's lines, so that repeated keys move on. */
  step(row: number): void {
    this.#look(row, () => this.#arrange(this.#straight));
  }

  #look(row: number, arrange: () => void): void {
    const isThere = row >= 0 && row < this.rows.length;
    if (!isThere || !this.rows.kindAt(row).movesLeaf) return;
    this.selections++;
    this.selected = row;
    if (this.layout.active[row] !== 1) {
      this.tip = this.layout.shape.end(row);
      arrange();
    }
    this.#tell();
  }

  /** Shows the path to an entry, without later entries. Selects its end if `selected` is absent or not on the path. */
  show(end: number, selected = -1): void {
    if (end >= this.rows.length) return;
    this.selections++;
    // An entry that is not part of the conversation does not end a path; its nearest ancestor that is does.
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

  /** Returns whether a row is bookkeeping that is folded now. */
  isFolded(row: number): boolean {
    return !this.showsBookkeeping && BOOKKEEPING.has(this.rows.kind(row)) && !this.labels.has(row);
  }

  setFold(fold: boolean): void {
    this.fold = fold;
    this.opened.clear();
    this.#arrange();
    this.#tell();
  }

  /** Unfolds the run whose line begins with a row. */
  openRun(row: number): void {
    this.opened.add(row);
    this.#arrange();
    this.#tell();
  }

  /** Returns whether a compaction of the path replaces an entry, so that the model no longer reads it. */
  isHidden(row: number): boolean {
    return this.layout.active[row] === 1 && row < this.#hiddenBefore && this.rows.kind(row) !== "c";
  }

  /** Reads a change that the page has made, and shows the leaf, or stays on the selected entry. */
  growTo(shows: "leaf" | "selected"): Promise<void> {
    this.#shows = { as: shows, since: this.selections };
    return this.grow();
  }

  async #takeIn(): Promise<void> {
    const asked = this.#shows;
    const facts = await this.reader.facts();
    // Another file has taken the place of the session's; the page opens it again.
    if (facts.length < this.rows.length) return;
    await this.#readOutline(facts);
    // The user may have selected another entry meanwhile.
    const shows = this.#shows?.since === this.selections ? this.#shows.as : undefined;
    const followed = shows === "leaf" || this.tip === this.facts.leafRow;
    const toEnd = shows === undefined ? this.selected === this.end : shows === "leaf";
    // A change that was made during this reading is in the next one.
    if (asked === this.#shows) this.#shows = undefined;
    this.facts = facts;
    if (followed) this.tip = facts.leafRow;
    this.#arrange();
    if (followed && (toEnd || this.layout.active[this.selected] !== 1)) this.selected = this.end;
    this.#tell();
    // The costs follow when they are known. If they cannot be read, the next growth reads them too.
    this.readCosts().catch(() => undefined);
  }

  /** Returns the text of a row as one line; undefined while it is loaded. */
  gist(row: number): EntryGist | undefined {
    const gist = this.#gists.get(row);
    const range = Math.floor(row / GIST_RANGE);
    if (!gist && !this.#asked.has(range)) void this.#readGists(range);
    return gist;
  }

  /** Returns entries as they are in the log. */
  async entries(rows: readonly number[]): Promise<Entry[]> {
    // Another request may drop entries from the cache while this one waits.
    const found = new Map(rows.map((row) => [row, this.#entries.get(row)]));
    const missing = rows.filter((row) => !found.get(row));
    for (const [at, entry] of (await this.reader.entries(missing)).entries()) found.set(missing[at]!, entry);
    for (const [row, entry] of found) {
      // Requested entries become the most recently used.
      this.#entries.delete(row);
      this.#entries.set(row, entry!);
    }
    for (const row of this.#entries.keys()) {
      if (this.#entries.size <= Math.max(ENTRIES_KEPT, rows.length)) break;
      this.#entries.delete(row);
    }
    return rows.map((row) => found.get(row)!);
  }

  async #readCosts(): Promise<void> {
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
    // A failed request is repeated when the rows are drawn again.
    const gists = await this.reader.gists(from, from + GIST_RANGE).catch(() => []);
    for (const gist of gists) this.#gists.set(gist.row, gist);
    // The last range of a growing session is requested again.
    if (gists.length < GIST_RANGE) this.#asked.delete(range);
    if (gists.length > 0) this.#tell();
  }

  #arrange(straight = this.tip): void {
    this.#straight = straight;
    this.path = this.rows.path(this.tip);
    const shown = this.path.filter((row) => !this.isFolded(row));
    // A path of only bookkeeping is shown in full.
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
  /** Last row of the path that goes straight down; -1 before the first entry. */
  tip: number;
  /** Rows of the active path. Default: the path of `tip`. */
  path?: readonly number[];
  /** True: a run without a notable entry is one line. */
  fold: boolean;
  /** First rows of unfolded runs. */
  opened: ReadonlySet<number>;
  /** Rows that never belong to a run, such as labelled ones. */
  standsOut: { has(row: number): boolean };
  /** Returns whether a row has no line of its own. Default: every row has one. */
  isFolded?(row: number): boolean;
}

/** Minimum length of a run that is folded. */
const SHORTEST_RUN = 3;

/** Kinds that end a run: messages of people, and summaries. */
const OUTSTANDING = new Set(["u", "c", "f", "x", "b"]);

/**
 * Lines of a drawing from top to bottom. Side branches come directly below their fork; the main path continues after
 * them. There are as many lines as `rows`; the other arrays may be longer.
 */
interface TreeLayout {
  /** For each line, the row that it shows; for a run, its first row. */
  rows: Int32Array;
  /** For each line, the row whose text it shows; for a run, its first answer, or its first row if it has none. */
  tellers: Int32Array;
  /** For each line, the number of entries: 1, or those of a run. */
  counts: Int32Array;
  /** For each line, its lane, from 0. */
  lanes: Uint8Array;
  /** For each line, the line of its parent; -1 for a root. */
  parents: Int32Array;
  /** For each line, one bit for each lane that passes it: {@link DrawnTree} keeps a billion entries within 32 lanes. */
  passing: Uint32Array;
  /** The same for lanes of the active path only. */
  passingActive: Uint32Array;
  /** For each line, 1 if its lane continues below. */
  goesOn: Uint8Array;
  /** For each row, its line; -1 for rows without one, such as those that are not part of the conversation. */
  lineOf: Int32Array;
  /** For each row, 1 if it is on the active path. */
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
  return { ...layout, rows: layout.rows.subarray(0, lines) };
}

/** Gives each row its line; returns the number of lines. */
function placeLines(tree: OutlineRows, shape: DrawnTree, options: LayoutOptions, layout: TreeLayout): number {
  const { rows, tellers, counts, lanes, parents, goesOn, lineOf } = layout;
  const { fold, opened, standsOut, isFolded = () => false } = options;
  const drawn = shape.order();
  // A row with branches always has a line, from which they fork.
  const folds = (row: number) => isFolded(row) && !shape.parts(row);
  const above = (row: number) => {
    let at = shape.parent(row);
    while (at >= 0 && folds(at)) at = shape.parent(at);
    return at;
  };
  let line = 0;
  const place = (members: readonly number[], lane: number) => {
    const row = members[0]!;
    const parent = lineOf[above(row)] ?? -1;
    rows[line] = row;
    tellers[line] = members.find((member) => tree.kind(member) === "a") ?? row;
    counts[line] = members.length;
    lanes[line] = lane;
    parents[line] = parent;
    if (parent >= 0 && lanes[parent] === lane) goesOn[parent] = 1;
    for (const member of members) lineOf[member] = line;
    layout.width = Math.max(layout.width, lane + 1);
    line++;
  };
  /** Rows without notable entries, each directly below the other. */
  let run: number[] = [];
  let runLane = 0;
  const endRun = () => {
    const isOneLine = run.length >= SHORTEST_RUN && !opened.has(run[0]!);
    for (const members of isOneLine ? [run] : run.map((row) => [row])) place(members, runLane);
    run = [];
  };
  // The last entry of a branch has its own line.
  const endBranch = () => {
    const last = run.splice(-1);
    endRun();
    if (last.length > 0) place(last, runLane);
  };
  for (let at = 0; at < drawn.rows.length; at++) {
    const [row, lane] = [drawn.rows[at]!, drawn.depths[at]!];
    if (folds(row)) continue;
    if (run.length > 0 && above(row) !== run.at(-1)) endBranch();
    if (fold && !OUTSTANDING.has(tree.kind(row)) && !standsOut.has(row) && !shape.parts(row)) {
      run.push(row);
      runLane = lane;
    } else {
      endRun();
      place([row], lane);
    }
  }
  endBranch();
  // A main path of only folded rows has one line.
  const main = shape.roots.find((row) => !shape.isAside(row)) ?? -1;
  if (main >= 0 && folds(drawn.rows.at(-1)!) && above(drawn.rows.at(-1)!) < 0) place([main], 0);
  // Folded rows belong to the line above them; at a root, to the first line below them.
  for (const row of drawn.rows) if (lineOf[row]! < 0) lineOf[row] = lineOf[shape.parent(row)] ?? -1;
  for (const row of drawn.rows.reverse())
    if (lineOf[row]! < 0) lineOf[row] = lineOf[shape.straight(row)] ?? -1;
  return line;
}

/** Marks an entry's lane on the lines of the side branches before the entry that continues it. */
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
