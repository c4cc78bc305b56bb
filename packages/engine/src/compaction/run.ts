import {
  type BeforeCompactAnswer,
  type CompactFailedEvent,
  type CompactionOutcome,
  type CompactionPreparation,
  type CompactionReason,
  type NothingToCompact,
  type Policy,
  type PolicySituation,
  sessionBeforeCompact,
  sessionCompact,
  sessionCompactFailed,
  shouldCompact,
  trustedTokens,
} from "@espalier/compaction";
import {
  type CompactResult,
  countMessages,
  DEFAULT_MESSAGE_COUNT_SETTINGS,
  EventType,
  type MessageCountSettings,
  messageCount,
  progressMessage,
  type SessionSummary,
  sessionSummaries,
} from "@espalier/compaction/policies";
import type { Decision } from "@espalier/extensions";
import { EspalierError } from "@espalier/jsonl-stream";
import { type CompactionEntry, createId, type Entry } from "@espalier/session-tree";
import { isSummaryError } from "@espalier/summarizer";
import { askExtensions } from "../extensions/context.ts";
import type { Session } from "../session/session.ts";
import {
  type Bill,
  billUsage,
  currentPolicy,
  ownerAsked,
  recordBill,
  refuseReadOnly,
  shapedContext,
} from "../session/state.ts";
import {
  type CommittedCompaction,
  type CompactionCandidate,
  type CompactionRequest,
  type CompactionRun,
  draftCompaction,
  proposedCandidate,
  refuseStale,
  summarizedCandidate,
} from "./draft.ts";
import { removeUnusedFiles, withFilesRead } from "./offload.ts";
import { planOf, refuseAfterTwo, situationOf, sizeOf } from "./request.ts";
import { EXTRACTIVE, summarizerOf } from "./summarizers.ts";

/**
 * Compacts the leaf's path, from the plan to the log: `prepare → session_before_compact → summarize → validate → commit
 * → session_compact | session_compact_failed`. Nothing to compact is a result. Any other reason for a missing
 * compaction is an error, and leaves only the billed usage in the log.
 *
 * @param onEnded called when the session can be compacted again, before extensions are notified of the end
 * @throws EspalierError of the compaction or its summary; `cancelled`
 */
export async function runCompaction(
  session: Session,
  options: CompactionRequest,
  onEnded: () => void,
): Promise<CommittedCompaction | NothingToCompact> {
  let run: CompactionRun | NothingToCompact;
  let ended: PromiseSettledResult<CommittedCompaction>;
  try {
    run = await prepareRun(session, options);
    if ("eligible" in run) return run;
    // Offloaded results are read back, because their files may be removed after the compaction.
    const shown = session.host.has(sessionBeforeCompact) ? await withFilesRead(session, run.plan) : undefined;
    // An aborted compaction does not begin, and extensions are not notified. From here to the first handler nothing waits.
    refuseStale(run);
    announceCompaction(run);
    [ended] = await Promise.allSettled([carriedOut(run, shown)]);
  } finally {
    onEnded();
  }
  if (ended.status === "rejected") {
    await session.tell(sessionCompactFailed, failureEvent(run, ended.reason));
    throw ended.reason;
  }
  // Read before anything is awaited: the leaf may move meanwhile.
  const entry = session.getEntry(ended.value.entryId) as CompactionEntry;
  const result = { ...ended.value, deletedFiles: await removeUnusedFiles(session) };
  const { tokensBefore, tokensAfter, messagesRemoved } = result;
  session.events.publish(EventType.STATE_CHANGED, {
    name: "session.compaction",
    data: { tokensBefore, tokensAfter, messagesRemoved },
  });
  const { fromHook: fromExtension = false } = entry;
  const { reason, willRetry } = run;
  await session.tell(sessionCompact, { entry, compactionEntry: entry, fromExtension, reason, willRetry });
  return result;
}

