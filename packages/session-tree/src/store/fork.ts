import { encodeLines, formatLine } from "@espalier/jsonl-stream";
import { createId, FORMAT_VERSION, type SessionHeader, WRITER } from "../entry/entry.ts";
import { type Entry, label, sessionInfo } from "../entry/kinds.ts";
import { headerLine } from "../entry/line.ts";
import { promptText } from "../request/wording.ts";
import { labelsInForce, movingRow, nameEntry } from "../tree/queries.ts";
import { pathRows, type Tree } from "../tree/tree.ts";

/** End of a fork: the named entry itself, or the entry before it. */
export type ForkPosition = "at" | "before";

/** Plan of a fork. */
export interface ForkPlan {
  /** Id of the entry that the caller named. */
  entryId: string;
  /**
   * Leaf of the fork: the named entry, or its parent, or the nearest ancestor that can be the leaf. Null when there is
   * no such entry.
   */
  leafId: string | null;
  /** Rows of the path, root first. Their lines are copied unchanged. */
  rows: number[];
  /**
   * Entries under the leaf that give the fork the current labels of its entries and the current name, where the copied
   * lines do not. They have their old timestamps; an entry that clears a label has the timestamp of the log's last
   * entry.
   */
  additions: Entry[];
  /**
   * With the position `before`: text of the named entry, for an editor. Null when that is not a message of the user or
   * an extension, and with the position `at`.
   */
  selectedText: string | null;
}

/** Plans a fork: the lines to copy and the entries to add. Changes nothing. Throws `unknown-entry`. */
export function planFork(tree: Tree, entryId: string, position: ForkPosition = "at"): ForkPlan {
  const row = tree.row(entryId);
  const end = movingRow(tree, position === "at" ? row : tree.index.parent(row));
  const leafId = end < 0 ? null : tree.idAt(end);
  const rows = pathRows(tree, end);
  return {
    entryId,
    leafId,
    rows,
    additions: additionsTo(tree, rows, leafId),
    selectedText: position === "before" ? promptText(tree.entryAt(row)) : null,
  };
}

/**
 * Returns the header of a fork, with a new id. `source` is the header of the forked session, `ref` its storage name,
 * and `entryId` the entry at which it was forked.
 */
export function forkHeader(
  source: SessionHeader,
  ref: string,
  entryId: string | null,
  now: string,
): SessionHeader {
  return {
    type: "session",
    version: FORMAT_VERSION,
    id: createId(),
    timestamp: now,
    cwd: source.cwd,
    writer: WRITER,
    parentSession: ref,
    parent: { sessionId: source.id, entryId, kind: "fork" },
  };
}

function additionsTo(tree: Tree, rows: readonly number[], leafId: string | null): Entry[] {
  const copied = new Uint8Array(tree.length);
  for (const row of rows) copied[row] = 1;
  const said = copiedFacts(tree, rows);
  const additions: Entry[] = [];
  const add = (type: string, fields: Record<string, unknown>, timestamp: string) =>
    additions.push({ type, id: createId(), parentId: leafId, timestamp, ...fields } as Entry);
  for (const [targetId, current] of labelsInForce(tree)) {
    if (!isCopied(tree, targetId, copied)) continue;
    if (copied[current.row] === 0 || said.labels.get(targetId) !== current.label) {
      add(label.type, { targetId, label: current.label }, current.timestamp);
    }
    said.labels.delete(targetId);
  }
  // A copied line can set a label that was cleared later, in a line that is not copied.
  for (const targetId of said.labels.keys())
    if (isCopied(tree, targetId, copied)) add(label.type, { targetId }, tree.entryAt(tree.lastRow).timestamp);
  const named = nameEntry(tree);
  if (named && (named.name ?? "") !== (said.name ?? ""))
    add(sessionInfo.type, { name: named.name ?? "" }, named.timestamp);
  return additions;
}

/** Returns whether an entry with this id is among the copied rows, of which there can be very many. */
function isCopied(tree: Tree, id: string, copied: Uint8Array): boolean {
  for (let row = tree.index.rowOf(id); row >= 0; row = tree.index.rowAbove(id, row))
    if (copied[row] === 1) return true;
  return false;
}

/** Returns the labels and the name that the copied lines set. */
function copiedFacts(tree: Tree, rows: readonly number[]) {
  const labels = new Map<string, string>();
  let name: string | undefined;
  for (const row of rows) {
    const { type } = tree.kindAt(row);
    if (type !== label.type && type !== sessionInfo.type) continue;
    const entry = tree.entryAt(row);
    if (sessionInfo.is(entry)) name = entry.name;
    else if (label.is(entry) && entry.label) labels.set(entry.targetId, entry.label);
    else if (label.is(entry)) labels.delete(entry.targetId);
  }
  return { labels, name };
}

/** Maximum number of bytes copied at once; a longer line is copied whole. */
const PIECE = 1 << 20;
const LINE_FEED = 10;

/**
 * The lines of a fork, one at a time: the path's own bytes, then the additions. A store that contains the forked
 * session (the header's `parentSession`) can follow the plan instead, and copy the lines inside the store.
 */
export class ForkLines implements Iterable<string | Uint8Array> {
  /** Plan of the fork. */
  readonly plan: ForkPlan;
  readonly #tree: Tree;

  constructor(tree: Tree, plan: ForkPlan) {
    this.#tree = tree;
    this.plan = plan;
  }

  /** Yields each line without its newline: lines of the path as bytes, additions as JSON text. */
  *[Symbol.iterator](): Generator<string | Uint8Array> {
    for (const row of this.plan.rows) yield this.#tree.bytesAt(row);
    for (const entry of this.plan.additions) yield formatLine(entry);
  }

  /**
   * Yields the same lines as bytes, with a newline after each. Contiguous lines of the log are one piece: for a store
   * that writes bytes, a piece per line costs more than copying. Each piece is valid until the next one is requested.
   */
  *pieces(): Generator<Uint8Array> {
    const { index, view } = this.#tree;
    const { rows, additions } = this.plan;
    const buffer = new Uint8Array(PIECE);
    for (let at = 0; at < rows.length; ) {
      const start = index.offset(rows[at]!);
      let end = start + index.lineLength(rows[at]!);
      const ends = [end];
      for (at++; at < rows.length && index.offset(rows[at]!) === end + 1; at++) {
        const next = end + 1 + index.lineLength(rows[at]!);
        if (next - start >= PIECE) break;
        end = next;
        ends.push(end);
      }
      const length = end - start;
      // A line longer than the buffer is a piece of its own.
      const piece = length < PIECE ? buffer.subarray(0, length + 1) : new Uint8Array(length + 1);
      view.readInto(start, piece.subarray(0, length));
      // Replaces other line ends, and space between two entries that a torn write put on one line.
      for (const lineEnd of ends) piece[lineEnd - start] = LINE_FEED;
      yield piece;
    }
    yield encodeLines(additions.map((entry) => formatLine(entry)));
  }
}

/** Yields the bytes of a new session, with a newline after each line. Each piece is valid until the next one is requested. */
export function* wholeLines(
  header: SessionHeader | string,
  lines: Iterable<string | Uint8Array>,
): Generator<Uint8Array> {
  yield encodeLines([headerLine(header)]);
  if (lines instanceof ForkLines) return yield* lines.pieces();
  for (const line of lines) {
    if (typeof line === "string") yield encodeLines([line]);
    else {
      yield line;
      yield Uint8Array.of(LINE_FEED);
    }
  }
}
