import { ArrayRows } from "./array-rows.ts";
import { contextOfPath } from "./context.ts";
import type { Entry } from "./entry.ts";
import { leafRowAt, movingRow } from "./leaf.ts";
import { pathWindowAt } from "./path-window-at.ts";
import type { SessionContext } from "./session-context.ts";
import { SessionTreeError } from "./session-tree-error.ts";
import { Tree } from "./tree.ts";

/**
 * What a session says to a model at a leaf: the one function behind every request, count and display.
 *
 * @param source a tree, something that has one (a session), or entries in file order
 * @param leafId the leaf; by default where opening the log would stand. null is before the first entry. For an entry
 *   that cannot be the leaf (a label), its nearest ancestor that can
 * @throws SessionTreeError `unknown-entry`
 */
export function buildSessionContext(
  source: Tree | { readonly tree: Tree; readonly leafId?: string | null } | readonly Entry[],
  leafId?: string | null,
): SessionContext {
  if (source instanceof Tree) return contextOfTree(source, leafId);
  if ("tree" in source) return contextOfTree(source.tree, leafId === undefined ? source.leafId : leafId);
  return contextOfEntries(source, leafId);
}

function contextOfTree(tree: Tree, leafId: string | null | undefined): SessionContext {
  const row =
    leafId === undefined
      ? leafRowAt(tree, tree.lastRow)
      : leafId === null
        ? -1
        : movingRow(tree, tree.row(leafId));
  const window = pathWindowAt(tree, row);
  return contextOfPath(window.entries, window.before);
}

function contextOfEntries(entries: readonly Entry[], leafId: string | null | undefined): SessionContext {
  const rows = new ArrayRows(entries);
  const path: Entry[] = [];
  for (let row = leafAmong(entries, rows, leafId); row >= 0; row = rows.index.parent(row))
    path.push(rows.entryAt(row));
  return contextOfPath(path.reverse());
}

function leafAmong(entries: readonly Entry[], rows: ArrayRows, leafId: string | null | undefined): number {
  if (leafId === undefined) return leafRowAt(rows, entries.length - 1);
  if (leafId === null) return -1;
  const row = rows.rowOf(leafId);
  if (row >= 0) return movingRow(rows, row);
  throw new SessionTreeError(
    "unknown-entry",
    `There is no entry ${JSON.stringify(leafId)} among the ${entries.length} given.`,
  );
}
