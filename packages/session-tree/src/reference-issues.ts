import { DAMAGED } from "./damaged.ts";
import { label } from "./entries/label.ts";
import type { Entry } from "./entry.ts";
import type { SessionIssue, SessionIssueKind } from "./session-issue.ts";
import type { Tree } from "./tree.ts";

/**
 * What is wrong with what entries say of one another: first kept entries and edits off their path, labels and leaves
 * of nothing, known types that lack what their type needs. Reads every entry; linear in their number.
 */
export function referenceIssues(tree: Tree): SessionIssue[] {
  const issues: SessionIssue[] = [];
  const ancestry = new Ancestry(tree);
  for (let row = 0; row < tree.length; row++) {
    const entry = tree.entryAt(row);
    if (entry.type === DAMAGED) continue;
    const kind = tree.kindAt(row);
    const note = (issue: SessionIssueKind, message: string) =>
      issues.push({ kind: issue, line: null, offset: tree.index.offset(row), id: entry.id, message });
    const problem = kind.problem?.(entry);
    if (problem) note("invalid-entry", `A ${entry.type} entry is not sound: ${problem}.`);
    else {
      const reference = referenceProblem(tree, row, entry, ancestry);
      if (reference) note("bad-reference", reference);
    }
  }
  return issues;
}

function referenceProblem(tree: Tree, row: number, entry: Entry, ancestry: Ancestry): string | undefined {
  const kind = tree.kindAt(row);
  const onPath = (id: string) => {
    const target = tree.index.rowAbove(id, row);
    return target >= 0 && ancestry.isAbove(target, row);
  };
  if (kind.firstKept) {
    const firstKept = kind.firstKept(entry);
    if (firstKept !== entry.id && !onPath(firstKept)) {
      return "The first kept entry of a compaction is not on its path; the compaction says nothing.";
    }
  }
  if (kind.edit && !onPath(kind.edit(entry).targetId))
    return "An edit names an entry that is not on its path; it changes nothing.";
  if (kind.leafTarget) {
    const target = kind.leafTarget(entry);
    if (target !== null && tree.index.rowAbove(target, row) < 0)
      return "A leaf names an entry that is not above it; it counts for nothing.";
  }
  if (label.is(entry) && tree.index.rowAbove(entry.targetId, row) < 0)
    return "A label names an entry that is not above it.";
  return undefined;
}

/** Answers "is this row on the path of that one" at once, from the order in which a walk enters and leaves rows. */
class Ancestry {
  readonly #enter: Int32Array;
  readonly #leave: Int32Array;

  constructor(tree: Tree) {
    const { index } = tree;
    const size = new Int32Array(index.length).fill(1);
    for (let row = index.length - 1; row >= 0; row--) {
      const parent = index.parent(row);
      if (parent >= 0) size[parent] = size[parent]! + size[row]!;
    }
    this.#enter = new Int32Array(index.length);
    this.#leave = new Int32Array(index.length);
    // Where the next child of a row (or the next root) is entered; parents come before children, so one pass is enough.
    const next = new Int32Array(index.length);
    let nextRoot = 0;
    for (let row = 0; row < index.length; row++) {
      const parent = index.parent(row);
      const enter = parent < 0 ? nextRoot : next[parent]!;
      if (parent < 0) nextRoot += size[row]!;
      else next[parent] = enter + size[row]!;
      this.#enter[row] = enter;
      this.#leave[row] = enter + size[row]!;
      next[row] = enter + 1;
    }
  }

  /** True when `ancestor` is on the path of `row`. */
  isAbove(ancestor: number, row: number): boolean {
    return this.#enter[ancestor]! <= this.#enter[row]! && this.#leave[row]! <= this.#leave[ancestor]!;
  }
}
