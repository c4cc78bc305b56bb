import type { Entry } from "@espalier/session-tree";
import type { EntryGist } from "../../model/entry-gist.ts";
import type { SessionFacts } from "../../model/facts.ts";
import { OutlineRows } from "../../model/outline.ts";
import type { CacheBreakPoint } from "../../model/spending.ts";
import type { SessionReader } from "../../model/tree-reader.ts";
import { type LayoutOptions, layOutTree, type TreeLayout } from "../tree/tree-layout.ts";

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
  /** The entry that is looked at; on the path of `tip`. */
  selected = -1;
  fold = true;
  readonly opened = new Set<number>();
  layout: TreeLayout;
  path: number[] = [];
  labels = new Map<number, string>();
  /** Rows of the path that an edit on it keeps from the model. */
  readonly leftOut = new Set<number>();
  /** The row before which the newest compaction of the path hides what stands there; 0 when there is none. */
  #hiddenBefore = 0;
  /** Dollars by line of the layout, once they are known. */
  lineCosts = new Float64Array(0);
  #costs: readonly [number, number][] = [];
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
    model.selected = model.tip;
    model.#arrange();
    return model;
  }

  /** Tells of every change; returns the function that ends it. */
  subscribe(observer: () => void): () => void {
    this.#observers.add(observer);
    return () => this.#observers.delete(observer);
  }

  /** Looks at an entry. One that is not on the path shown brings its own branch, to its end. */
  select(row: number): void {
    const isThere = row >= 0 && row < this.rows.length;
    if (!isThere || !this.rows.kindAt(row).movesLeaf) return;
    this.selected = row;
    if (this.layout.active[row] !== 1) {
      this.tip = this.#endOf(row);
      this.#arrange();
    }
    this.#tell();
  }

  /** Shows the path to an entry and nothing beyond; looks at its end where `selected` is not on it. */
  show(end: number, selected = end): void {
    if (end >= this.rows.length) return;
    // An entry that stands beside the conversation ends no path: the one above it does.
    this.tip = this.rows.path(end).at(-1) ?? -1;
    this.#arrange();
    this.selected = this.path.includes(selected) ? selected : this.tip;
    this.#tell();
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
      // Whoever asked is told of its failure; the next one tries again.
      this.#growing = growing.catch(() => undefined);
      return growing;
    });
    return this.#next;
  }

  async #takeIn(): Promise<void> {
    const followed = this.tip === this.facts.leafRow;
    const atEnd = this.selected === this.tip;
    const facts = await this.reader.facts();
    await this.#readOutline(facts);
    this.facts = facts;
    if (followed) {
      this.tip = facts.leafRow;
      if (atEnd || !this.rows.path(this.tip).includes(this.selected)) this.selected = this.tip;
    }
    this.#arrange();
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

  /** Entries, as they stand in the log. */
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
    const { costs, breaks } = await this.reader.spending();
    this.#costs = costs;
    this.breaks = new Map(breaks.map((one) => [one.row, one]));
    this.#sumCosts();
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
    const { lineOf, goesOn, rows, parents, lanes } = this.layout;
    let line = lineOf[row]!;
    if (line < 0) return row;
    while (goesOn[line] === 1) {
      let next = line + 1;
      while (parents[next] !== line || lanes[next] !== lanes[line]) next++;
      line = next;
    }
    // A branch never ends inside a run: the last line is one entry.
    return rows[line]!;
  }

  #arrange(): void {
    this.path = this.rows.path(this.tip);
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
    for (const [row, cost] of this.#costs) {
      const line = this.layout.lineOf[row] ?? -1;
      if (line >= 0) this.lineCosts[line]! += cost;
    }
  }

  #layoutOptions(): LayoutOptions {
    const { tip, fold, opened, labels } = this;
    return { tip, fold, opened, standsOut: labels };
  }

  #tell(): void {
    for (const observer of this.#observers) observer();
  }
}
