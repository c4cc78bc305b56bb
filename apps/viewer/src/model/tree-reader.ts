import { type Rule, rulesOn } from "@espalier/compaction";
import {
  type BranchComparison,
  type CacheForecast,
  compareBranches,
  forecastNavigation,
  type SessionStats,
} from "@espalier/engine/reading";
import { EspalierError } from "@espalier/jsonl-stream";
import { type Entry, leafRowAt, pathRows, roleAt, type Tree } from "@espalier/session-tree";
import { type CompactionView, compactionAt, originsOf, type SummaryOrigin } from "./compaction.ts";
import { type ContextGrowth, type ContextView, contextViewAt, growthTo } from "./context.ts";
import { type EntryGist, gistAt } from "./entry-gist.ts";
import {
  type BranchEnd,
  branchEnds,
  type FoundTexts,
  factsOf,
  findText,
  type RowFinder,
  type SessionFacts,
} from "./facts.ts";
import { type Outline, outlineOf } from "./outline.ts";
import { type CacheBreakPoint, cacheBreaksOf, type Spending, spendingOf, statsAt } from "./spending.ts";

/**
 * Requests of a page about a session. They are answered from the session's bytes if the page has them, else over HTTP,
 * with equal results. Every method throws `unknown-entry` for a missing row.
 */
export type SessionReader = Omit<TreeReader, "tree">;

/** Reads a session from its bytes. */
export class TreeReader {
  readonly tree: Tree;
  readonly #rowsWith: RowFinder | undefined;

  /** @param rowsWith makes searches faster */
  constructor(tree: Tree, rowsWith?: RowFinder) {
    this.tree = tree;
    this.#rowsWith = rowsWith;
  }

  async facts(): Promise<SessionFacts> {
    return factsOf(this.tree);
  }

  /** Returns the outline of the rows `[from, to)`, or of as many as exist. */
  async outline(from: number, to: number): Promise<Outline> {
    return outlineOf(this.tree, from, to);
  }

  async gists(from: number, to: number): Promise<EntryGist[]> {
    const gists: EntryGist[] = [];
    for (let row = from; row < Math.min(to, this.tree.length); row++) gists.push(gistAt(this.tree, row));
    return gists;
  }

  /** Returns entries as they are in the log. */
  async entries(rows: readonly number[]): Promise<Entry[]> {
    return rows.map((row) => this.tree.entryAt(this.#known(row)));
  }

  /** Returns the row of an id; -1 for an unknown id. */
  async rowOf(id: string): Promise<number> {
    return this.tree.index.rowOf(id);
  }

  async context(row: number): Promise<ContextView> {
    return contextViewAt(this.tree, row < 0 ? -1 : this.#known(row));
  }

  async growth(row: number): Promise<ContextGrowth> {
    return growthTo(this.tree, row < 0 ? -1 : this.#known(row));
  }

  async spending(): Promise<Spending> {
    return spendingOf(this.tree);
  }

  async stats(): Promise<SessionStats> {
    return statsAt(this.tree);
  }

  /** Breaks of the prompt cache, in file order. */
  async breaks(): Promise<CacheBreakPoint[]> {
    return cacheBreaksOf(this.tree);
  }

  async compaction(row: number): Promise<CompactionView> {
    return compactionAt(this.tree, row);
  }

  /** Returns the user's rules that apply at a row, oldest first. */
  async rules(row: number): Promise<Rule[]> {
    return row < 0
      ? []
      : rulesOn(rowsOfRules(this.tree, this.#known(row)).map((at) => this.tree.entryAt(at)));
  }

  async origins(compactionRow: number, line: string): Promise<SummaryOrigin[]> {
    return originsOf(this.tree, compactionRow, line);
  }

  async find(query: string, signal?: AbortSignal): Promise<FoundTexts> {
    const rowsWith = this.#rowsWith;
    return findText(this.tree, query, { ...(rowsWith ? { rowsWith } : {}), ...(signal ? { signal } : {}) });
  }

  async branches(): Promise<BranchEnd[]> {
    return branchEnds(this.tree);
  }

  /** Returns the effect of a navigation from the leaf to a row on the prompt cache. */
  async forecast(row: number): Promise<CacheForecast> {
    return forecastNavigation(this.tree, leafRowAt(this.tree, this.tree.lastRow), this.#known(row));
  }

  /** Compares two branches, given by their last rows. */
  async compare(a: number, b: number): Promise<BranchComparison> {
    const [idA, idB] = [a, b].map((row) => this.tree.idAt(this.#known(row)));
    return compareBranches(this.tree, idA!, idB!);
  }

  #known(row: number): number {
    if (Number.isInteger(row) && row >= 0 && row < this.tree.length) return row;
    throw new EspalierError(
      "unknown-entry",
      `This session has no row ${row}; its last is ${this.tree.length - 1}.`,
    );
  }
}

/**
 * Returns the rows of a path from which rules come. Results of tools are left out, and all answers but the last one
 * before each prompt.
 */
function rowsOfRules(tree: Tree, row: number): number[] {
  const rows: number[] = [];
  let answer = -1;
  for (const at of pathRows(tree, row)) {
    const role = roleAt(tree, at);
    if (role === "assistant") answer = at;
    if (role === "assistant" || role === "toolResult") continue;
    if (role === "user" && answer >= 0) rows.push(answer);
    if (role === "user") answer = -1;
    rows.push(at);
  }
  return rows;
}
