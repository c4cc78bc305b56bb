import { rulesOn } from "@espalier/compaction";
import { compareBranches, forecastNavigation } from "@espalier/engine/reading";
import { EspalierError } from "@espalier/jsonl-stream";
import { pathRows, roleAt, rowOfLeaf, type Tree } from "@espalier/session-tree";
import { compactionAt, originsOf } from "./compaction.ts";
import { contextViewAt, growthTo } from "./context.ts";
import { type EntryGist, gistAt } from "./entry-gist.ts";
import { branchEnds, factsOf, findText, type RowFinder } from "./facts.ts";
import { outlineOf } from "./outline.ts";
import { cacheBreaksOf, spendingOf, statsAt } from "./spending.ts";

/** Reads a session from its bytes. */
export type TreeReader = ReturnType<typeof treeReader>;

/**
 * Requests of a page about a session. They are answered from the session's bytes if the page has them, else over HTTP,
 * with equal results. Every method throws `unknown-entry` for a missing row.
 */
export type SessionReader = Omit<TreeReader, "tree">;

/**
 * Makes the reader of a tree. Rows and ends of ranges are numbers; a row of -1 is the place before the first entry.
 *
 * @param rowsWith makes searches faster
 */
export function treeReader(tree: Tree, rowsWith?: RowFinder) {
  const known = (row: number): number => {
    if (Number.isInteger(row) && row >= 0 && row < tree.length) return row;
    throw new EspalierError(
      "unknown-entry",
      `This session has no row ${row}; its last is ${tree.length - 1}.`,
    );
  };
  return {
    tree,
    facts: async () => factsOf(tree),
    /** Returns the outline of the rows `[from, to)`, or of as many as exist. */
    outline: async (from: number, to: number) => outlineOf(tree, from, to),
    async gists(from: number, to: number) {
      const gists: EntryGist[] = [];
      for (let row = from; row < Math.min(to, tree.length); row++) gists.push(gistAt(tree, row));
      return gists;
    },
    /** Returns entries as they are in the log. */
    entries: async (rows: readonly number[]) => rows.map((row) => tree.entryAt(known(row))),
    /** Returns the row of an id; -1 for an unknown id. */
    rowOf: async (id: string) => tree.index.rowOf(id),
    context: async (row: number) => contextViewAt(tree, row < 0 ? -1 : known(row)),
    growth: async (row: number) => growthTo(tree, row < 0 ? -1 : known(row)),
    spending: async () => spendingOf(tree),
    stats: async () => statsAt(tree),
    /** Breaks of the prompt cache, in file order. */
    breaks: async () => cacheBreaksOf(tree),
    compaction: async (row: number) => compactionAt(tree, row),
    /** Returns the user's rules that apply at a row, oldest first. */
    rules: async (row: number) =>
      row < 0 ? [] : rulesOn(rowsOfRules(tree, known(row)).map((at) => tree.entryAt(at))),
    origins: async (compactionRow: number, line: string) => originsOf(tree, compactionRow, line),
    find: async (query: string, signal?: AbortSignal) =>
      findText(tree, query, { ...(rowsWith ? { rowsWith } : {}), ...(signal ? { signal } : {}) }),
    /** Returns the ends of all branches, newest first. */
    branches: async () => branchEnds(tree),
    /** Compares two branches, given by their last rows. */
    compare: async (a: number, b: number) => compareBranches(tree, tree.idAt(known(a)), tree.idAt(known(b))),
    /** Returns the effect of a navigation from the leaf to a row on the prompt cache. */
    forecast: async (row: number) => forecastNavigation(tree, rowOfLeaf(tree), known(row)),
  };
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
