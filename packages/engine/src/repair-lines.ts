import { createHash } from "node:crypto";
import { formatLine, JsonlError } from "@espalier/jsonl-stream";
import { createId, DAMAGED, type Entry, leaf, type Tree } from "@espalier/session-tree";
import { REFERENCES, type RepairPlan, referredRow } from "./repair-plan.ts";

/** The `customType` of what holds the place of an entry that could not be kept; `data` says why, and what it was. */
export const REPAIRED = "espalier.repaired";

/** A line is copied whatever its size; only its depth and its keys decide whether it can be written. */
const ANY_SIZE = { bytes: Number.POSITIVE_INFINITY };

/** The lines of a healed copy, header aside, in the order of the original. */
export function* repairLines(plan: RepairPlan, now: string): Generator<string | Uint8Array> {
  const { tree, actions, leafRow } = plan;
  let timestamp = tree.header?.timestamp || now;
  for (let row = 0; row < tree.length; row++) {
    const action = actions[row];
    if (action === "left-out") continue;
    const entry = tree.entryAt(row);
    timestamp = entry.timestamp || timestamp;
    if (action === "copied") yield tree.bytesAt(row);
    else if (action === "rewritten") yield rewritten(plan, row) ?? placeholder(plan, row, timestamp);
    else yield placeholder(plan, row, timestamp);
  }
  if (leafRow === undefined) return;
  const targetId = leafRow < 0 ? null : idInCopy(plan, leafRow);
  yield formatLine({ ...leaf.of({ targetId }), id: createId(), parentId: targetId, timestamp: now });
}

/** The id that a row has in the copy. */
export function idInCopy({ tree, freshIds }: RepairPlan, row: number): string {
  return freshIds.get(row) ?? tree.idAt(row);
}

function parentInCopy(plan: RepairPlan, row: number): string | null {
  const parent = plan.tree.index.parent(row);
  return parent < 0 ? null : idInCopy(plan, parent);
}

/** Undefined for what was read and cannot be written: nested too deep, or with an own key `__proto__`. */
function rewritten(plan: RepairPlan, row: number): string | undefined {
  const { tree } = plan;
  const entry = tree.entryAt(row);
  const changed: Record<string, unknown> = {
    ...entry,
    id: idInCopy(plan, row),
    parentId: parentInCopy(plan, row),
  };
  for (const field of REFERENCES) {
    const id = changed[field];
    const target = typeof id === "string" ? referredRow(tree, row, id, field) : -1;
    if (target >= 0) changed[field] = idInCopy(plan, target);
  }
  return written(changed);
}

function placeholder(plan: RepairPlan, row: number, timestamp: string): string {
  const { tree, problems } = plan;
  const entry = tree.entryAt(row);
  const held = {
    type: "custom",
    id: idInCopy(plan, row),
    parentId: parentInCopy(plan, row),
    timestamp,
    customType: REPAIRED,
  };
  const reason = problems.get(row)?.message ?? "The line could not be read, or not be written again.";
  const bytes = tree.bytesAt(row);
  const lost = { reason, length: bytes.length, sha256: digestOf(bytes) };
  const whole = entry.type === DAMAGED ? undefined : written({ ...held, data: { ...lost, was: entry } });
  return whole ?? formatLine({ ...held, data: lost });
}

function written(value: unknown): string | undefined {
  try {
    return formatLine(value, ANY_SIZE);
  } catch (error) {
    if (error instanceof JsonlError) return undefined;
    throw error;
  }
}

/** SHA-256 in hex: names bytes without quoting them. */
function digestOf(bytes: Uint8Array): string {
  return createHash("sha256").update(bytes).digest("hex");
}

/** Bytes of lines that a healed copy does not have: where they stand in the view of the tree, and what they were. */
export interface LostBytes {
  /** Where they began in the log, in bytes. */
  offset: number;
  /** Bytes. */
  length: number;
  /** Their digest, in hex: what was lost can be told from what was not. */
  sha256: string;
}

/** What of a log its copy does not say any more: what is in no row, and rows that were left out or could not be read. */
export function lostBytes({ tree, actions }: RepairPlan): LostBytes[] {
  const behind = tree.issues.filter(({ kind }) => BEHIND.has(kind)).map(({ offset }) => offset);
  const lost: LostBytes[] = [];
  const lose = (offset: number, end: number) =>
    lost.push({ offset, length: end - offset, sha256: digestOf(tree.view.read(offset, end - offset)) });
  for (const { kind, offset, id } of tree.issues) {
    if (!LOSING.has(kind) || id !== null) continue;
    const end = lineEnd(tree, offset);
    lose(offset, behind.find((start) => start > offset && start < end) ?? end);
  }
  for (const [row, action] of actions.entries()) {
    const offset = tree.index.offset(row);
    if (action === "left-out" || tree.entryAt(row).type === DAMAGED)
      lose(offset, offset + tree.index.lineLength(row));
  }
  return lost.sort((a, b) => a.offset - b.offset);
}

const LOSING: ReadonlySet<string> = new Set(["torn-tail", "corrupt", "duplicate-header"]);

/** What is told of an entry that stands behind something else on its line. */
const BEHIND: ReadonlySet<string> = new Set(["salvaged", "glued"]);

function lineEnd({ view }: Tree, offset: number): number {
  for (let from = offset; from < view.size; from += 1 << 16) {
    const found = view.read(from, 1 << 16).indexOf(10);
    if (found >= 0) return from + found;
  }
  return view.size;
}

/** Whether an entry is a placeholder of ours. */
export function isRepaired(entry: Entry): boolean {
  return entry.type === "custom" && (entry as Entry & { customType?: unknown }).customType === REPAIRED;
}