/**
 * Returns the data of a run with its plan, or the reason why there is nothing to compact. Loads the whole log first when
 * one of these needs it: a policy that counts from the root, extensions, which read the whole branch (as Pi's do), or a
 * plan that reads unloaded entries.
 *
 * @throws EspalierError `auto-off`, `read-only`, `exhausted`; `irreducible` from the policy
 */
async function prepareRun(
  session: Session,
  options: CompactionRequest,
): Promise<CompactionRun | NothingToCompact> {
  const { reason = "manual", willRetry = reason === "overflow" } = options;
  const { signal = new AbortController().signal } = options;
  const isWholeNeeded = currentPolicy(session, options).record || session.host.has(sessionBeforeCompact);
  if (isWholeNeeded && !session.log.view) await session.load();
  const started = Date.now();
  return session.withinReach(() => {
    if (reason !== "manual" && !situationOf(session, options).settings.autoCompact)
      throw new EspalierError(
        "auto-off",
        "The context is too large, and automatic compaction is off (autoCompact); compact by hand, or use a model with a larger window.",
      );
    const { policy, situation, plan } = planOf(session, options);
    if (!plan.eligible) return plan;
    refuseReadOnly(session);
    const { context, overheadTokens: overhead } = situation;
    refuseAfterTwo(session, reason, { contextTokens: context.tokens, overhead });
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
  });
}

/** Asks extensions, makes the summary, and commits it. The usage is in the log even when the compaction fails. */
async function carriedOut(run: CompactionRun, shown?: CompactionPreparation): Promise<CommittedCompaction> {
  const { session, options } = run;
  const bill: Bill = { kind: "compaction", author: EXTRACTIVE };
  return billUsage(session, bill, async () => {
    const { answer = {}, owners: { compaction: owners = [] } = {} } =
      (shown && (await answerTo(run, shown))) ?? {};
    if (answer.compaction) {
      bill.author = ownerAsked(owners);
      bill.usage = answer.compaction.usage;
      run.isProposed = true;
      refuseStale(run);
      const candidate = proposedCandidate(run, answer.compaction);
      const { problem } = draftCompaction(run, candidate);
      if (!problem) return commitCompaction(run, candidate);
      // The answer of the extension is refused, and the core makes its own compaction.
      run.isProposed = false;
      const hook = sessionBeforeCompact.name;
      const message = `The answer of ${owners.join(", ")} to ${hook} was refused: ${problem}`;
      session.host.report({ kind: "invalid-answer", owners, hook, message });
      const refused = { ...bill };
      bill.usage = undefined;
      await recordBill(session, refused);
    }
    const instructions = [options.instructions, answer.instructions].filter(Boolean).join("\n\n");
    const summarizer = options.summarizer ?? summarizerOf(session, run.plan.style?.model);
    bill.author = summarizer ?? EXTRACTIVE;
    return commitCompaction(run, await summarizedCandidate(run, summarizer, instructions, bill));
  });
}

/** Asks the extensions; `plan` is the plan of the run as they read it. */
async function answerTo(
  run: CompactionRun,
  plan: CompactionPreparation,
): Promise<Decision<BeforeCompactAnswer>> {
  const { session, options, reason, willRetry, signal, compactionId } = run;
  const { read, written, edited } = plan.fileOps;
  const previousSummary = plan.previousSummary ?? plan.stackedOn;
  return askExtensions(session, "compaction", sessionBeforeCompact, {
    preparation: {
      ...plan,
      ...(previousSummary === undefined ? {} : { previousSummary }),
      firstKeptEntryId: plan.firstKeptEntryId ?? compactionId,
      // Sets cannot be frozen: extensions get copies.
      fileOps: { read: new Set(read), written: new Set(written), edited: new Set(edited) },
    },
    compactionId,
    branchEntries: session.getBranch(),
    ...(options.instructions ? { customInstructions: options.instructions } : {}),
    reason,
    willRetry,
    signal,
  });
}

