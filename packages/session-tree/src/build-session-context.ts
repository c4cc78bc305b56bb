import { contextOfPath } from "./context.ts";
import type { Entry } from "./entry.ts";
import { kindOf } from "./entry-kinds.ts";
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
  const path: Entry[] = [];
  let wanted = leafId;
  let seeking = true;
  // From the last entry upwards: a reference means the nearest entry above the one that refers.
  for (let at = entries.length - 1; at >= 0 && wanted !== null; at--) {
    const entry = entries[at]!;
    if (wanted !== undefined && entry.id !== wanted) continue;
    const kind = kindOf(entry.type);
    const target = seeking ? kind.leafTarget?.(entry) : undefined;
    if (target !== undefined) wanted = target;
    else {
      if (!seeking || kind.movesLeaf) {
        seeking = false;
        path.push(entry);
      }
      wanted = entry.parentId;
    }
  }
  if (seeking && leafId !== undefined && leafId !== null && wanted === leafId) {
    throw new SessionTreeError(
      "unknown-entry",
      `There is no entry ${JSON.stringify(leafId)} among the ${entries.length} given.`,
    );
  }
  return contextOfPath(path.reverse());
}
