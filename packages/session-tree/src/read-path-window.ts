import { type ByteView, forEachLineBackward } from "@espalier/jsonl-stream";
import type { Entry } from "./entry.ts";
import { kindOf } from "./entry-kinds.ts";
import { EntryScan, scanEntry } from "./entry-scan.ts";
import { GlueMarks } from "./glue-marks.ts";
import { type PathWindow, PathWindowBuilder } from "./path-window.ts";
import { readSessionLine } from "./session-line.ts";
import { SessionTreeError } from "./session-tree-error.ts";
import { DAMAGED } from "./tree.ts";

/**
 * Reads the end of a path from the end of a log: backwards, each byte once, parsing only lines on the path, until the
 * newest compaction and its first kept entry are found (or a root). A window in which nothing names the model or the
 * thinking level goes on up the path for them, and parses only what can name one.
 *
 * @param leafId an entry to take for the leaf; by default the log's own
 * @throws SessionTreeError `unknown-entry`
 */
export function readPathWindow(view: ByteView, leafId?: string): PathWindow {
  // A `leaf` line that names nothing above it counts for nothing: the line before it is the last one then.
  for (let from = view.size; ; ) {
    const reader = new PathReader(leafId);
    forEachLineBackward(view, (...line) => (reader.take(...line) ? undefined : false), { from });
    if (!reader.leafWasMissing) return reader.finish();
    if (leafId !== undefined) {
      const hint = "`espalier tree` lists the ids there are.";
      throw new SessionTreeError(
        "unknown-entry",
        `There is no entry ${JSON.stringify(leafId)} in this session. ${hint}`,
      );
    }
    from = reader.lastUsable;
  }
}

class PathReader {
  /** Offset of the newest line that is an entry. */
  lastUsable = 0;
  readonly #scan = new EntryScan();
  readonly #marks = new GlueMarks();
  readonly #builder = new PathWindowBuilder();
  readonly #wanted = new WantedId();
  #started = false;
  #seekingLeaf = true;
  #leafId: string | null = null;

  constructor(leafId: string | undefined) {
    this.#wanted.set(leafId ?? null);
    this.#started = leafId !== undefined;
  }

  /** True when the leaf was looked for to the log's beginning and is not there. */
  get leafWasMissing(): boolean {
    return this.#started && this.#seekingLeaf && this.#wanted.id !== null;
  }

  /** Takes the next line from the end; false when nothing more is needed. */
  take(block: Uint8Array, start: number, end: number, offset: number, terminated: boolean): boolean {
    if (start === end) return true;
    const scan = this.#scan;
    const sure =
      terminated &&
      scanEntry(block, start, end, scan) &&
      !this.#marks.between(block, offset - start, scan.stop, end);
    if (sure && this.#started) {
      if (!this.#wanted.isIn(block, scan.idStart, scan.idEnd)) return true;
      if (!this.#builder.needs(decode(block, scan.typeStart, scan.typeEnd)))
        return this.#follow(parentIn(block, scan));
    }
    const line = readSessionLine(block.subarray(start, end));
    if (line.is === "entry") return this.#takeEntry(line.entry, offset + line.from);
    if (line.is !== "corrupt" || !sure) return true;
    return this.#takeEntry(placeholder(block, scan), offset);
  }

  #takeEntry(entry: Entry, offset: number): boolean {
    if (!this.#started) {
      this.#started = true;
      this.lastUsable = offset;
      this.#wanted.set(entry.id);
    }
    if (entry.id !== this.#wanted.id) return true;
    if (this.#seekingLeaf) {
      const kind = kindOf(entry.type);
      const target = kind.leafTarget?.(entry);
      if (target !== undefined) return this.#follow(target);
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

  finish(): PathWindow {
    return this.#builder.finish(this.#leafId);
  }
}

/** An id that is compared with bytes line after line. */
class WantedId {
  id: string | null = null;
  #bytes: Uint8Array = new Uint8Array();

  set(id: string | null): void {
    this.id = id;
    this.#bytes = encoder.encode(id ?? "");
  }

  isIn(bytes: Uint8Array, start: number, end: number): boolean {
    const wanted = this.#bytes;
    if (end - start !== wanted.length) return false;
    for (let i = 0; i < wanted.length; i++) if (bytes[start + i] !== wanted[i]) return false;
    return true;
  }
}

const encoder = new TextEncoder();
const decoder = new TextDecoder();
const decode = (bytes: Uint8Array, start: number, end: number): string =>
  decoder.decode(bytes.subarray(start, end));

const parentIn = (block: Uint8Array, { parentStart, parentEnd }: EntryScan): string | null =>
  parentStart < 0 ? null : decode(block, parentStart, parentEnd);

/** A line whose body cannot be read keeps its place on the path and says nothing. */
function placeholder(block: Uint8Array, scan: EntryScan): Entry {
  return {
    type: DAMAGED,
    id: decode(block, scan.idStart, scan.idEnd),
    parentId: parentIn(block, scan),
    timestamp: "",
  };
}
