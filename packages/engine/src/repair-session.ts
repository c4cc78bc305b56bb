import { resolve } from "node:path";
import { formatLine, JsonlError } from "@espalier/jsonl-stream";
import { createWhole } from "@espalier/jsonl-stream/node";
import {
  createId,
  FORMAT_VERSION,
  type SessionHeader,
  type SessionIssue,
  type SessionLog,
  SessionTreeError,
  Tree,
} from "@espalier/session-tree";
import { FileLog } from "@espalier/session-tree/node";
import { diagnoseTree } from "./diagnose.ts";
import { idInCopy, type LostBytes, lostBytes, repairLines } from "./repair-lines.ts";
import { planRepair, type RepairAction, type RepairPlan } from "./repair-plan.ts";

/** An entry that is not in the healed copy as it was. */
export interface RepairChange {
  /** Where it stands in the original. */
  offset: number;
  id: string;
  /** Its id in the copy, when that is another one; null otherwise. */
  newId: string | null;
  action: Exclude<RepairAction, "copied">;
}

/** What a repair came to. Says nothing of what lines hold. */
export interface RepairReport {
  /** The healed copy. */
  file: string;
  /** Where this report lies, as JSON. */
  report: string;
  /** The damaged session, which is as it was. */
  source: string;
  /** Entries in the copy. */
  entries: number;
  /** True when a look at every line of the copy finds nothing wrong. */
  ok: boolean;
  /** What was wrong with the original. */
  issues: SessionIssue[];
  changes: RepairChange[];
  /** Bytes of the original that are not in the copy. */
  lost: LostBytes[];
}

/**
 * Writes a healed copy of a session, and beside it a report, `<out>.repair.json`; the original is only read. Opening
 * the copy gives the leaf and the context that opening the original gives. Every entry that can be read is in it under
 * its own id, unless another entry above has that; the line of a sound one is copied byte for byte.
 *
 * @throws SessionTreeError `exists`; `version` for a format newer than this program writes; `not-a-session`
 */
export async function repairSession(log: SessionLog, out: string): Promise<RepairReport> {
  const tree = new Tree(await log.load());
  if (tree.header && tree.header.version > FORMAT_VERSION) {
    const message = `${log.ref} has format version ${tree.header.version}; what is sound in it only a newer program knows.`;
    throw new SessionTreeError("version", message);
  }
  if (!tree.header && tree.length === 0)
    throw new SessionTreeError(
      "not-a-session",
      `${log.ref} has no line that could be kept; is it a session file?`,
    );
  const { issues } = diagnoseTree(tree, log);
  const plan = planRepair(tree);
  const now = new Date().toISOString();
  const file = resolve(out);
  const copy = FileLog.create(file, headerOf(tree, now), repairLines(plan, now));
  const healed = diagnoseTree(new Tree(await copy.load()), copy);
  await copy.close();
  const report: RepairReport = {
    file,
    report: `${file}.repair.json`,
    source: log.ref,
    entries: healed.entries,
    ok: healed.ok,
    issues,
    changes: changesOf(plan),
    lost: lostBytes(plan),
  };
  createWhole(report.report, [new TextEncoder().encode(`${JSON.stringify(report, null, 2)}\n`)]);
  return report;
}

/** The header that was there, or one for a session that had none. What cannot be written of it is left out. */
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
  try {
    formatLine({ ...header, ...needed });
    return { ...header, ...needed };
  } catch (error) {
    if (error instanceof JsonlError) return needed;
    throw error;
  }
}

function changesOf(plan: RepairPlan): RepairChange[] {
  const { tree, actions } = plan;
  return actions.flatMap((action, row) => {
    if (action === "copied") return [];
    const id = tree.idAt(row);
    const newId = idInCopy(plan, row);
    return [{ offset: tree.index.offset(row), id, newId: newId === id ? null : newId, action }];
  });
}
