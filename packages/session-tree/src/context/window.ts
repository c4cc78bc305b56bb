import {
  type BackwardLineVisitor,
  type ByteView,
  EspalierError,
  forEachLineBackward,
} from "@espalier/jsonl-stream";
import type { EntryKind, Settings } from "../entry/entry.ts";
import type { Entry } from "../entry/kinds.ts";
import { entryKinds, kindOf } from "../entry/kinds.ts";
import {
  EntryScan,
  equalsText,
  JoinedEntryFinder,
  kindIn,
  placeholder,
  readLineParts,
  type SessionLine,
  scanEntry,
} from "../entry/line.ts";
import { FastLineScanner } from "../tree/compiled-scan.ts";
import { type EntryRows, leafRowAt, movingRow } from "../tree/queries.ts";
import { ORPHAN, ROOT } from "../tree/rows.ts";
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
 * Builds the context that a model reads at a leaf: the one function behind every request, count and display.
 *
 * @param source a tree, something that has one (a session), or entries in file order
 * @param leafId the leaf; by default that of the log when it is opened. null is before the first entry. For an entry
 *   that cannot be the leaf (a label), its nearest ancestor that can
 * @throws EspalierError `unknown-entry`
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
  const rows = new ArrayRows(entries);
  const path: Entry[] = [];
  for (let row = leafAmong(entries, rows, leafId); row >= 0; row = rows.index.parent(row))
    path.push(rows.entryAt(row));
  return contextOfPath(path.reverse());
}

function leafAmong(entries: readonly Entry[], rows: ArrayRows, leafId: string | null | undefined): number {
  if (leafId === undefined) return leafRowAt(rows, entries.length - 1);
  if (leafId === null) return -1;
  const row = rows.rowOf(leafId);
  if (row >= 0) return movingRow(rows, row);
  throw new EspalierError(
    "unknown-entry",
    `There is no entry ${JSON.stringify(leafId)} among the ${entries.length} given.`,
  );
}

/**
 * Reads the end of a path from the end of a log: backwards, each byte once, parsing only lines on the path, until the
 * newest compaction and its first kept entry are found (or a root). A window in which nothing names the model or the
 * thinking level goes on up the path for them, and parses only what can name one.
 *
 * @param leafId an entry to take for the leaf; by default the log's own
 * @throws EspalierError `unknown-entry`
 */
export function readPathWindow(view: ByteView, leafId?: string): PathWindow {
  const scanner = new FastLineScanner();
  let reader: PathReader;
  try {
    reader = readBackward(view, new PathReader(scanner, leafId), scanner);
  } finally {
    scanner.release();
  }
  if (!reader.leafWasMissing) return reader.finish();
  // A last line that names nothing above it, or an id that is not there: both need an index of all entries.
  const tree = new Tree(view);
  const row = leafId === undefined ? leafRowAt(tree, tree.lastRow) : movingRow(tree, tree.row(leafId));
  return pathWindowAt(tree, row);
}

/** Bytes read at a time: a window is some hundred kilobytes, and what is read beyond it is read for nothing. */
const BLOCK = 1 << 18;

function readBackward(view: ByteView, reader: PathReader, finder: FastLineScanner): PathReader {
  const visit: BackwardLineVisitor = (block, start, end, offset, terminated) =>
    reader.take(block, start, end, offset, terminated) ? undefined : false;
  forEachLineBackward(view, visit, { blockSize: BLOCK, finder });
  return reader;
}

class PathReader {
  readonly #scanner: FastLineScanner;
  readonly #scan = new EntryScan();
  readonly #marks = new JoinedEntryFinder();
  readonly #builder = new PathWindowBuilder();
  readonly #wanted = new WantedId();
  #started = false;
  #seekingLeaf = true;
  #leafId: string | null = null;
  #readFrom = 0;

  /** @param scanner finds the lines that are taken */
  constructor(scanner: FastLineScanner, leafId: string | undefined) {
    this.#scanner = scanner;
    this.#wanted.set(leafId ?? null);
    this.#started = leafId !== undefined;
  }

  /** True when the leaf was looked for to the log's beginning and is not there. */
  get leafWasMissing(): boolean {
    return this.#started && this.#seekingLeaf && !this.#wanted.isNone;
  }

