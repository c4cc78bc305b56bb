import { billedCallAt } from "@espalier/engine";
import type { Tree } from "@espalier/session-tree";

/** What a session has cost in US dollars, over all its branches; each look counts only what came since the last one. */
export class SessionCost {
  #counted = 0;
  #total = 0;

  of(tree: Tree): number {
    for (; this.#counted < tree.length; this.#counted++)
      this.#total += billedCallAt(tree, this.#counted)?.usage.cost?.total ?? 0;
    return this.#total;
  }
}
