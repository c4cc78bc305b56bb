import {
  type BackwardLineVisitor,
  type ByteView,
  EspalierError,
  forEachLineBackward,
} from "@espalier/jsonl-stream";
import type { EntryKind, Settings } from "../entry/entry.ts";
import { type Entry, entryKinds, kindOf } from "../entry/kinds.ts";
import { equalsText, kindIn, placeholder, readLineParts, spells } from "../entry/line.ts";
import { FastLineScanner } from "../tree/compiled-scan.ts";
import { ORPHAN, ROOT } from "../tree/intake.ts";
import { type EntryRows, rowOfLeaf } from "../tree/queries.ts";
import { Tree } from "../tree/tree.ts";
import {
  contextOfPath,
  extendContext,
  NO_SETTINGS,
  readPathFacts,
  type SessionContext,
  settingsAlong,
  settingsIn,
} from "./context.ts";

/**
 * Builds the context that a model reads at a leaf. Every request, token count and display uses this function.
 *
 * @param source a tree, an object with a tree (a session), or entries in file order
 * @param leafId the leaf; default: `leafId` of an object that has one, else the leaf at which the log opens. null is
 * before the first entry. An entry that cannot be the leaf (a label) stands for its nearest ancestor that can
 * @throws EspalierError `unknown-entry`
 */
export function buildSessionContext(
  source: Tree | { readonly tree: Tree; readonly leafId?: string | null } | readonly Entry[],
  leafId?: string | null,
): SessionContext {
  if ("tree" in source)
    return buildSessionContext(source.tree, leafId === undefined ? source.leafId : leafId);
  if (!("index" in source)) return contextOfEntries(source, leafId);
  const { entries, before } = pathWindowAt(source, rowOfLeaf(source, leafId));
  return contextOfPath(entries, before);
}

function contextOfEntries(entries: readonly Entry[], leafId: string | null | undefined): SessionContext {
  const rows = rowsOfEntries(entries);
  const path: Entry[] = [];
  for (let row = rowOfLeaf(rows, leafId); row >= 0; row = rows.index.parent(row)) path.push(entries[row]!);
  return contextOfPath(path.reverse());
}

/**
 * Reads the end of a path from the end of a log. Reads backwards, each byte once, and parses only lines of the path, up
 * to the newest compaction's first kept entry or a root. When no entry of the window names the model or the thinking
 * level, reads on up the path and parses only entries that can name them.
 *
 * @param leafId id of the leaf; default: the leaf at which the log opens
 * @throws EspalierError `unknown-entry`
 */
