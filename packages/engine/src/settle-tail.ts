import { setTimeout } from "node:timers/promises";
import type { SessionTree, Tree } from "@espalier/session-tree";

/** Milliseconds after which a last line that did not grow is taken for abandoned: one write takes far less. */
const QUIET_MS = 100;

/** So often the last line is looked at; who writes all the time has one under way at every second look. */
const LOOKS = 20;

/**
 * Waits until the last line of a log has an end, or until nobody goes on with it: what a reader sees of a line that
 * somebody is busy writing is no damage. Costs nothing where the last line is whole.
 */
export async function settleTail({ core }: { readonly core: SessionTree }): Promise<void> {
  for (let look = 0, size = -1; look < LOOKS && hasOpenEnd(core.tree); look += 1) {
    if (core.tree.view.size === size) return;
    size = core.tree.view.size;
    await setTimeout(QUIET_MS);
    await core.refresh();
  }
}

function hasOpenEnd({ issues }: Tree): boolean {
  const last = issues.at(-1)?.kind;
  return last === "torn-tail" || last === "unterminated-tail";
}
