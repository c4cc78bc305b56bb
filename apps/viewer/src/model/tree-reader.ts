import { type BranchComparison, compareBranches, type SessionStats, statsOf } from "@espalier/engine/reading";
import { EspalierError } from "@espalier/jsonl-stream";
import type { Entry, Tree } from "@espalier/session-tree";
import { type CompactionView, compactionAt, originsOf, type SummaryOrigin } from "./compaction.ts";
import { type ContextGrowth, type ContextView, contextViewAt, growthTo } from "./context.ts";
import { type EntryGist, gistAt } from "./entry-gist.ts";
import { type FoundText, factsOf, findText, type SessionFacts } from "./facts.ts";
import { type Outline, outlineOf } from "./outline.ts";
import type { SessionReader } from "./session-reader.ts";
import { type Spending, spendingOf } from "./spending.ts";

/** Reads a session whose bytes are at hand. */
export class TreeReader implements SessionReader {
  readonly tree: Tree;

  constructor(tree: Tree) {
    this.tree = tree;
  }

  async facts(): Promise<SessionFacts> {
    return factsOf(this.tree);
  }

  async outline(from: number, to: number): Promise<Outline> {
    return outlineOf(this.tree, from, to);
  }

  async gists(from: number, to: number): Promise<EntryGist[]> {
    const rows = Array.from(
      { length: Math.max(0, Math.min(to, this.tree.length) - from) },
      (_, at) => from + at,
    );
    return rows.map((row) => gistAt(this.tree, row));
  }

  async entries(rows: readonly number[]): Promise<Entry[]> {
    return rows.map((row) => this.tree.entryAt(this.#known(row)));
  }

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
    return statsOf(this.tree);
  }

  async compaction(row: number): Promise<CompactionView> {
    return compactionAt(this.tree, row);
  }

  async origins(compactionRow: number, line: string): Promise<SummaryOrigin[]> {
    return originsOf(this.tree, compactionRow, line);
  }

  async find(query: string): Promise<FoundText[]> {
    return findText(this.tree, query);
  }

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
