import type { ByteView } from "@espalier/jsonl-stream";
import { type PathWindow, PathWindowBuilder } from "./path-window.ts";
import { pathWindowAt } from "./path-window-at.ts";
import type { SessionLog } from "./session-store.ts";
import { SessionTreeError } from "./session-tree-error.ts";
import type { Tree } from "./tree.ts";

/** The bytes of a log. Throws `not-loaded` where they are not within reach. */
export function viewOf({ view }: SessionLog): ByteView {
  if (view) return view;
  throw new SessionTreeError("not-loaded", "The whole session is not loaded yet; await load() first.");
}

/** The window of a leaf of the log; a promise where the log lies elsewhere, of which no more is fetched. */
export function windowAt(
  log: SessionLog,
  tree: () => Tree,
  leafId: string | null,
): PathWindow | Promise<PathWindow> {
  if (leafId === null) return new PathWindowBuilder().finish(null);
  return log.view ? pathWindowAt(tree(), tree().row(leafId)) : log.readPath(leafId);
}

/** What `act` answers; where it needs more of a log than is within reach, all of it is fetched, and it is asked again. */
export async function withinReach<Result>(log: SessionLog, act: () => Result): Promise<Result> {
  try {
    return act();
  } catch (error) {
    if (!(error instanceof SessionTreeError && error.code === "not-loaded")) throw error;
    await log.load();
    return act();
  }
}
