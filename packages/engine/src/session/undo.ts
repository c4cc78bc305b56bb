import type { CompactionDetails } from "@espalier/compaction";
import { EspalierError } from "@espalier/jsonl-stream";
import {
  branchSummary,
  compaction,
  contextEdit,
  custom,
  type Entry,
  isCustom,
  isMessage,
  isOnPath,
  label,
  leaf,
  leafRowAt,
  messageText,
  type NewEntry,
  promptText,
  sessionInfo,
  type Tree,
} from "@espalier/session-tree";
import { PIN } from "./edit.ts";
import { finishMove, type NavigateResult } from "./navigate.ts";
import type { Session } from "./session.ts";

/** An action of a user that an undo takes back. */
export interface LastAct {
  kind: "prompt" | "navigation" | "summary" | "compaction" | "edit" | "label" | "name" | "pin";
  /** Entry of the action. */
  entryId: string;
  /** The prompt, the label or the name; empty for other actions, and when a label or name was removed. */
  text: string;
  /** Time, ISO 8601. */
  timestamp: string;
}

/** Result of an undo or a redo. */
export interface UndoResult extends NavigateResult {
  /** Action that was undone or repeated. */
  act: LastAct;
}

/**
 * Returns the action of an entry, if its kind is one; a prompt, compaction, edit or pin only counts on the leaf's path.
 */
function actOf(tree: Tree, row: number, leafRow: number): LastAct | undefined {
  const { type } = tree.kindAt(row);
  if (!ACTS.has(type)) return undefined;
  const entry = tree.entryAt(row);
  const act = (kind: LastAct["kind"], text = ""): LastAct => {
    const { id: entryId, timestamp } = entry;
    return { kind, entryId, text, timestamp };
  };
  // An invalid leaf entry has moved the leaf too.
  if (type === leaf.type) return act("navigation");
  if (type === branchSummary.type) return act("summary");
  if (label.is(entry)) return entry.navigation === undefined ? act("label", entry.label) : undefined;
  if (sessionInfo.is(entry)) return act("name", entry.name);
  if (!isOnPath(tree, row, leafRow)) return undefined;
  if (isMessage(entry, "user")) return act("prompt", messageText(entry.message));
  if (isCustom(entry, PIN)) return act("pin");
  if (!isAskedFor(entry)) return undefined;
  return act(contextEdit.is(entry) ? "edit" : "compaction");
}

const ACTS: ReadonlySet<string> = new Set([
  leaf.type,
  branchSummary.type,
  compaction.type,
  contextEdit.type,
  label.type,
  sessionInfo.type,
  custom.type,
  "message",
]);

/** Returns whether a user requested this compaction or edit. Only Espalier records it; those of other programs are skipped. */
function isAskedFor(entry: Entry): boolean {
  if (contextEdit.is(entry)) return entry.reason === "manual";
  if (!compaction.is(entry)) return false;
  return (entry.details as Partial<CompactionDetails> | null | undefined)?.reason === "manual";
}

/** Returns the entry whose effect this one takes back; undefined for an entry that no undo or redo wrote. */
function undoneBy(entry: Entry): string | undefined {
  const { undoes } = entry as { undoes?: unknown };
  return typeof undoes === "string" ? undoes : undefined;
}

/**
 * Finds the newest action of a user that is not undone. Automatic compactions and edits do not count. An undo does not
 * count either, and names the action that it took back in `undoes`: undoing twice goes back two actions. A redo takes
 * back an undo in the same way.
 */
export function lastAct(tree: Tree, leafId: string | null): LastAct | undefined {
  const leafRow = leafId === null ? -1 : tree.row(leafId);
  const undone = new Set<string>();
  for (let row = tree.length - 1; row >= 0; row--) {
    if (!ACTS.has(tree.kindAt(row).type)) continue;
    const entry = tree.entryAt(row);
    const isUndone = undone.has(entry.id);
    const undoes = undoneBy(entry);
    if (undoes !== undefined && !isUndone) undone.add(undoes);
    if (undoes !== undefined || isUndone) continue;
    const act = actOf(tree, row, leafRow);
    if (act) return act;
  }
  return undefined;
}

/** An undo or a redo: its action, the row of the reverted entry, and the leaf afterwards if the leaf moves. */
interface TakingBack extends Pick<UndoResult, "act" | "editorText"> {
  row: number;
  to: string | null;
}

/** Undoes the last action of a user; see `Session.undo`. */
export function undo(session: Session, expected?: string): Promise<UndoResult> {
  const nothing =
    "There is nothing to undo: this path has no prompt, compaction or hiding, and the session has no navigation, label, name or pin.";
  return takeBack(session, expected, { verb: "undo", newest: "action", nothing }, (tree) => {
    const act = lastAct(tree, session.leafId);
    if (!act) return undefined;
    const row = tree.row(act.entryId);
    const movesLeaf = act.kind === "navigation" || act.kind === "summary";
    const to = movesLeaf ? leafBefore(tree, row) : tree.parentIdAt(row);
    return { act, row, to, editorText: act.kind === "prompt" ? promptText(tree.entryAt(row)) : null };
  });
}

/** Repeats the action that the last undo took back; see `Session.redo`. */
export function redo(session: Session, expected?: string): Promise<UndoResult> {
  const nothing = "There is nothing to redo: the last action was not an undo.";
  return takeBack(session, expected, { verb: "redo", newest: "undone action", nothing }, (tree) => {
    const row = lastUndo(tree);
    if (row < 0) return undefined;
    return { act: actUndoneAt(tree, row), row, to: leafBefore(tree, row), editorText: null };
  });
}

