import { sessionNavigate } from "@espalier/branch-summary";
import {
  type CompactionDetails,
  type Rule,
  type RuleState,
  ruleStateOn,
  rulesIn,
  rulesOn,
} from "@espalier/compaction";
import { archivedRows } from "@espalier/compaction/policies";
import { EspalierError } from "@espalier/jsonl-stream";
import {
  branchSummary,
  type ContextEdit,
  compaction,
  contextEdit,
  custom,
  customMessage,
  type Entry,
  type EntryKind,
  isCustom,
  isMessage,
  isOnPath,
  kindOf,
  label,
  leaf,
  leafRowAt,
  message,
  messagesOf,
  messageText,
  type NewEntry,
  pathRowsOf,
  projectPath,
  promptText,
  type SessionTree,
  sessionInfo,
  type Tree,
} from "@espalier/session-tree";
import { restoreFiles } from "../compaction/offload.ts";
import type { NavigateResult } from "./navigate.ts";
import type { Session } from "./session.ts";

/**
 * Returns the edit that removes an entry from the context at the leaf, or restores it; none when the entry is already
 * in that state. A restored entry has its content from directly before it was hidden: the shortened one, if a
 * compaction had shortened it.
 *
 * @throws EspalierError `unknown-entry`; `not-in-context`
 */
export function planHiding(core: SessionTree, targetId: string, isHidden: boolean): NewEntry[] {
  const { entry, isIncluded } = placeInContext(core, targetId);
  if (isIncluded !== isHidden) return [];
  const replacement = isHidden ? null : earlierContent(core, entry);
  return [contextEdit.of({ targetId, replacement, reason: "manual" })];
}

/** Finds an entry that the model reads at the leaf, or would read without an edit. Throws as {@link planHiding}. */
function placeInContext(core: SessionTree, id: string): { entry: Entry; isIncluded: boolean } {
  const { tree, leafId, window } = core;
  const row = tree.row(id);
  const saysNothing = ({ type }: { type: string }) =>
    notInContext(`${id} (${type}) has no content for the model: name an entry that the context lists`);
  if (!tree.kindAt(row).toMessages) throw saysNothing(tree.entryAt(row));
  if (leafId === null || !isOnPath(tree, row, tree.row(leafId)))
    throw notInContext(`${id} is on another branch: navigate to that branch first`);
  const found = projectPath(window.entries).find(({ entry }) => entry.id === id);
  if (!found) {
    const compaction = tree.idAt(archivedRows({ tree, leafId }).compactionRow);
    throw notInContext(
      `the compaction ${compaction} has replaced ${id}: hide the compaction, or navigate to before it first`,
    );
  }
  const isIncluded = found.messages.length > 0;
  // Without its edits: an older compaction in the kept range is empty, whether it was hidden or not.
  const unedited = window.entries.filter((other) => !contextEdit.is(other) || other.targetId !== id);
  const isEmpty = () => projectPath(unedited).find(({ entry }) => entry.id === id)?.messages.length === 0;
  if (!isIncluded && isEmpty()) throw saysNothing(found.entry);
  return { entry: found.entry, isIncluded };
}

/** Returns the replacement that restores an entry: its newest replacement, or its own content. */
function earlierContent(core: SessionTree, entry: Entry): NonNullable<ContextEdit["replacement"]> {
  for (const { replacement } of editsOf(core, entry.id)) if (replacement !== null) return replacement;
  // Messages whose content no edit replaces (summaries, shell runs) are restored whole by any replacement.
  const { content = "" } = (messagesOf(entry).at(-1) ?? {}) as { content?: unknown };
  return { content } as NonNullable<ContextEdit["replacement"]>;
}

const notInContext = (why: string) =>
  new EspalierError("not-in-context", `The model does not read this entry at the leaf; ${why}.`);

/** `customType` of an entry that pins another one. A pinned entry stays in the context, word for word, over compactions. */
export const PIN = "espalier.pin";

/**
 * Returns the ids that are pinned at the end of a path, in the order of pinning; `before` are the ids pinned above the
 * path.
 */
export function pinnedOn(path: readonly Entry[], before: readonly string[] = []): string[] {
  const pinned = new Set<string>(before);
  for (const entry of path) {
    const pin = pinIn(entry);
    if (pin?.isPinned === false) pinned.delete(pin.targetId);
    else if (pin) pinned.add(pin.targetId);
  }
  return [...pinned];
}

function pinIn(entry: Entry): { targetId: string; isPinned: boolean } | undefined {
  if (!isCustom(entry, PIN)) return undefined;
  const { targetId, pinned } = (entry.data ?? {}) as { targetId?: unknown; pinned?: unknown };
  return typeof targetId === "string" ? { targetId, isPinned: pinned !== false } : undefined;
}

/** Returns whether a draft can be appended beside another writer, at the leaf of the log: a pin, a label, a name. */
export const isBeside = (draft: NewEntry): boolean =>
  isCustom(draft as Entry, PIN) || [label.type, sessionInfo.type].includes(draft.type as never);

