import { CompactionError } from "@espalier/compaction";
import type { CompactionEntry } from "@espalier/session-tree";
import type { CompactionCandidate, CompactionResult, CompactionRun } from "./compaction-run.ts";
import { draftCompaction } from "./draft-compaction.ts";
import { refuseStale } from "./refuse-stale.ts";

/** The path grew between the making of a draft and its turn to be written. */
class PathGrew extends Error {}

/** A compaction that was committed. */
export interface CommittedCompaction {
  entry: CompactionEntry;
  result: CompactionResult;
}

/**
 * One append: the compaction, then what shortens what it keeps. Only if the plan is still that of the path and nobody
 * has aborted it; both are judged right before the write, and after it nothing can undo it.
 *
 * @throws CompactionError `no-smaller`, `stale`; SummarizerError `aborted`
 */
export async function commitCompaction(
  run: CompactionRun,
  candidate: CompactionCandidate,
): Promise<CommittedCompaction> {
  const { core } = run.session;
  for (;;) {
    refuseStale(run);
    const { leafId } = core;
    const draft = draftCompaction(run, candidate);
    if (draft.problem) throw new CompactionError("no-smaller", draft.problem, { usage: candidate.usage });
    try {
      const [entry, ...edits] = await run.session.appendChecked(draft.entries, () => {
        refuseStale(run);
        if (core.leafId !== leafId) throw new PathGrew();
      });
      const written = entry as CompactionEntry;
      const { id, summary, tokensBefore, firstKeptEntryId, usage = null } = written;
      const { tokensAfter } = draft;
      // As planned: what an extension made of the entry need not have details any more.
      const { covered, kept, missingSections } = draft.details;
      const { source } = candidate;
      const editIds = edits.map((edit) => edit.id);
      return {
        entry: written,
        result: {
          eligible: true,
          entryId: id,
          summary,
          tokensBefore,
          tokensAfter,
          firstKeptEntryId,
          source,
          ...(missingSections ? { missingSections } : {}),
          editIds,
          messagesRemoved: covered.messages,
          preservedCount: kept.messages,
          deletedFiles: [],
          usage,
        },
      };
    } catch (error) {
      // What was appended meanwhile is kept too: the draft is made anew for the path as it is.
      if (!(error instanceof PathGrew)) throw error;
    }
  }
}