export function readPathWindow(view: ByteView, leafId?: string): PathWindow {
  const scanner = new FastLineScanner();
  const scan = scanner.entry;
  const builder = new PathWindowBuilder();
  /**
   * Id of the entry that is sought. Bytes for the parent of a line that was passed, because most of them are compared
   * with lines and never decoded. null when no entry is sought.
   */
  let wanted: string | Uint8Array | null = leafId ?? null;
  let started = leafId !== undefined;
  /** Id of the leaf; undefined until it is found. */
  let leaf: string | undefined;
  let readFrom = 0;

  const isWanted = (block: Uint8Array): boolean =>
    typeof wanted === "string"
      ? equalsText(block, scan.idStart, scan.idEnd, wanted)
      : wanted !== null && spells(block, scan.idStart, scan.idEnd, wanted);
  // These functions return false when no more lines are needed.
  const follow = (id: string | Uint8Array | null): false | undefined => {
    wanted = id;
    return id === null || builder.done ? false : undefined;
  };
  const take = (entry: Entry, kind: EntryKind): false | undefined => {
    if (!started) {
      started = true;
      wanted = entry.id;
      const target = kind.leafTarget?.(entry);
      if (target !== undefined) return follow(target);
    }
    if (typeof wanted === "object") wanted = wanted && decoder.decode(wanted);
    if (entry.id !== wanted) return undefined;
    if (leaf === undefined && !kind.movesLeaf) return follow(entry.parentId);
    leaf ??= entry.id;
    builder.take(entry);
    return follow(entry.parentId);
  };
  const visit: BackwardLineVisitor = (block, start, end, offset, terminated) => {
    readFrom = offset;
    if (start === end) return undefined;
    const isSure = terminated && scanner.scan(block, start, end, offset);
    const isOnPath = isSure && started;
    if (isOnPath && !isWanted(block)) return undefined;
    const isLegible = terminated && scanner.isLegible;
    const kind = isLegible ? entryKinds[kindIn(block, scan.typeStart, scan.typeEnd)] : undefined;
    // Most lines are not needed, in a search for a setting far up the path.
    if (isOnPath && kind && !builder.needs(kind.type)) {
      if (scan.parentStart < 0) return follow(null);
      const length = scan.parentEnd - scan.parentStart;
      // Most ids have the same length, so the array of the id before is used again.
      const id = wanted instanceof Uint8Array && wanted.length === length ? wanted : new Uint8Array(length);
      for (let at = 0; at < length; at++) id[at] = block[scan.parentStart + at]!;
      return follow(id);
    }
    const parts = readLineParts(block.subarray(start, end));
    if (parts.length > 1) {
      // Only entries can be on a path.
      for (const part of parts.reverse())
        if (part.is === "entry" && take(part.entry, kindOf(part.entry)) === false) return false;
      return undefined;
    }
    const entry = parts[0]?.is === "entry" ? parts[0].entry : undefined;
    // Parsing and scanning differ for a line that has a key twice.
    const isSame = ({ type, id }: Entry) =>
      equalsText(block, scan.typeStart, scan.typeEnd, type) &&
      equalsText(block, scan.idStart, scan.idEnd, id);
    if (entry && (!isSure || isSame(entry))) return take(entry, kindOf(entry));
    // A line with a readable beginning keeps its position on the path, without messages.
    return kind && take(placeholder(block, scan), kind);
  };
  forEachLineBackward(view, visit, { blockSize: BLOCK, finder: scanner });
  if (leaf !== undefined || wanted === null) return { ...builder.finish(leaf ?? null), readFrom };
  // The last line refers to an entry that is not above it, or the log has no entry with this id. Both need an index of
  // all entries.
  const tree = new Tree(view);
  return pathWindowAt(tree, rowOfLeaf(tree, leafId));
}

/** Bytes read at once. A window has a few hundred kilobytes, and bytes beyond it are read in vain. */
const BLOCK = 1 << 18;
const decoder = new TextDecoder();

/** The end of a path that contains everything a context needs. */
export interface PathWindow {
  /** Id of the leaf; null before the first entry. */
  leafId: string | null;
  /** Entries of the path, from the root side to the leaf. */
  entries: Entry[];
  /** True when the window is known to begin at a root, so that it is the whole path. */
  complete: boolean;
  /** Settings before the window's first entry. */
  before: Settings;
  /**
   * Offset of the first line that was visited, for a window that was read backwards from a log's bytes; absent for
   * other windows. Each byte from this offset on was read once. 0 when the whole log was read in search of a setting
   * that no entry names.
   */
  readFrom?: number;
}

/**
 * Collects a path from its leaf upwards until a context needs no more: until the newest compaction's first kept entry
 * is reached and both settings are known.
 */
export class PathWindowBuilder {
  /** Entries of the window, newest first. */
  readonly #window: Entry[] = [];
  /** Settings from entries above the window. Only the values are kept, because the entries can be a long history. */
  readonly #before: Settings = { ...NO_SETTINGS };
  /** Settings that no entry has named yet. */
  readonly #unknown = new Set<keyof Settings>(["model", "thinkingLevel"]);
  /** First kept entry of the newest compaction on the path; undefined until a compaction is found. */
  #firstKept: string | undefined;
  #closed = false;

