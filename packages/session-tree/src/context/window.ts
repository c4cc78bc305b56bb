import {
  type BackwardLineVisitor,
  type ByteView,
  EspalierError,
  forEachLineBackward,
} from "@espalier/jsonl-stream";
import type { EntryKind, Settings } from "../entry/entry.ts";
import { type Entry, entryKinds, kindOf } from "../entry/kinds.ts";
import {
  type EntryScan,
  equalsText,
  kindIn,
  placeholder,
  readLineParts,
  type SessionLine,
} from "../entry/line.ts";
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
  if ("tree" in source) return contextOfTree(source.tree, leafId === undefined ? source.leafId : leafId);
  return "index" in source ? contextOfTree(source, leafId) : contextOfEntries(source, leafId);
}

function contextOfTree(tree: Tree, leafId: string | null | undefined): SessionContext {
  const window = pathWindowAt(tree, rowOfLeaf(tree, leafId));
  return contextOfPath(window.entries, window.before);
}

function contextOfEntries(entries: readonly Entry[], leafId: string | null | undefined): SessionContext {
  const rows = new ArrayRows(entries);
  const path: Entry[] = [];
  for (let row = rowOfLeaf(rows, leafId); row >= 0; row = rows.index.parent(row))
    path.push(rows.entryAt(row));
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
  const reader = new PathReader(scanner, leafId);
  const visit: BackwardLineVisitor = (block, start, end, offset, terminated) =>
    reader.take(block, start, end, offset, terminated) ? undefined : false;
  forEachLineBackward(view, visit, { blockSize: BLOCK, finder: scanner });
  if (!reader.leafWasMissing) return reader.finish();
  // The last line refers to an entry that is not above it, or the log has no entry with this id. Both need an index of
  // all entries.
  const tree = new Tree(view);
  return pathWindowAt(tree, rowOfLeaf(tree, leafId));
}

/** Bytes read at once. A window has a few hundred kilobytes, and bytes beyond it are read in vain. */
const BLOCK = 1 << 18;

class PathReader {
  readonly #scanner: FastLineScanner;
  readonly #builder = new PathWindowBuilder();
  readonly #wanted = new WantedId();
  #started = false;
  #seekingLeaf = true;
  #leafId: string | null = null;
  #readFrom = 0;

  /** @param scanner scans the lines before they are passed to {@link take} */
  constructor(scanner: FastLineScanner, leafId: string | undefined) {
    this.#scanner = scanner;
    this.#wanted.set(leafId ?? null);
    this.#started = leafId !== undefined;
  }

  /** True when all lines were taken and the leaf, or an entry to which its position refers, was not found. */
  get leafWasMissing(): boolean {
    return this.#seekingLeaf && !this.#wanted.isNone;
  }

  /** Takes the next line, from the end of the log. Returns false when no more lines are needed. */
  take(block: Uint8Array, start: number, end: number, offset: number, terminated: boolean): boolean {
    this.#readFrom = offset;
    if (start === end) return true;
    const isSure = terminated && this.#scanner.scan(block, start, end, offset);
    const isLegible = terminated && this.#scanner.isLegible;
    const scan = this.#scanner.entry;
    const isOnPath = isSure && this.#started;
    if (isOnPath && !this.#wanted.isIn(block, scan.idStart, scan.idEnd)) return true;
    const kind = isLegible ? kindIn(block, scan.typeStart, scan.typeEnd) : NO_ENTRY;
    if (isOnPath && kind !== NO_ENTRY && !this.#builder.needs(entryKinds[kind]!.type))
      return this.#pass(block, scan);
    const parts = readLineParts(block.subarray(start, end));
    if (parts.length > 1) return this.#takeParts(parts);
    const line = parts[0]!;
    // Parsing and scanning differ for a line that has a key twice.
    const isSame = ({ type, id }: Entry) =>
      equalsText(block, scan.typeStart, scan.typeEnd, type) &&
      equalsText(block, scan.idStart, scan.idEnd, id);
    if (line.is === "entry" && (!isSure || isSame(line.entry)))
      return this.#takeEntry(line.entry, kindOf(line.entry));
    // A line with a readable beginning keeps its position on the path, without messages.
    return kind === NO_ENTRY || this.#takeEntry(placeholder(block, scan), entryKinds[kind]!);
  }

  /** Takes the parts of one line, the last part first. Only entries can be on a path. */
  #takeParts(parts: readonly SessionLine[]): boolean {
    return parts.every((_, at) => {
      const part = parts.at(-1 - at)!;
      return part.is !== "entry" || this.#takeEntry(part.entry, kindOf(part.entry));
    });
  }

  #takeEntry(entry: Entry, kind: EntryKind): boolean {
    if (!this.#started) {
      this.#started = true;
      this.#wanted.set(entry.id);
      const target = kind.leafTarget?.(entry);
      if (target !== undefined) return this.#follow(target);
    }
    if (!this.#wanted.is(entry.id)) return true;
    if (this.#seekingLeaf) {
      if (!kind.movesLeaf) return this.#follow(entry.parentId);
      this.#seekingLeaf = false;
      this.#leafId = entry.id;
    }
    this.#builder.take(entry);
    return this.#follow(entry.parentId);
  }

  #follow(id: string | null): boolean {
    this.#wanted.set(id);
    return id !== null && !this.#builder.done;
  }

  /** Follows the parent of a line that is not needed. Most lines are not, in a search for a setting far up the path. */
  #pass(block: Uint8Array, { parentStart, parentEnd }: EntryScan): boolean {
    if (parentStart < 0) return this.#follow(null);
    this.#wanted.copy(block, parentStart, parentEnd);
    return !this.#builder.done;
  }

  finish(): PathWindow {
    return { ...this.#builder.finish(this.#leafId), readFrom: this.#readFrom };
  }
}