  /** Takes the next line from the end; false when nothing more is needed. */
  take(block: Uint8Array, start: number, end: number, offset: number, terminated: boolean): boolean {
    this.#readFrom = offset;
    if (start === end) return true;
    const scan = this.#scan;
    const { isUsual } = this.#scanner;
    if (isUsual) this.#scanner.scanInto(scan, start);
    const isLegible = isUsual || (terminated && scanEntry(block, start, end, scan));
    const isSure = isUsual || (isLegible && !this.#marks.between(block, offset - start, scan.stop, end));
    const isOnPath = isSure && this.#started;
    if (isOnPath && !this.#wanted.isIn(block, scan.idStart, scan.idEnd)) return true;
    const kind = isLegible ? kindIn(block, scan.typeStart, scan.typeEnd) : NO_ENTRY;
    if (isOnPath && kind !== NO_ENTRY && !this.#builder.needs(entryKinds[kind]!.type))
      return this.#pass(block, scan);
    const parts = readLineParts(block.subarray(start, end));
    if (parts.length > 1) return this.#takeParts(parts);
    const line = parts[0]!;
    if (line.is === "header" || line.is === "blank") return true;
    // Parsing finds something else than scanning where a line has a key twice.
    const isSame = ({ type, id }: Entry) =>
      equalsText(block, scan.typeStart, scan.typeEnd, type) &&
      equalsText(block, scan.idStart, scan.idEnd, id);
    if (line.is === "entry" && (!isSure || isSame(line.entry)))
      return this.#takeEntry(line.entry, kindOf(line.entry));
    // A line whose beginning can be read keeps its place on the path and says nothing.
    return kind === NO_ENTRY || this.#takeEntry(placeholder(block, scan), entryKinds[kind]!);
  }

  /** Takes the parts of one line, the last first; only entries are on a path. */
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

  /** As {@link #follow}, up from a line that says nothing needed: most lines, where a far setting is looked for. */
  #pass(block: Uint8Array, { parentStart, parentEnd }: EntryScan): boolean {
    if (parentStart < 0) return this.#follow(null);
    this.#wanted.copy(block, parentStart, parentEnd);
    return !this.#builder.done;
  }

  finish(): PathWindow {
    return { ...this.#builder.finish(this.#leafId), readFrom: this.#readFrom };
  }
}

/** Answer of `kindIn` for the type of a header and for a line that cannot be read. */
const NO_ENTRY = -1;

/** The end of a path: as much of it as a context needs. */
export interface PathWindow {
  /** The leaf; null before the first entry. */
  leafId: string | null;
  /** Entries of the path, root side first, ending in the leaf. */
  entries: Entry[];
  /** True when the window begins at a root, so that it is the whole path. */
  complete: boolean;
  /** Settings before the window's first entry. */
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
    // The nearer one counts: a later one is further up.
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

  /** Returns whether the next entry up the path has to be read, given its type; passing over one changes nothing. */
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

/** Returns whether a window has an entry with this id. Searches from its end, where most wanted entries are. */
export function isInWindow({ entries }: PathWindow, id: string): boolean {
  return entries.findLastIndex((entry) => entry.id === id) >= 0;
}

/** The window without what its newest compaction hides. */
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

/** Types that can name a thinking level, and types that can name a model. */
const THINKING_TYPES = typesNaming("thinkingLevel");
const MODEL_TYPES = typesNaming("model");

function typesNaming(setting: keyof Settings): ReadonlySet<string> {
  return new Set(entryKinds.filter(({ mayName }) => mayName?.includes(setting)).map(({ type }) => type));
}

/** The end of the path of a row, read from the index: only lines that a context needs. -1 gives an empty window. */
export function pathWindowAt(tree: Tree, row: number): PathWindow {
  const builder = new PathWindowBuilder();
  for (let at = row; at >= 0 && !builder.done; at = tree.index.parent(at)) {
    if (builder.needs(tree.kindAt(at).type)) builder.take(tree.entryAt(at));
  }
  return builder.finish(row < 0 ? null : tree.idAt(row));
}

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** An id that is compared with bytes line after line, and decoded only when needed. */
class WantedId {
  #bytes = new Uint8Array(64);
  /** Bytes of the id; -1 when none is wanted. */
  #length = -1;
  /** The id as it was given: bytes do not tell two halves of a character from each other. */
  #text: string | undefined;

  get isNone(): boolean {
    return this.#length < 0;
  }

  set(id: string | null): void {
    this.#text = id ?? undefined;
    if (id === null) this.#length = -1;
    else {
      // At most three bytes for a code unit.
      this.#makeRoom(id.length * 3);
      this.#length = encoder.encodeInto(id, this.#bytes).written;
    }
  }

  /** Takes the id in `bytes[start, end)`, which is plain ASCII. */
  copy(bytes: Uint8Array, start: number, end: number): void {
    this.#text = undefined;
    this.#makeRoom(end - start);
    this.#length = end - start;
    for (let i = 0; i < this.#length; i++) this.#bytes[i] = bytes[start + i]!;
  }

  is(id: string): boolean {
    if (this.isNone) return false;
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
    // An entry above the window cannot be distinguished from one that is not there.
    const isWithin = firstKept === undefined || firstKept === entry.id || isInWindow(this.#window, firstKept);
    if (entry.parentId !== this.#window.leafId || !isWithin) return false;
    this.#window.entries.push(entry);
    this.#window.leafId = entry.id;
    if (firstKept !== undefined) this.#window = narrowWindow(this.#window);
    if (this.#context && !extendContext(this.#context, entry)) this.#context = undefined;
    return true;
  }
}

/** Entries in an array, in file order, as rows. A reference means the nearest entry above the one that refers. */
class ArrayRows implements EntryRows {
  readonly index: EntryRows["index"];
  readonly #entries: readonly Entry[];
  /** For each id, the positions it has, in order. */
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

  /** The newest position of an id; -1 when there is none. */
  rowOf(id: string): number {
    return this.#positions.get(id)?.at(-1) ?? -1;
  }
}
