import { contextOfPath, extendContext } from "./context.ts";
import type { Entry } from "./entry.ts";
import { kindOf } from "./entry-kinds.ts";
import { isInWindow, narrowWindow, type PathWindow } from "./path-window.ts";
import type { SessionContext } from "./session-context.ts";

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

  /** Follows the leaf along the window behind appended entries; false where it needs {@link jump} to get to `leafId`. */
  follow(entries: readonly Entry[], leafId: string | null): boolean {
    for (const entry of entries) if (kindOf(entry).movesLeaf && !this.#follow(entry)) break;
    return this.#window.leafId === leafId;
  }

  /** Goes on from another place, whose window this is. */
  jump(window: PathWindow): void {
    this.#context = undefined;
    this.#window = window;
  }

  /** False when the window cannot be extended by an entry. */
  #follow(entry: Entry): boolean {
    const firstKept = kindOf(entry).firstKept?.(entry);
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