/**
 * Repeats pins that another process appended between two bytes, beside this session's writer: they are on a branch, and
 * the path goes on without them. A failure is logged.
 */
export async function repeatPins(session: Session, bytes: { from: number; to: number }): Promise<void> {
  try {
    const tree = await session.load();
    const isPin = (row: number) => row >= 0 && custom.is(tree.entryAt(row)) && pinIn(tree.entryAt(row));
    const isHere = (row: number) => row >= 0 && session.isOnPath(tree.idAt(row));
    const pins: NewEntry[] = [];
    for (let row = tree.lastRow; row >= 0 && tree.index.offset(row) >= bytes.from; row--) {
      if (tree.index.offset(row) >= bytes.to || isHere(row) || !isPin(row)) continue;
      let above = row;
      while (isPin(above)) above = tree.index.parent(above);
      const { customType, data } = tree.entryAt(row) as Entry & { customType: string; data: unknown };
      if (isHere(above)) pins.unshift(custom.of({ customType, data }));
    }
    if (pins.length > 0) await session.append(pins);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    session.logger.error(`A pin by another process does not apply here; pin that entry again: ${reason}`, {
      error,
    });
  }
}

/**
 * Returns pinned entries of the leaf's path with their texts, edits applied; an entry without text is left out. A
 * compaction by Espalier records the pins, so that only the end of the path is read.
 */
export function pinnedTexts(session: SessionTree): { id: string; text: string }[] {
  const { entries, complete } = session.window;
  const { pinned: recorded } = (entries.findLast(compaction.is)?.details ?? {}) as { pinned?: unknown };
  const isRecorded = Array.isArray(recorded);
  const before = isRecorded ? recorded.filter((id) => typeof id === "string") : [];
  const ids = pinnedOn(complete || isRecorded ? entries : customEntries(session), before);
  return ids.flatMap((id) => {
    const text = textOf(session, id);
    return text === "" ? [] : [{ id, text }];
  });
}

/**
 * Returns the rules that apply at the leaf, oldest first. A compaction by Espalier records them, so that only the path's
 * end is read. The rules at another compaction are read from the whole path once, and kept with the session.
 */
export function rulesAtLeaf(session: Session): Rule[] {
  const { entries, complete } = session.window;
  const finding = findingIn(session);
  const front = entries.findLast(compaction.is);
  if (complete || rulesIn(front?.details) !== undefined) return rulesOn(entries, finding);
  if (front === undefined) return rulesOn(session.getBranch(), finding);
  let known = knownRules.get(session);
  if (known?.entryId !== front.id) {
    known = { entryId: front.id, state: ruleStateOn(session.getBranch(front.id), finding) };
    knownRules.set(session, known);
  }
  return ruleStateOn(entries, finding, known).rules;
}

/** Rules at the newest compaction of a session's path, if that compaction records none. */
const knownRules = new WeakMap<Session, { entryId: string; state: RuleState }>();

/**
 * Returns the user's rules that apply at an entry, oldest first. Default: the leaf; null is before the first entry.
 * Throws `unknown-entry`.
 */
export function rulesOf(session: Session, entryId: string | null = session.leafId): Rule[] {
  if (entryId === session.leafId) return rulesAtLeaf(session);
  return rulesOn(session.getBranch(session.placeOf(entryId)), findingIn(session));
}

const findingIn = ({ options }: Session) => ({ isFinding: options.rules !== false });

/** Returns the `custom` entries of a path, which include all pins; other lines are not parsed. */
function customEntries({ tree, leafId }: Pick<SessionTree, "tree" | "leafId">): Entry[] {
  if (leafId === null) return [];
  const rows = pathRowsOf(tree, tree.row(leafId), ({ type }) => type === custom.type);
  return Array.from(rows, (row) => tree.entryAt(row));
}

/** Returns the text of an entry on the leaf's path; empty when an edit removed it, or the entry is invalid. */
function textOf(session: SessionTree, id: string): string {
  const entry = session.getEntry(id);
  const edit = entry && editsOf(session, id).next().value;
  if (!entry || edit?.replacement === null) return "";
  return messagesOf(entry)
    .map((message) => messageText(edit ? { ...message, ...(edit.replacement as object) } : message))
    .join("\n");
}

/** Yields the edits of an entry on the leaf's path, newest first; reads only entries below it. */
function* editsOf({ window, tree }: SessionTree, id: string): Generator<ContextEdit> {
  const target = tree.row(id);
  for (let row = tree.row(window.leafId!); row > target; row = tree.index.parent(row)) {
    if (!tree.kindAt(row).edit) continue;
    const entry = tree.entryAt(row);
    const kind = kindOf(entry);
    const found = kind.problem?.(entry) ? undefined : kind.edit?.(entry);
    if (found?.targetId === id) yield found;
  }
}

/** An action of a user that an undo reverses. */
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
 * Returns the action of an entry; undefined when it is none. A prompt, compaction, edit or pin is an action only on the
 * leaf's path.
 */
