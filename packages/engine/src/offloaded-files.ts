import type { CompactionPreparation } from "@espalier/compaction";
import {
  cleanupOffloadedFiles,
  type OffloadedEntry,
  offloadedEntries,
  planOffloadRepair,
  restoreOffloadedContent,
} from "@espalier/policies";
import { contextEdit, type NewEntry, pathWindowAt, tipRows } from "@espalier/session-tree";
import type { SessionState } from "./session-state.ts";

/**
 * Writes again, from the log, every file that the context at the leaf refers to and that is gone; none for who only
 * reads. Returns edits for references to files that lie elsewhere, as after a fork or a move: their content lies in a
 * file of ours now.
 */
export async function writeMissingFiles(session: SessionState): Promise<NewEntry[]> {
  const { core, offloadStorage, isReadOnly } = session;
  if (!offloadStorage || isReadOnly) return [];
  const lost: OffloadedEntry[] = [];
  for (const entry of offloadedEntries(core.window.entries)) {
    const isThere = offloadStorage.owns(entry.path) && (await offloadStorage.has(entry.path));
    if (!isThere) lost.push(entry);
  }
  const repair = planOffloadRepair(core.window.entries, offloadStorage, lost);
  for (const { text } of repair.texts) await offloadStorage.write(text);
  return repair.edits.map((edit) => contextEdit.of(edit));
}

/** {@link writeMissingFiles} where nobody waits for the files: one that cannot be written is a warning. */
export async function restoreFiles(session: SessionState): Promise<void> {
  try {
    await inTurn(session, () => writeMissingFiles(session));
  } catch (error) {
    session.log.warn("A file that the context refers to is gone and could not be written again.", { error });
  }
}

/** The plan with the content of offloaded results in what is summarised, where it says so. */
export async function withFilesRead(
  { offloadStorage }: SessionState,
  plan: CompactionPreparation,
): Promise<CompactionPreparation> {
  if (!plan.readBack || !offloadStorage) return plan;
  const [messagesToSummarize, turnPrefixMessages] = await Promise.all([
    restoreOffloadedContent(plan.messagesToSummarize, offloadStorage),
    restoreOffloadedContent(plan.turnPrefixMessages, offloadStorage),
  ]);
  return { ...plan, messagesToSummarize, turnPrefixMessages };
}

/** Removes the files that no leaf's context refers to; returns their paths. What cannot be removed is a warning. */
export async function removeUnusedFiles(session: SessionState): Promise<string[]> {
  try {
    return await inTurn(session, () => removeUnused(session));
  } catch (error) {
    session.log.warn("Files of offloaded results could not be looked through; they stay.", { error });
    return [];
  }
}

async function removeUnused({ core, offloadStorage, log }: SessionState): Promise<string[]> {
  if (!offloadStorage || (await offloadStorage.list()).length === 0) return [];
  const tree = await core.load();
  const used = new Set(offloadedEntries(core.window.entries).map(({ path }) => path));
  for (const row of tipRows(tree)) {
    for (const { path } of offloadedEntries(pathWindowAt(tree, row).entries)) used.add(path);
  }
  return cleanupOffloadedFiles(offloadStorage, used, log);
}

const turns = new WeakMap<SessionState, Promise<unknown>>();

/** One after the other: nothing may be removed between the writing of a file and the entry that refers to it. */
export function inTurn<Result>(session: SessionState, work: () => Promise<Result>): Promise<Result> {
  const turn = (turns.get(session) ?? Promise.resolve()).then(work);
  turns.set(
    session,
    turn.catch(() => undefined),
  );
  return turn;
}
