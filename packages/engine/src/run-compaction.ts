import {
  type BeforeCompactAnswer,
  CompactionError,
  type CompactionReason,
  type NothingToCompact,
  sessionBeforeCompact,
  sessionCompact,
  sessionCompactFailed,
} from "@espalier/compaction";
import type { Decision } from "@espalier/extensions";
import { checkJson, JsonlError } from "@espalier/jsonl-stream";
import { createId, SessionTreeError } from "@espalier/session-tree";
import { SummarizerError } from "@espalier/summarizer";
import { refuseAfterTwo } from "./automatic-in-a-row.ts";
import { type Asked, accounted, ownerAsked, recordBill } from "./billing.ts";
import { type CommittedCompaction, commitCompaction } from "./commit-compaction.ts";
import { proposedCandidate, summarizedCandidate } from "./compaction-candidate.ts";
import { announceCompaction, announceResult } from "./compaction-events.ts";
import { failureEvent } from "./compaction-failure.ts";
import { planOf, situationOf } from "./compaction-request.ts";
import type { CompactionResult, CompactionRun, CompactSessionOptions } from "./compaction-run.ts";
import { contextForHandlers } from "./context-for-handlers.ts";
import { draftCompaction } from "./draft-compaction.ts";
import { cancelledBy } from "./engine-error.ts";
import { removeUnusedFiles, withFilesRead } from "./offloaded-files.ts";
import { policyInForce } from "./policy-in-force.ts";
import { refuseReadOnly } from "./refuse-read-only.ts";
import { refuseStale } from "./refuse-stale.ts";
import type { SessionState } from "./session-state.ts";
import { EXTRACTIVE } from "./summarizer-chain.ts";
import { summarizerOf } from "./summarizer-of.ts";
import { tellHandlers } from "./tell-handlers.ts";

/**
 * The compaction of the leaf's path, from the plan to the log:
 * `prepare → session_before_compact → summarize → validate → commit → session_compact | session_compact_failed`.
 * Nothing to compact is an answer; everything else that keeps it from the log is an error, and leaves no trace but
 * what a provider billed.
 *
 * @param onEnded called when the session can be compacted again, before extensions are told how it ended
 * @throws CompactionError, SummarizerError, EngineError `cancelled`
 */
export async function runCompaction(
  session: SessionState,
  options: CompactSessionOptions,
  onEnded: () => void = () => {},
): Promise<CompactionResult | NothingToCompact> {
  let ended: { run: CompactionRun } & ({ committed: CommittedCompaction } | { error: unknown });
  try {
    const run = await preparedRun(session, options);
    if ("eligible" in run) return run;
    // One that nobody wants any more is not begun, and nobody is told of it.
    refuseStale(run);
    announceCompaction(run);
    ended = await carriedOut(run).then(
      (committed) => ({ run, committed }),
      (error: unknown) => ({ run, error }),
    );
  } finally {
    onEnded();
  }
  const { run } = ended;
  if ("error" in ended) {
    await tellHandlers(session, sessionCompactFailed, failureEvent(run, ended.error));
    throw ended.error;
  }
  const { entry } = ended.committed;
  const result = { ...ended.committed.result, deletedFiles: await removeUnusedFiles(session) };
  announceResult(session, result);
  const { fromHook: fromExtension = false } = entry;
  const { reason, willRetry } = run;
  const event = { entry, compactionEntry: entry, fromExtension, reason, willRetry };
  await tellHandlers(session, sessionCompact, event);
  return result;
}

/**
 * {@link prepareRun}, at once; the whole log is fetched first where the policy records what it counts from the root,
 * where extensions listen, which read the whole branch, as Pi's do, and where the plan asks for what is not within reach.
 */
async function preparedRun(session: SessionState, options: CompactSessionOptions) {
  const isWholeNeeded = policyInForce(session, options).record || session.host.has(sessionBeforeCompact);
  if (isWholeNeeded && !session.core.log.view) await session.core.load();
  try {
    return prepareRun(session, options);
  } catch (error) {
    if (!(error instanceof SessionTreeError && error.code === "not-loaded")) throw error;
    await session.core.load();
    return prepareRun(session, options);
  }
}