  /** Takes the next entry up the path. Ignores it when it is not needed. */
  take(entry: Entry): void {
    if (!this.needs(entry.type)) return;
    const settings = settingsIn(entry);
    for (const setting of this.#unknown) {
      const value = settings[setting] ?? undefined;
      if (value === undefined) continue;
      this.#unknown.delete(setting);
      if (this.#closed) Object.assign(this.#before, { [setting]: value });
    }
    if (this.#closed) return;
    this.#window.push(entry);
    const kind = kindOf(entry);
    if (this.#firstKept === undefined && kind.firstKept && !kind.problem?.(entry))
      this.#firstKept = kind.firstKept(entry);
    this.#closed = entry.id === this.#firstKept;
  }

  /** True when nothing further up the path is needed. */
  get done(): boolean {
    return this.#closed && this.#unknown.size === 0;
  }

  /** Returns whether the next entry up the path, which has this type, has to be passed to {@link take}. */
  needs(type: string): boolean {
    if (!this.#closed) return true;
    for (const setting of NAMED.get(type) ?? []) if (this.#unknown.has(setting)) return true;
    return false;
  }

  /** Returns the collected window, which ends at `leafId`. Call it once. */
  finish(leafId: string | null): PathWindow {
    const entries = this.#window.reverse();
    const complete = !this.#closed || entries[0]!.parentId === null;
    return { leafId, entries, complete, before: this.#before };
  }
}

/** Settings that entries of a type can name. */
const NAMED = new Map(entryKinds.map(({ type, mayName }) => [type, mayName]));

/** Returns whether a window has an entry with this id. Searches from the end, where most wanted entries are. */
export function isInWindow({ entries }: PathWindow, id: string): boolean {
  return entries.findLastIndex((entry) => entry.id === id) >= 0;
}

/** Returns the window without the entries that its newest compaction hides. */
function narrowWindow(window: PathWindow): PathWindow {
  const { keptFrom } = readPathFacts(window.entries);
  if (keptFrom === 0) return window;
  return {
    leafId: window.leafId,
    entries: window.entries.slice(keptFrom),
    complete: false,
    before: settingsAlong(window.entries.slice(0, keptFrom), window.before),
  };
}

/** Returns the window of the path that ends in `row`. Parses only lines that a context needs. -1 gives an empty window. */
export function pathWindowAt(tree: Tree, row: number): PathWindow {
  const builder = new PathWindowBuilder();
  for (let at = row; at >= 0 && !builder.done; at = tree.index.parent(at)) {
    if (builder.needs(tree.kindAt(at).type)) builder.take(tree.entryAt(at));
  }
  return builder.finish(row < 0 ? null : tree.idAt(row));
}

/** The end of the leaf's path that its context needs, and the context, which is kept while entries are appended. */
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
   * Moves the leaf along appended entries. Returns false when the window does not end at `leafId` afterwards: read the
   * path of the leaf.
   */
  follow(entries: readonly Entry[], leafId: string | null): boolean {
    for (const entry of entries) if (kindOf(entry).movesLeaf && !this.#follow(entry)) break;
    return this.#window.leafId === leafId;
  }

  /** Adds an entry to the window; returns false when the window cannot be extended by it. */
  #follow(entry: Entry): boolean {
    const firstKept = kindOf(entry).firstKept?.(entry);
    // An entry above the window cannot be distinguished from a missing one.
    const isWithin = firstKept === undefined || firstKept === entry.id || isInWindow(this.#window, firstKept);
    if (entry.parentId !== this.#window.leafId || !isWithin) return false;
    this.#window.entries.push(entry);
    this.#window.leafId = entry.id;
    if (firstKept !== undefined) this.#window = narrowWindow(this.#window);
    if (this.#context && !extendContext(this.#context, entry)) this.#context = undefined;
    return true;
  }
}

/** Returns entries in file order as rows. A reference is to the nearest entry above with the id. */
function rowsOfEntries(entries: readonly Entry[]): EntryRows & Pick<Tree, "lastRow" | "row"> {
  /** Positions of each id, in order. */
  const positions = new Map<string, number[]>();
  const parents = entries.map(({ id, parentId }, at) => {
    const parent = parentId === null ? ROOT : (positions.get(parentId)?.at(-1) ?? ORPHAN);
    const same = positions.get(id);
    if (same) same.push(at);
    else positions.set(id, [at]);
    return parent;
  });
  return {
    index: {
      parent: (row) => parents[row]!,
      rowAbove: (id, row) => positions.get(id)?.findLast((at) => at < row) ?? -1,
    },
    kindAt: (row) => kindOf(entries[row]!),
    entryAt: (row) => entries[row]!,
    lastRow: entries.length - 1,
    row(id) {
      const row = positions.get(id)?.at(-1);
      if (row !== undefined) return row;
      const message = `There is no entry ${JSON.stringify(id)} among the ${entries.length} given.`;
      throw new EspalierError("unknown-entry", message);
    },
  };
}
