import { statSync } from "node:fs";
import { dirname, isAbsolute } from "node:path";
import { forEachLine, forEachLineBackward, LINE_LIMITS } from "@espalier/jsonl-stream";
import {
  DAMAGED,
  isDamage,
  readSessionLine,
  referenceIssues,
  type SessionIssue,
  type SessionLog,
  Tree,
} from "@espalier/session-tree";

/** Size in bytes above which a log has the issue `large-file`. */
const LARGE_LOG = 256 * 1024 * 1024;

/** Result of reading every line of a session. */
export interface Diagnosis {
  /** False when content is lost, doubtful, or blocks the use of the session. */
  ok: boolean;
  /** Number of usable entries. */
  entries: number;
  /** Issues in the order of the file. */
  issues: SessionIssue[];
}

/** Reads every line of a log and lists its issues, with line and offset in the file on disk. Changes nothing. */
export async function diagnose(log: SessionLog): Promise<Diagnosis> {
  return diagnoseTree(new Tree(await log.load()), log);
}

/** Reads a tree in memory like {@link diagnose}. */
export function diagnoseTree(tree: Tree, log: SessionLog): Diagnosis {
  const issues: SessionIssue[] = [...tree.issues];
  const note = (kind: SessionIssue["kind"], offset: number, id: string | null, message: string) =>
    issues.push({ kind, line: null, offset, id, message });
  /** Offsets of lines that have an issue already. */
  const taken = new Set(issues.map(({ offset }) => offset));
  let damaged = 0;
  for (let row = 0; row < tree.length; row++) {
    const offset = tree.index.offset(row);
    const length = tree.index.lineLength(row);
    const id = tree.idAt(row);
    if (tree.entryAt(row).type === DAMAGED) {
      damaged++;
      const message = `${length} bytes of a line cannot be read: the entry's content is lost, its position is kept.`;
      if (!taken.has(offset)) note("corrupt", offset, id, message);
    }
    // This program refuses to write such a line.
    if (length > LINE_LIMITS.bytes)
      note("large-line", offset, id, `The line has ${length} bytes, more than this version writes.`);
  }
  for (const issue of referenceIssues(tree)) issues.push(issue);
  // Reports blank lines at the beginning and the end. Readers ignore them, and no writer makes them.
  const isBlank = (line: Uint8Array) => readSessionLine(line).is === "blank";
  forEachLine(tree.view, (block, start, end) => {
    if (!taken.has(0) && isBlank(block.subarray(start, end)))
      note("blank-beginning", 0, null, "Blank lines are before the header; they have no meaning.");
    return false;
  });
  forEachLineBackward(tree.view, (block, start, end, offset, terminated) => {
    if (!terminated && !taken.has(offset) && isBlank(block.subarray(start, end)))
      note("unterminated-tail", offset, null, "The last line is blank and has no end.");
    return false;
  });
  if (tree.view.size > LARGE_LOG) note("large-file", 0, null, `The session has ${tree.view.size} bytes.`);
  return { ok: !issues.some(isDamage), entries: tree.length - damaged, issues: placed(issues, tree, log) };
}

/** Adds the line to every issue, and, for an old format that was upgraded in memory, the offset in the file on disk. */
function placed(issues: SessionIssue[], tree: Tree, log: SessionLog): SessionIssue[] {
  issues.sort((a, b) => a.offset - b.offset);
  const originals = log.upgraded?.originalOffsets;
  const placedIssues: SessionIssue[] = [];
  let next = 0;
  let lineOf = 0;
  const place = (until: number, line: number) => {
    for (; next < issues.length && issues[next]!.offset < until; next++) {
      const issue = issues[next]!;
      placedIssues.push({ ...issue, line, offset: originals?.[line - 1] ?? issue.offset });
    }
  };
  forEachLine(tree.view, (_block, _start, _end, offset, lineNumber) => {
    place(offset, lineOf);
    lineOf = lineNumber;
    return next < issues.length ? undefined : false;
  });
  place(Number.POSITIVE_INFINITY, lineOf);
  return placedIssues;
}

/**
 * Returns whether the rights of a session's file and of its folder let other users of this machine read it. False for a
 * name in a store.
 */
export function othersMayRead(file: string): boolean {
  if (process.platform === "win32" || !isAbsolute(file)) return false;
  const facts = statSync(file, { throwIfNoEntry: false });
  const folder = statSync(dirname(file), { throwIfNoEntry: false });
  if (!facts?.isFile() || !folder) return false;
  // Group and other users are checked separately: each needs to read the file and to enter the folder.
  return [3, 0].some((shift) => ((facts.mode >> shift) & 4) !== 0 && ((folder.mode >> shift) & 1) !== 0);
}
