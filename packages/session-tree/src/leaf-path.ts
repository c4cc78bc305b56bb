import { contextOfPath, extendContext } from "./context.ts";
import type { Entry } from "./entry.ts";
import { kindOf } from "./entry-kinds.ts";
import { isInWindow, narrowWindow, type PathWindow } from "./path-window.ts";
import { pathWindowAt } from "./path-window-at.ts";
import type { SessionContext } from "./session-context.ts";
import type { Tree } from "./tree.ts";

/** The path of the leaf as far as its context reaches, and that context, kept while entries follow one another. */
export class LeafPath {
  #window: PathWindow;
  #context: SessionContext | undefined;

  constructor(window: PathWindow) {
    this.#window = window;
  }

  get window(): PathWindow {
    return this.#window;
  }

  get context(): SessionContext {
    this.#context ??= contextOfPath(this.#window.entries, this.#window.before);
    return this.#context;
  }

  /**
   * Follows the leaf behind appended entries: along the window while they follow one another, else by a window of its
   * own, for which `tree` is asked.
   */
  advance(entries: readonly Entry[], leafId: string | null, tree: () => Tree): void {
    for (const entry of entries) if (kindOf(entry.type).movesLeaf && !this.#follow(entry)) break;
    if (this.#window.leafId === leafId) return;
    this.#context = undefined;
    this.#window = pathWindowAt(tree(), leafId === null ? -1 : tree().row(leafId));
  }

  /** False when the window cannot be extended by an entry. */
  #follow(entry: Entry): boolean {
    const firstKept = kindOf(entry.type).firstKept?.(entry);
    // What lies above the window cannot be told from what is not there.
    const isWithin = firstKept === undefined || firstKept === entry.id || isInWindow(this.#window, firstKept);
    if (entry.parentId !== this.#window.leafId || !isWithin) return false;
    this.#window.entries.push(entry);
    this.#window.leafId = entry.id;
    if (firstKept !== undefined) this.#window = narrowWindow(this.#window);
    if (this.#context && !extendContext(this.#context, entry)) this.#context = undefined;
    return true;
  }
}
