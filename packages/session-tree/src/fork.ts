import { label } from "./entries/label.ts";
import { sessionInfo } from "./entries/session-info.ts";
import type { Entry } from "./entry.ts";
import { kindOf } from "./entry-kinds.ts";
import { createId } from "./identifier.ts";
import { labelsInForce, nameEntry } from "./labels.ts";
import { movingRow } from "./leaf.ts";
import { pathRows } from "./path.ts";
import { promptText } from "./prompt-text.ts";
import { FORMAT_VERSION, type SessionHeader } from "./session-header.ts";
import type { Tree } from "./tree.ts";
import { WRITER } from "./writer.ts";

/** Where a fork ends: with the entry itself, or before it. */
export type ForkPosition = "at" | "before";

/** What a fork will be made of. */
export interface ForkPlan {
  /** The entry the fork begins from, as it was named. */
  entryId: string;
  /** The leaf of the fork; null when nothing is before the entry. */
  leafId: string | null;
  /** Rows of the path, root first: their lines are copied as they are. */
  rows: number[];
  /** What is in force and not said by the copied lines: labels and the name, under the leaf, with their old times. */
  additions: Entry[];
  /** The text of the user message that the fork stops before, to be written anew; null otherwise. */
  selectedText: string | null;
}

/** What a fork copies and adds. Changes nothing. Throws `unknown-entry`. */
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

/** The header of a fork of the session with this header; `ref` is where that one is kept. */
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
  const said = saidByCopies(tree, rows);
  const additions: Entry[] = [];
  const add = (type: string, fields: Record<string, unknown>, timestamp: string) =>
    additions.push({ type, id: createId(), parentId: leafId, timestamp, ...fields } as Entry);
  for (const [targetId, inForce] of labelsInForce(tree)) {
    if (!isCopied(tree, targetId, copied)) continue;
    if (copied[inForce.row] === 0 || said.labels.get(targetId) !== inForce.label) {
      add(label.type, { targetId, label: inForce.label }, inForce.timestamp);
    }
    said.labels.delete(targetId);
  }
  // A copied line may set a label that was cleared since, in a line that is not copied.
  for (const targetId of said.labels.keys())
    if (isCopied(tree, targetId, copied)) add(label.type, { targetId }, tree.entryAt(tree.lastRow).timestamp);
  const named = nameEntry(tree);
  if (named && (named.name ?? "") !== (said.name ?? ""))
    add(sessionInfo.type, { name: named.name ?? "" }, named.timestamp);
  return additions;
}

/** Whether an entry with this id is among the copied rows, which may be very many. */
function isCopied(tree: Tree, id: string, copied: Uint8Array): boolean {
  for (let row = tree.index.rowOf(id); row >= 0; row = tree.index.rowAbove(id, row))
    if (copied[row] === 1) return true;
  return false;
}

/** Labels and name that the copied lines say by themselves. */
function saidByCopies(tree: Tree, rows: readonly number[]) {
  const labels = new Map<string, string>();
  let name: string | undefined;
  for (const row of rows) {
    const { type } = tree.kindAt(row);
    if (type !== label.type && type !== sessionInfo.type) continue;
    const entry = tree.entryAt(row);
    if (kindOf(entry).problem?.(entry)) continue;
    if (sessionInfo.is(entry)) name = entry.name;
    else if (label.is(entry) && entry.label) labels.set(entry.targetId, entry.label);
    else if (label.is(entry)) labels.delete(entry.targetId);
  }
  return { labels, name };
}
