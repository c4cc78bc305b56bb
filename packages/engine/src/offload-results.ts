import type { OffloadPlan, Policy, PolicySituation } from "@espalier/compaction";
import { EventType, PolicyError } from "@espalier/policies";
import { contextEdit } from "@espalier/session-tree";
import { inTurn, writeMissingFiles } from "./offloaded-files.ts";
import type { SessionState } from "./session-state.ts";

/** What was moved to files before a request. */
export type OffloadedResults = Pick<OffloadPlan, "offloadedCount" | "freedTokens" | "stillExceedsThreshold">;

/**
 * Moves results to files as the policy says: the files first, whole and on disk, then the edits that name them, so
 * that nothing ever refers to a file that was not there. Undefined where the policy has nothing to say.
 *
 * @throws PolicyError `no-storage`; what the file system and the log throw, and the context is as it was
 */
export async function offloadResults(
  session: SessionState,
  policy: Policy,
  situation: PolicySituation,
): Promise<OffloadedResults | undefined> {
  const { offloadStorage, events } = session;
  if (!policy.offload) return undefined;
  if (!offloadStorage) {
    throw new PolicyError(
      "no-storage",
      `The policy ${policy.name} keeps results in files beside the session, and this session is no file; give it an \`offloadStorage\`.`,
    );
  }
  const plan = policy.offload(situation, offloadStorage.pathFor);
  if (!plan) return undefined;
  const { files, edits, ...counts } = plan;
  if (edits.length > 0) {
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

/** Sees to it that every file the context refers to is there, beside the session. */
export async function bringFilesHome(session: SessionState): Promise<void> {
  await inTurn(session, async () => {
    const edits = await writeMissingFiles(session);
    if (edits.length > 0) await session.core.append(edits);
  });
}