/** The plan, and all that stays the same until the end. */
function prepareRun(session: SessionState, options: CompactSessionOptions): CompactionRun | NothingToCompact {
  const { reason = "manual", signal = new AbortController().signal } = options;
  const started = Date.now();
  refuseUnwanted(session, options, reason);
  const { policy, situation, plan } = planOf(session, options);
  if (!plan.eligible) return plan;
  refuseReadOnly(session);
  refuseAfterTwo(session, reason, {
    contextTokens: situation.context.tokens,
    overhead: situation.overheadTokens,
  });
  const { willRetry = reason === "overflow" } = options;
  const compactionId = createId();
  return {
    session,
    options,
    policy,
    situation,
    plan,
    reason,
    willRetry,
    signal,
    compactionId,
    started,
    isProposed: false,
  };
}

function refuseUnwanted(
  session: SessionState,
  options: CompactSessionOptions,
  reason: CompactionReason,
): void {
  if (reason === "manual" || situationOf(session, options).settings.autoCompact) return;
  throw new CompactionError(
    "auto-off",
    "The context is too large, and nothing may compact by itself (autoCompact); compact by hand, or take a model with a larger window.",
  );
}

/** Asks extensions, has the summary made, and commits it; what was billed for nothing is in the log either way. */
async function carriedOut(run: CompactionRun): Promise<CommittedCompaction> {
  const { session, options } = run;
  let asked: Asked = EXTRACTIVE;
  return accounted(session, { kind: "compaction", asked: () => asked }, async (bill) => {
    const { answer, owners, cancelled, aborted } = await askExtensions(run);
    if (aborted) throw new SummarizerError("aborted", "The compaction was aborted.");
    if (cancelled) throw cancelledBy("compaction", cancelled);
    if (answer.compaction) {
      const { usage } = answer.compaction;
      asked = ownerAsked(owners.compaction);
      run.isProposed = true;
      bill(usage);
      refuseStale(run);
      const candidate = proposedCandidate(run, answer.compaction);
      const problem = jsonProblem(candidate.details) ?? draftCompaction(run, candidate).problem;
      if (!problem) return commitCompaction(run, candidate);
      run.isProposed = false;
      reportRefused(session, owners.compaction ?? [], problem);
      bill(undefined);
      if (usage) await recordBill(session, "compaction", asked, usage);
    }
    const instructions = [options.instructions, answer.instructions].filter(Boolean).join("\n\n");
    const summarizer = options.summarizer ?? summarizerOf(session, run.plan.style?.model);
    asked = summarizer ?? EXTRACTIVE;
    return commitCompaction(run, await summarizedCandidate(run, summarizer, instructions, bill));
  });
}

/** What the extensions say to the plan. */
async function askExtensions(run: CompactionRun): Promise<Decision<BeforeCompactAnswer>> {
  const { session, options, plan, reason, willRetry, signal, compactionId } = run;
  const { core, host } = session;
  if (!host.has(sessionBeforeCompact)) return NOBODY;
  const { read, written, edited } = plan.fileOps;
  // Results that were moved to files are read back: the files may be gone after the compaction.
  const { messagesToSummarize, turnPrefixMessages } = await withFilesRead(session, plan);
  const previousSummary = plan.previousSummary ?? plan.stackedOn;
  return host.decide(
    sessionBeforeCompact,
    {
      preparation: {
        ...plan,
        messagesToSummarize,
        turnPrefixMessages,
        ...(previousSummary === undefined ? {} : { previousSummary }),
        firstKeptEntryId: plan.firstKeptEntryId ?? compactionId,
        // Sets cannot be frozen.
        fileOps: { read: new Set(read), written: new Set(written), edited: new Set(edited) },
      },
      compactionId,
      branchEntries: core.getBranch(),
      ...(options.instructions ? { customInstructions: options.instructions } : {}),
      reason,
      willRetry,
      signal,
    },
    contextForHandlers(session, signal),
  );
}

/** Why an extension's details cannot be recorded; undefined when they can. */
function jsonProblem(details: object): string | undefined {
  try {
    checkJson({ details });
    return undefined;
  } catch (error) {
    if (!(error instanceof JsonlError)) throw error;
    return error.message;
  }
}

const NOBODY: Decision<BeforeCompactAnswer> = {
  answer: {},
  owners: {},
  cancelled: null,
  aborted: false,
  reports: [],
};

/** Says whose compaction could not stand; the core's own is made instead. */
function reportRefused({ host }: SessionState, owners: readonly string[], problem: string): void {
  const hook = sessionBeforeCompact.name;
  const message = `The answer of ${owners.join(", ")} to ${hook} was refused: ${problem}`;
  host.report({ kind: "invalid-answer", owners, hook, message });
}