/** Evaluates the policy at the leaf, and compacts when that is due; see `Session.compactWhenDue`. */
export async function compactWhenDue(
  session: Session,
  options: CompactionRequest,
): Promise<CommittedCompaction | NothingToCompact | undefined> {
  const policy = currentPolicy(session, options);
  const situation = situationOf(session, options);
  if (!situation.settings.autoCompact) return undefined;
  const reason = policy.judge(situation) ?? withoutReserve(policy, situation);
  return reason && session.compact({ ...options, policy, reason });
}

/**
 * Returns `threshold` when the messages that the policy sends exceed the window less the reserve, a limit for every
 * policy. Undefined when there is room for the answer, or when automatic compaction is off.
 */
export function withoutReserve(policy: Policy, situation: PolicySituation): CompactionReason | undefined {
  const { context, settings, overheadTokens } = situation;
  const sent = policy.shape ? shapedContext(context, policy.shape(context)) : context;
  const isOver = shouldCompact(trustedTokens(sent, overheadTokens), settings.contextWindow, settings);
  return isOver ? "threshold" : undefined;
}

/** Compacts as `Session.forceCompact` describes, and returns the result as messages and tokens. */
export async function forceCompact(session: Session, options: CompactionRequest): Promise<CompactResult> {
  const policy = currentPolicy(session, options);
  const previousTokens = sizeOf(session.context.messages, policy);
  let result: CommittedCompaction | NothingToCompact;
  let success = true;
  try {
    result = await session.compact({ ...options, policy, reason: "manual" });
  } catch (error) {
    if (!isSummaryError(error) || error.code === "aborted") throw error;
    session.logger.error("Compaction failed, history unchanged", { error });
    result = { eligible: false, reason: error.message };
    success = false;
  }
  const { messages } = session.context;
  const currentTokens = sizeOf(messages, policy);
  return {
    messages: [...messages],
    previousTokens,
    currentTokens,
    freedTokens: previousTokens - currentTokens,
    preservedCount: result.eligible ? result.preservedCount : messages.length,
    deletedFiles: result.eligible ? result.deletedFiles : [],
    ...(result.eligible && result.missingSections ? { missingSections: result.missingSections } : {}),
    success,
  };
}

/**
 * Options as for `Session.compact`, except `policy`, which is `message-count`. `keepLast` is the number of messages to
 * keep (default 10).
 */
export interface CompactSessionByCountOptions
  extends Omit<CompactionRequest, "policy">,
    Partial<Pick<MessageCountSettings, "keepLast">> {}

/**
 * Summarizes a session's older messages (origins 000): the oldest `count − keepLast` active ones, with `keepLast` 10 by
 * default. Returns the summary that replaces them; null when nothing can be compacted, as with at most `keepLast`.
 *
 * @throws errors of `Session.compact`
 */
export async function compactSession(
  session: Session,
  options: CompactSessionByCountOptions = {},
): Promise<SessionSummary | null> {
  const { keepLast = DEFAULT_MESSAGE_COUNT_SETTINGS.keepLast, ...rest } = options;
  const maxMessages = Math.max(DEFAULT_MESSAGE_COUNT_SETTINGS.maxMessages, keepLast + 1);
  const result = await session.compact({ ...rest, policy: messageCount({ keepLast, maxMessages }) });
  return result.eligible ? (sessionSummaries(session).at(-1) ?? null) : null;
}

function announceCompaction({ session, policy, situation }: CompactionRun): void {
  const { context, settings, overheadTokens } = situation;
  const fill = policy.fill?.(situation) ?? trustedTokens(context, overheadTokens) / settings.contextWindow;
  session.events.publish(EventType.PROGRESS_UPDATE, { message: progressMessage(fill) });
}

/** Logs and publishes a failure that stops nothing: in the background or before a request. The session is unchanged. */
export function reportFailure(session: Session, error: unknown): void {
  const reason = error instanceof Error ? error.message : String(error);
  const message = `The session was not compacted, and is unchanged: ${reason}`;
  session.logger.error(message, { error });
  session.events.publish(EventType.ERROR, { name: "session.compaction", message });
}

