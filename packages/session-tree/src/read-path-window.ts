import { type BackwardLineVisitor, type ByteView, forEachLineBackward } from "@espalier/jsonl-stream";
import { placeholder } from "./damaged.ts";
import type { Entry, EntryKind } from "./entry.ts";
import { entryKinds, kindOf } from "./entry-kinds.ts";
import { EntryScan, scanEntry } from "./entry-scan.ts";
import { GlueMarks } from "./glue-marks.ts";
import { kindIn } from "./kind-in-bytes.ts";
import { leafRowAt, movingRow } from "./leaf.ts";
import { type PathWindow, PathWindowBuilder } from "./path-window.ts";
import { pathWindowAt } from "./path-window-at.ts";
import { readLineParts, type SessionLine } from "./session-line.ts";
import { spellsText } from "./spells.ts";
import { Tree } from "./tree.ts";
import { UsualLines } from "./usual-lines.ts";
import { WantedId } from "./wanted-id.ts";

/**
 * Reads the end of a path from the end of a log: backwards, each byte once, parsing only lines on the path, until the
 * newest compaction and its first kept entry are found (or a root). A window in which nothing names the model or the
 * thinking level goes on up the path for them, and parses only what can name one.
 *
 * @param leafId an entry to take for the leaf; by default the log's own
 * @throws SessionTreeError `unknown-entry`
 */
export function readPathWindow(view: ByteView, leafId?: string): PathWindow {
  const usual = new UsualLines();
  let reader: PathReader;
  try {
    reader = readBackward(view, new PathReader(usual, leafId), usual);
  } finally {
    usual.release();
  }
  if (!reader.leafWasMissing) return reader.finish();
  // A last line that names nothing above it, or an id that is not there: both are told by who knows all entries.
  const tree = new Tree(view);
  const row = leafId === undefined ? leafRowAt(tree, tree.lastRow) : movingRow(tree, tree.row(leafId));
  return pathWindowAt(tree, row);
}

/** Bytes read at a time: a window is some hundred kilobytes, and what is read beyond it is read for nothing. */
const BLOCK = 1 << 18;

function readBackward(view: ByteView, reader: PathReader, finder: UsualLines): PathReader {
  const visit: BackwardLineVisitor = (block, start, end, offset, terminated) =>
    reader.take(block, start, end, offset, terminated) ? undefined : false;
  forEachLineBackward(view, visit, { blockSize: BLOCK, finder });
  return reader;
}

class PathReader {
  readonly #usual: UsualLines;
  readonly #scan = new EntryScan();
  readonly #marks = new GlueMarks();
  readonly #builder = new PathWindowBuilder();
  readonly #wanted = new WantedId();
  #started = false;
  #seekingLeaf = true;
  #leafId: string | null = null;
  #readFrom = 0;

  /** @param usual finds the lines that are taken */
  constructor(usual: UsualLines, leafId: string | undefined) {
    this.#usual = usual;
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
    const { isUsual } = this.#usual;
    if (isUsual) this.#usual.scanInto(scan, start);
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
    // Parsing finds something else than scanning where a key stands twice.
    const isSame = ({ type, id }: Entry) =>
      spellsText(block, scan.typeStart, scan.typeEnd, type) &&
      spellsText(block, scan.idStart, scan.idEnd, id);
    if (line.is === "entry" && (!isSure || isSame(line.entry)))
      return this.#takeEntry(line.entry, kindOf(line.entry));
    // A line whose beginning can be read keeps its place on the path and says nothing.
    return kind === NO_ENTRY || this.#takeEntry(placeholder(block, scan), entryKinds[kind]!);
  }

  /** Takes what stands on one line, the last first; what is no entry is of no path. */
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

/** What `kindIn` says of the type of a header; of a line that cannot be read, too. */
const NO_ENTRY = -1;
