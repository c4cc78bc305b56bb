import { rmSync } from "node:fs";
import { resolve } from "node:path";
import { bytesView, EspalierError, formatLine } from "@espalier/jsonl-stream";
import { createWhole, digestOf } from "@espalier/jsonl-stream/node";
import {
  createId,
  custom,
  DAMAGED,
  type Entry,
  FORMAT_VERSION,
  leaf,
  lineEnd,
  lineIfWritable,
  ORPHAN,
  pathTargets,
  ROOT,
  referenceIssues,
  rowOfLeaf,
  type SessionHeader,
  type SessionIssue,
  type SessionLog,
  Tree,
} from "@espalier/session-tree";
import { FileLog } from "@espalier/session-tree/node";
import { offsetsBehind, rowAt } from "../search/matching.ts";
import { diagnoseTree } from "./diagnose.ts";

/** An entry that the repaired copy changes, replaces or leaves out. */
export interface RepairChange {
  /** Offset in the original, in bytes. */
  offset: number;
  id: string;
  /** Its id in the copy, if it has another one there; null otherwise. */
  newId: string | null;
  action: Exclude<RepairAction, "copied">;
}

/** Report of a repair. Quotes no content of lines. */
export interface RepairReport {
  /** File of the repaired copy. */
  file: string;
  /** Path of this report, in JSON. */
  report: string;
  /** The damaged session, which is unchanged. */
  source: string;
  /** Number of usable entries in the copy. */
  entries: number;
  /** True when nothing is damaged in the copy, as in `Diagnosis.ok`. */
  ok: boolean;
  /** Issues of the original. */
  issues: SessionIssue[];
  changes: RepairChange[];
  /** Bytes of the original that are not in the copy. */
  lost: LostBytes[];
}

/**
 * Writes a repaired copy of a session, and a report in `<out>.repair.json` next to it; the original is only read. The
 * copy has the same leaf and the same context as the original. It has every readable entry under its own id, unless an
 * earlier entry has that id. Lines of undamaged entries are copied byte for byte. Without a report there is no copy.
 *
 * @throws EspalierError `exists`; `version` for a format newer than this program writes; `not-a-session`
 */
export async function repairSession(log: SessionLog, out: string): Promise<RepairReport> {
  const tree = new Tree(await log.load());
  if (tree.header && tree.header.version > FORMAT_VERSION) {
    const message = `${log.ref} has format version ${tree.header.version}, which this version cannot check; repair it with a newer version of espalier.`;
    throw new EspalierError("version", message);
  }
  if (!tree.header && tree.length === 0)
    throw new EspalierError(
      "not-a-session",
      `${log.ref} has no line that could be kept; is it a session file?`,
    );
  const { issues } = diagnoseTree(tree, log);
  const plan = planRepair(tree);
  const now = new Date().toISOString();
  const file = resolve(out);
  const copy = await FileLog.create(file, headerOf(tree, now), repairLines(plan, now));
  const repaired = diagnoseTree(new Tree(await copy.load()), copy);
  await copy.close();
  const report: RepairReport = {
    file,
    report: `${file}.repair.json`,
    source: log.ref,
    entries: repaired.entries,
    ok: repaired.ok,
    issues,
    changes: changesOf(plan),
    lost: lostBytes(plan),
  };
  try {
    createWhole(report.report, [new TextEncoder().encode(`${JSON.stringify(report, null, 2)}\n`)]);
  } catch (error) {
    // A second try would refuse to replace the copy.
    rmSync(file);
    throw error;
  }
  return report;
}

/** Returns the header of the original, or a new one. Fields that cannot be written are left out. */
function headerOf(tree: Tree, now: string): SessionHeader {
  const { header } = tree;
  const first = tree.length > 0 ? tree.entryAt(0).timestamp : "";
  const needed = {
    type: "session" as const,
    version: FORMAT_VERSION,
    id: header?.id || createId(),
    timestamp: header?.timestamp || first || now,
    cwd: header?.cwd || process.cwd(),
  };
  const whole = { ...header, ...needed };
  return lineIfWritable(whole) === undefined ? needed : whole;
}