/** Result of `kindIn` for the type of a header, and for a line that cannot be read. */
const NO_ENTRY = -1;

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
  readonly #before: Partial<Settings> = {};
  /** First kept entry of the newest compaction on the path; undefined until a compaction is found. */
  #firstKept: string | undefined;
  #closed = false;
  #modelKnown = false;
  #thinkingLevelKnown = false;

  /** Takes the next entry up the path. Ignores it when it is not needed. */
  take(entry: Entry): void {
    if (!this.needs(entry.type)) return;
    const kind = kindOf(entry);
    const settings = settingsIn(entry);
    // An entry that is taken later is further up the path. The nearer one wins.
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

  /** Returns whether the next entry up the path, which has this type, has to be passed to {@link take}. */
  needs(type: string): boolean {
    if (!this.#closed) return true;
    if (!this.#thinkingLevelKnown && THINKING_TYPES.has(type)) return true;
    return !this.#modelKnown && MODEL_TYPES.has(type);
  }

  /** Returns the collected window, which ends at `leafId`. Call it once. */
  finish(leafId: string | null): PathWindow {
    const entries = this.#window.reverse();
    return {
      leafId,
      entries,
      complete: !this.#closed || entries[0]!.parentId === null,
      before: {
        model: this.#before.model ?? NO_SETTINGS.model,
        thinkingLevel: this.#before.thinkingLevel ?? NO_SETTINGS.thinkingLevel,
      },
    };
  }
}

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

const THINKING_TYPES = typesNaming("thinkingLevel");
const MODEL_TYPES = typesNaming("model");

function typesNaming(setting: keyof Settings): ReadonlySet<string> {
  return new Set(entryKinds.filter(({ mayName }) => mayName?.includes(setting)).map(({ type }) => type));
}

/** Returns the window of the path that ends in `row`. Parses only lines that a context needs. -1 gives an empty window. */
export function pathWindowAt(tree: Tree, row: number): PathWindow {
  const builder = new PathWindowBuilder();
  for (let at = row; at >= 0 && !builder.done; at = tree.index.parent(at)) {
    if (builder.needs(tree.kindAt(at).type)) builder.take(tree.entryAt(at));
  }
  return builder.finish(row < 0 ? null : tree.idAt(row));
}

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** An id that is compared with the bytes of many lines, and decoded only when needed. */
class WantedId {
  #bytes = new Uint8Array(64);
  /** Bytes of the id; -1 when no id is wanted. */
  #length = -1;
  /** The id as it was given. Bytes cannot distinguish lone surrogates. */
  #text: string | undefined;

  get isNone(): boolean {
    return this.#length < 0;
  }

  set(id: string | null): void {
    this.#text = id ?? undefined;
    if (id === null) this.#length = -1;
    else {
      // UTF-8 has at most three bytes for a code unit.
      this.#makeRoom(id.length * 3);
      this.#length = encoder.encodeInto(id, this.#bytes).written;
    }
  }

  /** Sets the id to `bytes[start, end)`, which is plain ASCII. */
  copy(bytes: Uint8Array, start: number, end: number): void {
    this.#text = undefined;
    this.#makeRoom(end - start);
    this.#length = end - start;
    for (let i = 0; i < this.#length; i++) this.#bytes[i] = bytes[start + i]!;
  }

  is(id: string): boolean {
    this.#text ??= decoder.decode(this.#bytes.subarray(0, this.#length));
    return this.#text === id;
  }

  isIn(bytes: Uint8Array, start: number, end: number): boolean {
    if (end - start !== this.#length) return false;
    for (let i = 0; i < this.#length; i++) if (bytes[start + i] !== this.#bytes[i]) return false;
    return true;
  }

  #makeRoom(length: number): void {
    if (length > this.#bytes.length) this.#bytes = new Uint8Array(length);
  }
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
   * Moves the leaf along appended entries. Returns false when the window does not end at `leafId` afterwards: call
   * {@link jump}.
   */
  follow(entries: readonly Entry[], leafId: string | null): boolean {
    for (const entry of entries) if (kindOf(entry).movesLeaf && !this.#follow(entry)) break;
    return this.#window.leafId === leafId;
  }

  jump(window: PathWindow): void {
    this.#context = undefined;
    this.#window = window;
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

/** Entries in an array, in file order, as rows. A reference is to the nearest entry above with the id. */
class ArrayRows implements EntryRows {
  readonly index: EntryRows["index"];
  readonly #entries: readonly Entry[];
  /** Positions of each id, in order. */
  readonly #positions = new Map<string, number[]>();

  constructor(entries: readonly Entry[]) {
    this.#entries = entries;
    const parents = new Int32Array(entries.length);
    for (const [at, { id, parentId }] of entries.entries()) {
      parents[at] = parentId === null ? ROOT : (this.#positions.get(parentId)?.at(-1) ?? ORPHAN);
      const positions = this.#positions.get(id);
      if (positions) positions.push(at);
      else this.#positions.set(id, [at]);
    }
    this.index = {
      parent: (row) => parents[row]!,
      rowAbove: (id, row) => this.#positions.get(id)?.findLast((at) => at < row) ?? -1,
    };
  }

  kindAt(row: number) {
    return kindOf(this.#entries[row]!);
  }

  entryAt(row: number): Entry {
    return this.#entries[row]!;
  }

  get lastRow(): number {
    return this.#entries.length - 1;
  }

  /** Returns the last position of an entry with this id. Throws `unknown-entry`. */
  row(id: string): number {
    const row = this.#positions.get(id)?.at(-1);
    if (row !== undefined) return row;
    const message = `There is no entry ${JSON.stringify(id)} among the ${this.#entries.length} given.`;
    throw new EspalierError("unknown-entry", message);
  }
}