function failureEvent({ reason, willRetry, isProposed }: CompactionRun, error: unknown): CompactFailedEvent {
  const { code } = error as { code?: unknown };
  const outcome = OUTCOMES[String(code)] ?? "failed";
  const by = error instanceof EspalierError ? error.by : undefined;
  const message = error instanceof Error ? error.message : String(error);
  const aborted = outcome === "aborted" || outcome === "cancelled";
  return {
    reason,
    outcome,
    ...(by ? { by } : {}),
    error: { code: typeof code === "string" ? code : "failed", message },
    ...(aborted ? {} : { errorMessage: message }),
    aborted,
    fromExtension: isProposed,
    willRetry,
  };
}

const OUTCOMES: Readonly<Record<string, CompactionOutcome>> = {
  aborted: "aborted",
  cancelled: "cancelled",
  stale: "skipped",
};

/**
 * Commits in one append the compaction, and the edits that shorten the kept part. They are drafted when the append
 * begins, so that entries that were appended meanwhile are kept too. An abort and an outdated plan are refused until
 * directly before the write; after the write the compaction cannot be withdrawn.
 *
 * @throws EspalierError `no-smaller`, `stale`; `aborted`
 */
async function commitCompaction(
  run: CompactionRun,
  candidate: CompactionCandidate,
): Promise<CommittedCompaction> {
  const { source, attempts } = candidate;
  const check = () => refuseStale(run);
  let draft: ReturnType<typeof draftCompaction> | undefined;
  const drafted = () => {
    check();
    draft = draftCompaction(run, candidate);
    if (draft.problem) throw new EspalierError("no-smaller", draft.problem, { usage: candidate.usage });
    return draft.entries;
  };
  const [entry, ...edits] = await run.session.append(drafted, { check });
  const { id, summary, tokensBefore, firstKeptEntryId, usage = null } = entry as CompactionEntry;
  // Values as planned: an extension may have removed the details from the entry.
  const { tokensAfter, details } = draft!;
  const { covered, kept, missingSections } = details;
  return {
    eligible: true,
    entryId: id,
    summary,
    tokensBefore,
    tokensAfter,
    firstKeptEntryId,
    source,
    ...(attempts ? { attempts } : {}),
    ...(missingSections ? { missingSections } : {}),
    editIds: edits.map((edit) => edit.id),
    messagesRemoved: covered.messages,
    preservedCount: kept.messages,
    deletedFiles: [],
    usage,
  };
}

/**
 * Evaluates the policy after each append and runs its compactions in the background, one at a time. A compaction that
 * becomes due during a run is evaluated again after that run, whether it succeeded or failed.
 */
export class BackgroundPolicy {
  readonly #session: Session;
  isRunning = false;
  /** True when a compaction became due during a run. */
  isPending = false;
  #stopped = false;

  constructor(session: Session) {
    this.#session = session;
  }

  /** Starts no new compaction; a running one continues. */
  stop(): void {
    this.#stopped = true;
  }

  /** Call after an append; never throws and never waits. */
  entriesAppended(entries: readonly Entry[]): void {
    if (countMessages(entries) === 0 || !this.#isDue()) return;
    if (this.isRunning) this.isPending = true;
    else void this.#run();
  }

  #isDue(): boolean {
    if (this.#stopped) return false;
    try {
      const situation = situationOf(this.#session, {});
      return situation.settings.autoCompact && this.#session.policy.judge(situation) !== undefined;
    } catch (error) {
      reportFailure(this.#session, error);
      return false;
    }
  }

  async #run(): Promise<void> {
    this.isRunning = true;
    do {
      this.isPending = false;
      try {
        await this.#session.compact({ reason: "policy" });
      } catch (error) {
        reportFailure(this.#session, error);
      }
    } while (this.isPending && this.#isDue());
    this.isRunning = false;
    this.isPending = false;
  }
}