function changesOf({ tree, actions, newIds }: RepairPlan): RepairChange[] {
  return actions.flatMap((action, row) => {
    if (action === "copied") return [];
    const newId = newIds.get(row) ?? null;
    return [{ offset: tree.index.offset(row), id: tree.idAt(row), newId, action }];
  });
}

/** Treatment of a row of the damaged log in the copy. */
type RepairAction =
  /** Its bytes are copied. */
  | "copied"
  /** Its id, its parent or a reference is changed in the copy. */
  | "rewritten"
  /** A `custom` entry without content for a model replaces it, so that its children keep their position. */
  | "replaced"
  /** It is left out: it was outside the conversation, without usable content, and no other entry refers to it. */
  | "left-out";

interface RepairPlan {
  tree: Tree;
  actions: RepairAction[];
  /** New ids for rows whose id an earlier row has. */
  newIds: ReadonlyMap<number, string>;
  /** Issues of references, by row. */
  problems: ReadonlyMap<number, SessionIssue>;
  /** Rows to which compactions and edits refer, by the row of the compaction or edit. */
  targets: ReadonlyMap<number, number>;
  /**
   * Leaf of the original, when the copy needs a leaf entry for it; undefined when the copy has the same leaf without
   * one.
   */
  leafRow: number | undefined;
}

/** Fields by which entries refer to entries above them. */
const REFERENCES = ["firstKeptEntryId", "targetId", "fromId"] as const;

/** Decides about every row of a damaged log. Changes nothing; linear in the size of the log. */
function planRepair(tree: Tree): RepairPlan {
  const problems = new Map(referenceIssues(tree).map((issue) => [rowAt(tree, issue.offset), issue]));
  const targets = pathTargets(tree);
  const newIds = new Map<number, string>();
  const needed = new Set<number>();
  const changed = new Set<number>();
  for (let row = 0; row < tree.length; row++) {
    if (tree.index.rowAbove(tree.idAt(row), row) >= 0) newIds.set(row, createId());
    const parent = tree.index.parent(row);
    const named = [parent, ...referencesOf(tree, row, targets).map(({ target }) => target)];
    for (const above of named) needed.add(above);
    if (newIds.has(row) || parent === ORPHAN || named.some((above) => newIds.has(above))) changed.add(row);
  }
  const actions = Array.from({ length: tree.length }, (_, row): RepairAction => {
    const isUsable = !problems.has(row) && tree.entryAt(row).type !== DAMAGED;
    if (isUsable) return changed.has(row) ? "rewritten" : "copied";
    return tree.kindAt(row).movesLeaf || needed.has(row) ? "replaced" : "left-out";
  });
  const plan: RepairPlan = { tree, actions, newIds, problems, targets, leafRow: undefined };
  const wanted = rowOfLeaf(tree);
  return { ...plan, leafRow: leafOfCopy(plan) === wanted ? undefined : wanted };
}

/**
 * Returns the references of a row: each field, and the row to which it refers (-1 without one). A compaction or an
 * edit refers to a row on its path, any other entry to a row above it.
 */
function referencesOf(tree: Tree, row: number, targets: ReadonlyMap<number, number>) {
  const { firstKept, edit } = tree.kindAt(row);
  const entry = tree.entryAt(row) as Entry & Record<string, unknown>;
  return REFERENCES.flatMap((field) => {
    const id = entry[field];
    if (typeof id !== "string") return [];
    return { field, target: firstKept || edit ? (targets.get(row) ?? -1) : tree.index.rowAbove(id, row) };
  });
}

/** Returns the leaf of the copy, as a row of the original, by the rule of `leafRowAt`. */
function leafOfCopy({ tree, actions }: RepairPlan): number {
  const movesLeaf = (row: number) =>
    actions[row] === "replaced" ? custom.movesLeaf : tree.kindAt(row).movesLeaf;
  const last = actions.findLastIndex((action) => action !== "left-out");
  if (last < 0) return ROOT;
  const { leafTarget } = tree.kindAt(last);
  let row = last;
  if (leafTarget && actions[last] !== "replaced") {
    const target = leafTarget(tree.entryAt(last));
    row = target === null ? ROOT : tree.index.rowAbove(target, last);
  }
  while (row >= 0 && !movesLeaf(row)) row = tree.index.parent(row);
  return Math.max(row, ROOT);
}

