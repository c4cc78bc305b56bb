import type { Session } from "@espalier/engine";
import { isMessage, isOnPath, labelsInForce, pathRows } from "@espalier/session-tree";

/** Where the demo goes: an entry, and what it is called. */
export interface DemoPlace {
  id: string;
  /** Its label; undefined where the session has none that would do. */
  label: string | undefined;
}

/**
 * A place worth going to: the first labelled entry on the leaf's path that something follows; without one, the end of
 * a turn in the middle of the path. Undefined when there is nothing behind the leaf.
 */
export function demoPlace({ tree, leafId }: Session): DemoPlace | undefined {
  if (leafId === null) return undefined;
  const leafRow = tree.row(leafId);
  for (const [id, { label }] of labelsInForce(tree)) {
    if (tree.has(id) && tree.row(id) < leafRow && isOnPath(tree, tree.row(id), leafRow)) return { id, label };
  }
  const path = pathRows(tree, leafRow);
  const middle = Math.floor(path.length / 2);
  const turnEnds = path.flatMap((row, at) =>
    at > 0 && isMessage(tree.entryAt(row), "user") ? [path[at - 1]!] : [],
  );
  const row = turnEnds.find((end) => end >= path[middle]!) ?? turnEnds.at(-1) ?? path[middle]!;
  return row < leafRow ? { id: tree.idAt(row), label: undefined } : undefined;
}