function actOf(tree: Tree, row: number, leafRow: number): LastAct | undefined {
  const { type } = tree.kindAt(row);
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
  if (pinIn(entry)) return act("pin");
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
  customMessage.type,
  message.type,
]);

/** Returns whether a user requested this compaction or edit. Only Espalier records it; those of other programs are skipped. */
function isAskedFor(entry: Entry): boolean {
  if (contextEdit.is(entry)) return entry.reason === "manual";
  if (!compaction.is(entry)) return false;
  return (entry.details as Partial<CompactionDetails> | null | undefined)?.reason === "manual";
}

/** Returns the entry whose effect this one reverses; undefined for an entry that no undo or redo wrote. */
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
  for (const { row, undoes } of standingActs(tree)) {
    const act = undoes === undefined ? actOf(tree, row, leafRow) : undefined;
    if (act) return act;
  }
  return undefined;
}

/** Yields the entries that can be actions, undos or redos and are not undone, newest first. */
function* standingActs(tree: Tree): Generator<{ row: number; entry: Entry; undoes: string | undefined }> {
  const undone = new Set<string>();
  for (let row = tree.length - 1; row >= 0; row--) {
    if (!ACTS.has(tree.kindAt(row).type)) continue;
    const entry = tree.entryAt(row);
    if (undone.has(entry.id)) continue;
    const undoes = undoneBy(entry);
    if (undoes !== undefined) undone.add(undoes);
    yield { row, entry, undoes };
  }
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

async function takeBack(
  session: Session,
  expected: string | undefined,
  { verb, newest, nothing }: { verb: "undo" | "redo"; newest: string; nothing: string },
  plan: (tree: Tree) => TakingBack | undefined,
): Promise<UndoResult> {
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
  if (leaf.is(written!)) {
    await restoreFiles(session);
    const moved = { oldLeafId, newLeafId: session.leafId, summaryEntryId: null, fromExtension: false };
    await session.tell(sessionNavigate, moved);
  }
  const { act, editorText } = planned!;
  return { leafId: session.leafId, summaryEntryId: null, editorText, act };
}

/** Finds the action that a redo repeats; undefined when there is none. */
export function lastUndone(tree: Tree): LastAct | undefined {
  const row = lastUndo(tree);
  return row < 0 ? undefined : actUndoneAt(tree, row);
}

function actUndoneAt(tree: Tree, row: number): LastAct {
  const undone = tree.row(undoneBy(tree.entryAt(row))!);
  return actOf(tree, undone, undone)!;
}

/**
 * Returns the row of the undo that a redo reverses: the newest undo that was not redone, with no later action; -1 when
 * there is none.
 */
function lastUndo(tree: Tree): number {
  for (const { row, entry, undoes } of standingActs(tree)) {
    if (undoes === undefined) {
      const isSaid = entry.type === message.type || entry.type === customMessage.type;
      if (isSaid || actOf(tree, row, row)) return -1;
      continue;
    }
    const target = tree.has(undoes) ? tree.entryAt(tree.row(undoes)) : undefined;
    // A merge into another branch moves the leaf there and back in one append: its way back is no undo of a user.
    const isWayBack = target && isMerge(target) && target.parentId !== entry.parentId;
    if (!target || (isWayBack && tree.row(undoes) === row - 1)) return -1;
    if (undoneBy(target) === undefined) return row;
  }
  return -1;
}

const isMerge = (entry: Entry): boolean =>
  branchSummary.is(entry) && (entry.details as { merge?: unknown } | null | undefined)?.merge !== undefined;

function leafBefore(tree: Tree, row: number): string | null {
  const before = leafRowAt(tree, row - 1);
  return before < 0 ? null : tree.idAt(before);
}

/** Returns the entry that restores a label, name or pin to its value before a row; undefined for any other entry. */
function restored(tree: Tree, entry: Entry, row: number): NewEntry | undefined {
  const undoes = entry.id;
  if (label.is(entry)) {
    const { targetId } = entry;
    const before = newestAbove(tree, row, label, (above) => above.targetId === targetId);
    return { ...label.of({ targetId, ...(before?.label ? { label: before.label } : {}) }), undoes };
  }
  if (sessionInfo.is(entry))
    return { ...sessionInfo.of({ name: newestAbove(tree, row, sessionInfo)?.name ?? "" }), undoes };
  const pin = pinIn(entry);
  if (!pin) return undefined;
  const { targetId } = pin;
  const above = customEntries({ tree, leafId: tree.parentIdAt(row) });
  return {
    ...custom.of({ customType: PIN, data: { targetId, pinned: pinnedOn(above).includes(targetId) } }),
    undoes,
  };
}

function newestAbove<Sought extends Entry>(
  tree: Tree,
  row: number,
  kind: EntryKind<Sought>,
  isMeant: (above: Sought) => boolean = () => true,
): Sought | undefined {
  for (let above = row - 1; above >= 0; above--) {
    const entry = tree.kindAt(above).type === kind.type ? tree.entryAt(above) : undefined;
    if (entry && kind.is(entry) && isMeant(entry)) return entry;
  }
  return undefined;
}
