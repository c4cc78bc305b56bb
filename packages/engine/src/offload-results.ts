import type { OffloadPlan, Policy, PolicySituation } from "@espalier/compaction";
import { EventType } from "@espalier/policies";
import { contextEdit } from "@espalier/session-tree";
import { inTurn, writeMissingFiles } from "./offloaded-files.ts";
import { refuseReadOnly } from "./refuse-read-only.ts";
import type { SessionState } from "./session-state.ts";

/** What was moved to files before a request. */
export type OffloadedResults = Pick<OffloadPlan, "offloadedCount" | "freedTokens" | "stillExceedsThreshold">;

/**
 * Moves results to files as the policy says: the files first, whole and on disk, then the edits that name them, so
 * that nothing ever refers to a file that was not there. Undefined where the policy has nothing to say. A session that
 * has no place for files keeps its results: nothing is freed then, which is for the policy to judge by.
 *
 * @throws what the file system and the log throw, and the context is as it was
 */
export async function offloadResults(
  session: SessionState,
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
      await session.core.append(edits.map((edit) => contextEdit.of(edit)));
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

const warned = new WeakSet<SessionState>();

function warnOnce(session: SessionState, { name }: Policy): void {
  if (warned.has(session)) return;
  warned.add(session);
  session.log.warn(
    `The policy ${name} moves results to files beside a session's file, and ${session.core.log.ref} is not in a file: it compacts without that; give the session an \`offloadStorage\`, or choose another policy.`,
  );
}

/** Sees to it that every file the context refers to is there, beside the session. */
export async function bringFilesHome(session: SessionState): Promise<void> {
  await inTurn(session, async () => {
    const edits = await writeMissingFiles(session);
    if (edits.length > 0) await session.core.append(edits);
  });
}