/** The `customType` of a placeholder for an entry that could not be kept; `data` has the reason and the entry. */
const REPAIRED = "espalier.repaired";

/** Lines of any size are copied; only depth and keys decide if a line can be written. */
const ANY_SIZE = { bytes: Number.POSITIVE_INFINITY };

/** Yields the lines of a repaired copy, without the header, in the order of the original. */
function* repairLines(plan: RepairPlan, now: string): Generator<string | Uint8Array> {
  const { tree, actions, leafRow } = plan;
  let timestamp = tree.header?.timestamp || now;
  for (let row = 0; row < tree.length; row++) {
    const action = actions[row];
    if (action === "left-out") continue;
    const entry = tree.entryAt(row);
    timestamp = entry.timestamp || timestamp;
    if (action === "copied") yield tree.bytesAt(row);
    else if (action === "rewritten") yield rewriteLine(plan, row) ?? placeholder(plan, row, timestamp);
    else yield placeholder(plan, row, timestamp);
  }
  if (leafRow === undefined) return;
  const targetId = idInCopy(plan, leafRow);
  yield formatLine({ ...leaf.of({ targetId }), id: createId(), parentId: targetId, timestamp: now });
}

/** Returns the id of a row in the copy; null for the position before the first entry. */
const idInCopy = ({ tree, newIds }: RepairPlan, row: number): string | null =>
  row < 0 ? null : (newIds.get(row) ?? tree.idAt(row));

/**
 * Returns the changed line of a row; undefined for an entry that cannot be written because it has more than 256 levels
 * or an own key `__proto__`.
 */
function rewriteLine(plan: RepairPlan, row: number): string | undefined {
  const { tree, targets } = plan;
  const ids = { id: idInCopy(plan, row), parentId: idInCopy(plan, tree.index.parent(row)) };
  const changed: Record<string, unknown> = { ...tree.entryAt(row), ...ids };
  for (const { field, target } of referencesOf(tree, row, targets))
    if (target >= 0) changed[field] = idInCopy(plan, target);
  return lineIfWritable(changed, ANY_SIZE);
}

function placeholder(plan: RepairPlan, row: number, timestamp: string): string {
  const { tree, problems } = plan;
  const entry = tree.entryAt(row);
  const place = {
    type: "custom",
    id: idInCopy(plan, row),
    parentId: idInCopy(plan, tree.index.parent(row)),
    timestamp,
    customType: REPAIRED,
  };
  const reason = problems.get(row)?.message ?? "The line could not be read, or not be written again.";
  const bytes = tree.bytesAt(row);
  const lost = { reason, length: bytes.length, sha256: sha256Of(bytes) };
  const data = entry.type === DAMAGED ? lost : { ...lost, was: entry };
  return lineIfWritable({ ...place, data }, ANY_SIZE) ?? formatLine({ ...place, data: lost });
}

/** Returns the SHA-256 in hex, which identifies bytes without quoting them. */
const sha256Of = (bytes: Uint8Array): string => digestOf(bytesView(bytes));

/** Bytes of the log that the repaired copy does not have. */
export interface LostBytes {
  /** Offset in the log, in bytes. */
  offset: number;
  /** Number of bytes. */
  length: number;
  /** SHA-256 of the bytes, in hex. */
  sha256: string;
}

/** Finds the lost bytes: those outside all rows, and rows that were left out or could not be read. */
function lostBytes({ tree, actions }: RepairPlan): LostBytes[] {
  const behind = [...offsetsBehind(tree)];
  const lost: LostBytes[] = [];
  const lose = (offset: number, end: number) =>
    lost.push({ offset, length: end - offset, sha256: sha256Of(tree.view.read(offset, end - offset)) });
  for (const { kind, offset, id } of tree.issues) {
    if (!LOSING.has(kind) || id !== null) continue;
    const end = lineEnd(tree.view, offset);
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