/** Reverts an entry: restores a value, or moves the leaf. */
async function takeBack(
  session: Session,
  expected: string | undefined,
  { verb, newest, nothing }: { verb: "undo" | "redo"; newest: string; nothing: string },
  plan: (tree: Tree) => TakingBack | undefined,
): Promise<UndoResult> {
  await session.load();
  let oldLeafId: string | null = null;
  let planned: TakingBack | undefined;
  // The plan is made after all earlier appends, so that two concurrent undos revert two actions.
  const [written] = await session.append(() => {
    const { tree } = session;
    oldLeafId = session.leafId;
    planned = plan(tree);
    if (!planned) throw new EspalierError(`nothing-to-${verb}`, nothing);
    const { act, row, to } = planned;
    if (expected !== undefined && act.entryId !== expected) {
      const other = `the ${act.kind} ${JSON.stringify(act.entryId)}, not ${JSON.stringify(expected)}`;
      throw new EspalierError(
        "stale",
        `The newest ${newest} is now ${other}; nothing was ${verb === "undo" ? "undone" : "redone"}.`,
      );
    }
    const entry = tree.entryAt(row);
    const targetId = session.placeOf(to);
    return [restored(tree, entry, row) ?? leaf.of({ parentId: targetId, targetId, undoes: entry.id })];
  });
  if (written && leaf.is(written))
    await finishMove(session, { oldLeafId, summaryEntryId: null, fromExtension: false });
  const { act, editorText } = planned!;
  return { leafId: session.leafId, summaryEntryId: null, editorText, act };
}

/** Finds the action that a redo repeats; undefined when there is none. */
export function lastUndone(tree: Tree): LastAct | undefined {
  const row = lastUndo(tree);
  return row < 0 ? undefined : actUndoneAt(tree, row);
}

/** Returns the action that the undo at a row took back. */
function actUndoneAt(tree: Tree, row: number): LastAct {
  const undone = tree.row(undoneBy(tree.entryAt(row))!);
  return actOf(tree, undone, undone)!;
}

/**
 * Returns the row of the undo that a redo takes back: the newest undo that was not redone, with no later action; -1
 * when there is none.
 */
function lastUndo(tree: Tree): number {
  const undone = new Set<string>();
  for (let row = tree.length - 1; row >= 0; row--) {
    const { type } = tree.kindAt(row);
    if (!ACTS.has(type)) continue;
    const entry = tree.entryAt(row);
    if (undone.has(entry.id)) continue;
    const undoes = undoneBy(entry);
    if (undoes === undefined) {
      if (type === "message" || actOf(tree, row, row)) return -1;
      continue;
    }
    const target = tree.has(undoes) ? tree.entryAt(tree.row(undoes)) : undefined;
    // A merge into another branch moves the leaf there and back in one append: its way back is no undo of a user.
    const isWayBack = target && isMerge(target) && target.parentId !== entry.parentId;
    if (!target || (isWayBack && tree.row(undoes) === row - 1)) return -1;
    if (undoneBy(target) === undefined) return row;
    undone.add(undoes);
  }
  return -1;
}

const isMerge = (entry: Entry): boolean =>
  branchSummary.is(entry) && (entry.details as { merge?: unknown } | null | undefined)?.merge !== undefined;

/** Returns the leaf before a row was written; null before the first entry. */
function leafBefore(tree: Tree, row: number): string | null {
  const before = leafRowAt(tree, row - 1);
  return before < 0 ? null : tree.idAt(before);
}

/** Returns the entry that restores a label, name or pin to its value before a row; undefined for any other entry. */
function restored(tree: Tree, entry: Entry, row: number): NewEntry | undefined {
  const undoes = entry.id;
  if (label.is(entry)) {
    const { targetId } = entry;
    const text = newestAbove(tree, row, (above) => label.is(above) && above.targetId === targetId);
    return {
      ...label.of({ targetId, ...(text && label.is(text) && text.label ? { label: text.label } : {}) }),
      undoes,
    };
  }
  if (sessionInfo.is(entry)) {
    const named = newestAbove(tree, row, (above) => sessionInfo.is(above));
    return { ...sessionInfo.of({ name: (named && sessionInfo.is(named) && named.name) || "" }), undoes };
  }
  if (!isCustom(entry, PIN)) return undefined;
  const { targetId } = pinOf(entry);
  let above = tree.index.parent(row);
  while (above >= 0 && !isPinOf(tree.entryAt(above), targetId)) above = tree.index.parent(above);
  const pinned = above >= 0 && pinOf(tree.entryAt(above)).pinned !== false;
  return { ...custom.of({ customType: PIN, data: { targetId, pinned } }), undoes };
}

const pinOf = (entry: Entry) =>
  ((entry as { data?: unknown }).data ?? {}) as { targetId?: unknown; pinned?: unknown };
const isPinOf = (entry: Entry, targetId: unknown): boolean =>
  isCustom(entry, PIN) && pinOf(entry).targetId === targetId;

function newestAbove(tree: Tree, row: number, isSought: (entry: Entry) => boolean): Entry | undefined {
  for (let above = row - 1; above >= 0; above--) {
    const { type } = tree.kindAt(above);
    if (type !== label.type && type !== sessionInfo.type) continue;
    const entry = tree.entryAt(above);
    if (isSought(entry)) return entry;
  }
  return undefined;
}
