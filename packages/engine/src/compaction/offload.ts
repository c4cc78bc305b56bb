import type { CompactionPreparation, OffloadPlan, Policy, PolicySituation } from "@espalier/compaction";
import { fileOffloadStorage } from "@espalier/compaction/node";
import {
  cleanupOffloadedFiles,
  EventType,
  type OffloadedEntry,
  type OffloadStorage,
  offloadedEntries,
  planOffloadRepair,
  restoreOffloadedContent,
} from "@espalier/compaction/policies";
import {
  contextEdit,
  type NewEntry,
  pathWindowAt,
  type SessionLog,
  Turns,
  tipRows,
} from "@espalier/session-tree";
import { FileLog, offloadFolder } from "@espalier/session-tree/node";
import type { Session } from "../session/session.ts";
import { refuseReadOnly } from "../session/state.ts";

/** Results moved to files before a request. */
export type OffloadedResults = Pick<OffloadPlan, "offloadedCount" | "freedTokens" | "stillExceedsThreshold">;

/**
 * Moves results to files as the policy plans. First the files are written completely to disk, then the edits that name
 * them, so that no edit ever refers to a missing file. Undefined when the policy plans nothing. A session without
 * storage keeps its results: no tokens are freed, and the policy decides what to do.
 *
 * @throws errors of the file system and the log; the context is then unchanged
 */
export async function offloadResults(
  session: Session,
  policy: Policy,
  situation: PolicySituation,
): Promise<OffloadedResults | undefined> {
  const { offloadStorage, events } = session;
  if (!policy.offload) return undefined;
  const plan = policy.offload(situation, offloadStorage?.pathFor ?? nowhere);
  if (!plan) return undefined;
  if (!offloadStorage) {
    if (plan.offloadedCount > 0) warnOnce(session, policy);
    return { offloadedCount: 0, freedTokens: 0, stillExceedsThreshold: true };
  }
  const { files, edits, ...counts } = plan;
  if (edits.length > 0) {
    refuseReadOnly(session);
    await inTurn(session, async () => {
      for (const { text } of files) await offloadStorage.write(text);
      await session.append(edits.map((edit) => contextEdit.of(edit)));
    });
    const { offloadedCount, freedTokens } = counts;
    events.publish(EventType.STATE_CHANGED, {
      name: "session.offload",
      data: { offloadedCount, freedTokens },
    });
  }
  return counts;
}

const nowhere = (): string => "";
const warned = new WeakSet<Session>();

function warnOnce(session: Session, { name }: Policy): void {
  if (warned.has(session)) return;
  warned.add(session);
  session.logger.warn(
    `The policy ${name} moves results to files next to a session's file, but ${session.log.ref} is not in a file: it compacts without moving results; give the session an \`offloadStorage\`, or choose another policy.`,
  );
}

/** Writes every missing file that the context refers to into the session's storage, and appends edits to new paths. */
export async function bringFilesHome(session: Session): Promise<void> {
  await inTurn(session, async () => {
    const edits = await writeMissingFiles(session);
    if (edits.length > 0) await session.append(edits);
  });
}

/**
 * Writes from the log every missing file that the context at the leaf refers to; writes none when the session is
 * read-only. Returns edits for references to files that are elsewhere, for example after a fork or a move: the
 * session's own storage has their content now.
 */
async function writeMissingFiles(session: Session): Promise<NewEntry[]> {
  if (session.isReadOnly) return [];
  const offloaded = offloadedEntries(session.window.entries);
  // The storage is created only for the first file.
  const offloadStorage = offloaded.length > 0 ? session.offloadStorage : undefined;
  if (!offloadStorage) return [];
  const lost: OffloadedEntry[] = [];
  for (const entry of offloaded) {
    const isThere = offloadStorage.owns(entry.path) && (await offloadStorage.has(entry.path));
    if (!isThere) lost.push(entry);
  }
  const repair = planOffloadRepair(session.window.entries, offloadStorage, lost);
  for (const { text } of repair.files) await offloadStorage.write(text);
  return repair.edits.map((edit) => contextEdit.of(edit));
}

/** Like {@link writeMissingFiles}, when no caller waits for the files: a failed write is only a warning. */
export async function restoreFiles(session: Session): Promise<void> {
  try {
    await inTurn(session, () => writeMissingFiles(session));
  } catch (error) {
    session.logger.warn("A file that the context refers to is missing and could not be written again.", {
      error,
    });
  }
}

/**
 * Returns the plan with the content of offloaded results read into the messages to summarize, when the plan requires
 * it.
 */
export async function withFilesRead(
  { offloadStorage }: Session,
  plan: CompactionPreparation,
): Promise<CompactionPreparation> {
  if (!plan.readBack || !offloadStorage) return plan;
  const [messagesToSummarize, turnPrefixMessages] = await Promise.all([
    restoreOffloadedContent(plan.messagesToSummarize, offloadStorage),
    restoreOffloadedContent(plan.turnPrefixMessages, offloadStorage),
  ]);
  return { ...plan, messagesToSummarize, turnPrefixMessages };
}

/** Removes the files that no leaf's context refers to; returns their paths. A failed removal is a warning. */
export async function removeUnusedFiles(session: Session): Promise<string[]> {
  const { logger } = session;
  try {
    return await inTurn(session, async () => {
      const { offloadStorage } = session;
      if (!offloadStorage || (await offloadStorage.list()).length === 0) return [];
      const tree = await session.load();
      const used = new Set(offloadedEntries(session.window.entries).map(({ path }) => path));
      for (const row of tipRows(tree))
        for (const { path } of offloadedEntries(pathWindowAt(tree, row).entries)) used.add(path);
      return cleanupOffloadedFiles(offloadStorage, used, logger);
    });
  } catch (error) {
    logger.warn("Files of offloaded results could not be listed; none was removed.", { error });
    return [];
  }
}

const turnsOf = new WeakMap<Session, Turns>();

/** Runs works one after the other: no file may be removed between its writing and the entry that refers to it. */
function inTurn<Result>(session: Session, work: () => Promise<Result>): Promise<Result> {
  const turns = turnsOf.get(session) ?? new Turns();
  turnsOf.set(session, turns);
  return turns.take(work);
}

/** Returns the storage for offloaded results in the folder next to a session's file; undefined for other logs. */
export function offloadStorageOf(log: SessionLog): OffloadStorage | undefined {
  return log instanceof FileLog ? fileOffloadStorage(offloadFolder(log.ref)) : undefined;
}
