import type { Entry, Settings } from "./entry.ts";
import { entryKinds, kindOf } from "./entry-kinds.ts";
import { readPathFacts } from "./path-facts.ts";
import { NO_SETTINGS, settingsAlong, settingsIn } from "./settings.ts";

/** The end of a path: as much of it as a context needs. */
export interface PathWindow {
  /** The leaf; null before the first entry. */
  leafId: string | null;
  /** Entries of the path, root side first, ending in the leaf. */
  entries: Entry[];
  /** True when the window begins at a root, so that it is the whole path. */
  complete: boolean;
  /** What was in force before the window's first entry. */
  before: Settings;
  /**
   * For a window that was read backwards out of a log's bytes: where the last line begins that was looked at. Nothing
   * behind it was read twice, nothing before it at all; 0 where a setting that no entry names was looked for to the end.
   */
  readFrom?: number;
}

/**
 * Collects a path from its leaf upwards and knows when a context needs no more: when the newest compaction's first
 * kept entry is reached and both settings are known.
 */
export class PathWindowBuilder {
  /** The window, newest first. */
  readonly #window: Entry[] = [];
  /** Named beyond the window, each by the newest entry that does. The entries themselves may be a long history. */
  readonly #before: Partial<Settings> = {};
  /** The first kept entry of the newest compaction on the path, once that is known. */
  #firstKept: string | undefined;
  #closed = false;
  #modelKnown = false;
  #thinkingLevelKnown = false;

  /** Takes the next entry up the path, if it is needed. */
  take(entry: Entry): void {
    if (!this.needs(entry.type)) return;
    const kind = kindOf(entry);
    const settings = settingsIn(entry);
    // What is nearer stands: a later one is further up.
    if (this.#closed) Object.assign(this.#before, { ...settings, ...this.#before });
    if (settings.model) this.#modelKnown = true;
    if (settings.thinkingLevel !== undefined) this.#thinkingLevelKnown = true;
    if (this.#closed) return;
    this.#window.push(entry);
    if (this.#firstKept === undefined && kind.firstKept && !kind.problem?.(entry))
      this.#firstKept = kind.firstKept(entry);
    if (entry.id === this.#firstKept) this.#closed = true;
  }

  /** True when nothing further up the path is needed. */
  get done(): boolean {
    return this.#closed && this.#modelKnown && this.#thinkingLevelKnown;
  }

  /** Whether the next entry up the path has to be read, given its type; passing over one changes nothing. */
  needs(type: string): boolean {
    if (!this.#closed) return true;
    if (!this.#thinkingLevelKnown && THINKING_TYPES.has(type)) return true;
    return !this.#modelKnown && MODEL_TYPES.has(type);
  }

  /** The window that was collected; call it once. */
  finish(leafId: string | null): PathWindow {
    const entries = this.#window.reverse();
    return {
      leafId,
      entries,
      complete: entries.length === 0 || !this.#closed || entries[0]!.parentId === null,
      before: {
        model: this.#before.model ?? NO_SETTINGS.model,
        thinkingLevel: this.#before.thinkingLevel ?? NO_SETTINGS.thinkingLevel,
      },
    };
  }
}

/** Whether an entry with this id is among those of a window: looked for from its end, where most that are asked for stand. */
export function isInWindow({ entries }: PathWindow, id: string): boolean {
  return entries.findLastIndex((entry) => entry.id === id) >= 0;
}

/** The window without what its newest compaction hides. */
export function narrowWindow(window: PathWindow): PathWindow {
  const { keptFrom } = readPathFacts(window.entries);
  if (keptFrom === 0) return window;
  return {
    leafId: window.leafId,
    entries: window.entries.slice(keptFrom),
    complete: false,
    before: settingsAlong(window.entries.slice(0, keptFrom), window.before),
  };
}

/** Types that can name a thinking level, and types that can name a model. */
const THINKING_TYPES = typesNaming("thinkingLevel");
const MODEL_TYPES = typesNaming("model");

function typesNaming(setting: keyof Settings): ReadonlySet<string> {
  return new Set(entryKinds.filter(({ mayName }) => mayName?.includes(setting)).map(({ type }) => type));
}
