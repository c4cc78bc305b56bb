import {
  type CompactionDetails,
  CompactionError,
  type CompactionOutcome,
  type CompactionPreparation,
  type CompactionProposal,
  type CompactionReason,
  compact,
  type NothingToCompact,
  type Policy,
  rangeOf,
  sessionBeforeCompact,
  sessionCompact,
  sessionCompactFailed,
} from "@espalier/compaction";
import {
  CHARS_PER_TOKEN,
  type CompactionEntry,
  compaction,
  contextEdit,
  contextOfPath,
  createId,
  type Entry,
  type NewEntry,
  type Usage,
} from "@espalier/session-tree";
import { extractiveSummarizer, fileLists, type Summarizer, SummarizerError } from "@espalier/summarizer";
import { type CompactionRequest, planOf } from "./compaction-request.ts";
import { contextForHandlers } from "./context-for-handlers.ts";
import { EngineError } from "./engine-error.ts";
import { pinnedTexts } from "./pins.ts";
import type { ActOptions, SessionState } from "./session-state.ts";
import { chainOf } from "./summarizer-chain.ts";
import { billedEntry, showRequests } from "./summary-request.ts";

export interface CompactSessionOptions extends CompactionRequest, ActOptions {
  /** What the summary shall attend to. */
  instructions?: string;
  /** Writes this summary. Default: the session's. */
  summarizer?: Summarizer;
  /** Whether the extractive summarizer steps in; see `SessionOptions.fallback`. */
  fallback?: boolean;
}

/** A compaction that is in the log. */
export interface CompactionResult {
  eligible: true;
  entryId: string;
  summary: string;
  tokensBefore: number;
  tokensAfter: number;
  firstKeptEntryId: string;
  /** Who wrote the summary: a summarizer's name, or `extension`. */
  source: string;
  /** Entries that shorten what was kept. */
  editIds: string[];
  usage: Usage | null;
}

/** A summary that wants to be committed. */
interface Candidate {
  summary: string;
  firstKeptEntryId: string;
  source: string;
  model: { provider: string; modelId: string } | null;
  usage: Usage | undefined;
  tokensBefore: number;
  details: Partial<CompactionDetails> & Record<string, unknown>;
  fromHook: boolean;
}

/**
 * The compaction of the leaf's path, from the plan to the log:
 * `prepare → session_before_compact → summarize → validate → commit → session_compact | session_compact_failed`.
 * Nothing to compact is an answer; everything else that keeps it from the log is an error, and leaves no trace but
 * what a provider billed.
 *
 * @throws CompactionError, SummarizerError, EngineError `cancelled`
 */
export async function runCompaction(
  session: SessionState,
  options: CompactSessionOptions,
): Promise<CompactionResult | NothingToCompact> {
  const started = Date.now();
  const signal = options.signal ?? new AbortController().signal;
  const reason = options.reason ?? "manual";
  const { policy, plan } = planOf(session, options);
  if (!plan.eligible) return plan;

  const compactionId = createId();
  const willRetry = reason === "overflow";
  const decision = await session.host.decide(
    sessionBeforeCompact,
    {
      preparation: { ...plan, firstKeptEntryId: plan.firstKeptEntryId ?? compactionId },
      compactionId,
      branchEntries: [...session.core.window.entries],
      ...(options.instructions ? { customInstructions: options.instructions } : {}),
      reason,
      willRetry,
      signal,
    },
    contextForHandlers(session, signal),
  );
  try {
    if (decision.aborted) throw new SummarizerError("aborted", "The compaction was aborted.");
    if (decision.cancelled) throw cancelledBy(decision.cancelled);
    const candidate = decision.answer.compaction
      ? proposed(decision.answer.compaction, plan, compactionId)
      : await summarized(
          session,
          plan,
          compactionId,
          joined(options.instructions, decision.answer.instructions),
          { ...options, signal },
        );
    if (signal.aborted)
      throw new SummarizerError("aborted", "The compaction was aborted.", { usage: candidate.usage });
    return await commit(session, { candidate, plan, policy, reason, compactionId, started, willRetry });
  } catch (error) {
    await failed(session, error, {
      reason,
      willRetry,
      by: decision.cancelled?.by,
      summarizer: options.summarizer ?? session.options.summarizer,
    });
    throw error;
  }
}

const joined = (...texts: (string | undefined)[]): string => texts.filter(Boolean).join("\n\n");

function cancelledBy({ by, reason }: { by: string; reason: string | null }): EngineError {
  return new EngineError("cancelled", `The compaction was cancelled by ${by}${reason ? `: ${reason}` : "."}`);
}

/** What an extension wrote. Files of the span join what it recorded, so that the lists survive it. */
function proposed(
  proposal: CompactionProposal,
  plan: CompactionPreparation,
  compactionId: string,
): Candidate {
  const details =
    typeof proposal.details === "object" && proposal.details !== null
      ? (proposal.details as Record<string, unknown>)
      : {};
  return {
    summary: proposal.summary,
    firstKeptEntryId: proposal.firstKeptEntryId ?? plan.firstKeptEntryId ?? compactionId,
    source: "extension",
    model: null,
    usage: proposal.usage,
    tokensBefore: proposal.tokensBefore ?? plan.tokensBefore,
    details: { ...fileLists(plan.fileOps), ...details },
    fromHook: true,
  };
}

/** What the summarizer wrote; where that is too large to be of use, the extractive one is tried before giving up. */
async function summarized(
  session: SessionState,
  plan: CompactionPreparation,
  compactionId: string,
  instructions: string,
  options: CompactSessionOptions & { signal: AbortSignal },
): Promise<Candidate> {
  const { signal, onProgress, reason = "manual" } = options;
  const named = options.summarizer ?? session.options.summarizer;
  const fallback =
    options.fallback ?? session.options.fallback ?? (named === undefined || reason !== "manual");
  const { concurrency } = session.options;
  const onRequest = showRequests(session, signal);
  const ask = (summarizer: Summarizer) =>
    compact(plan, {
      summarizer,
      signal,
      ...(instructions ? { customInstructions: instructions } : {}),
      ...(concurrency ? { concurrency } : {}),
      ...(onProgress ? { onProgress } : {}),
      ...(onRequest ? { onRequest } : {}),
    });
  let result = await ask(chainOf(named ?? extractiveSummarizer(), fallback));
  if (fallback && result.source !== "extractive" && isTooLarge(plan, result.summary)) {
    const { usage } = result;
    result = { ...(await ask(extractiveSummarizer())), ...(usage ? { usage } : {}) };
  }
  const { summary, source, model, usage, omitted, readFiles, modifiedFiles } = result;
  return {
    summary,
    firstKeptEntryId: plan.firstKeptEntryId ?? compactionId,
    source,
    model,
    usage,
    tokensBefore: plan.tokensBefore,
    details: { omitted, readFiles, modifiedFiles },
    fromHook: false,
  };
}

/** Whether a summary leaves nothing gained; the commit measures exactly. */
function isTooLarge(plan: CompactionPreparation, summary: string): boolean {
  const planned = plan.tokensAfter - plan.summaryTokens;
  return planned + Math.ceil(summary.length / CHARS_PER_TOKEN) >= plan.tokensBefore;
}

interface Commit {
  candidate: Candidate;
  plan: CompactionPreparation;
  policy: Policy;
  reason: CompactionReason;
  compactionId: string;
  started: number;
  willRetry: boolean;
}

/** One append: the compaction, then what shortens what it keeps. Only if the plan is still that of the path. */
async function commit(
  session: SessionState,
  { candidate, plan, policy, reason, compactionId, started, willRetry }: Commit,
): Promise<CompactionResult> {
  const { core, host } = session;
  const path = core.window.entries;
  const planned = path.findIndex(({ id }) => id === plan.leafId);
  if (planned < 0)
    throw new CompactionError("stale", "The branch was left while it was compacted; nothing was written.", {
      usage: candidate.usage,
    });
  if (path.slice(planned + 1).some((entry) => compaction.is(entry))) {
    throw new CompactionError("stale", "Another compaction came first; nothing was written.", {
      usage: candidate.usage,
    });
  }
  const edits = editsFor(candidate, plan);
  const measure = (messages: readonly Parameters<Policy["estimate"]>[0][]) =>
    messages.reduce((sum, message) => sum + policy.estimate(message), 0);
  const now = new Date().toISOString();
  const { summary, firstKeptEntryId, tokensBefore, usage, fromHook } = candidate;
  const fields = { id: compactionId, summary, firstKeptEntryId, tokensBefore };
  const draft: NewEntry = compaction.of(fields);
  const before = measure(core.context.messages);
  const hypothetical = [
    ...path,
    ...[draft, ...edits].map((entry) => ({ parentId: null, timestamp: now, id: "", ...entry }) as Entry),
  ];
  const tokensAfter = measure(contextOfPath(hypothetical, core.window.before).messages);
  if (tokensAfter >= before) {
    const message = `The compaction would leave ${tokensAfter} tokens of ${before}; nothing was written. Keep less (keepRecentTokens), or go on without.`;
    throw new CompactionError("no-smaller", message, { usage });
  }
  const details = detailsOf(candidate, plan, {
    policy,
    reason,
    tokensAfter,
    durationMs: Date.now() - started,
    session,
  });
  const entries = await core.append([
    compaction.of({ ...fields, details, ...(usage ? { usage } : {}), ...(fromHook ? { fromHook } : {}) }),
    ...edits,
  ]);
  const entry = entries[0] as CompactionEntry;
  const event = { entry, compactionEntry: entry, fromExtension: fromHook, reason, willRetry };
  await host.notify(sessionCompact, event, contextForHandlers(session));
  return {
    eligible: true,
    entryId: entry.id,
    summary,
    tokensBefore,
    tokensAfter,
    firstKeptEntryId,
    source: candidate.source,
    editIds: entries.slice(1).map(({ id }) => id),
    usage: usage ?? null,
  };
}

/** The plan's edits, without those of entries that the candidate no longer keeps. */
function editsFor(candidate: Candidate, plan: CompactionPreparation): NewEntry[] {
  const from = plan.keptIds.indexOf(candidate.firstKeptEntryId);
  const kept = new Set(
    candidate.firstKeptEntryId === plan.firstKeptEntryId
      ? plan.keptIds
      : plan.keptIds.slice(Math.max(0, from)),
  );
  return plan.edits.filter(({ targetId }) => kept.has(targetId)).map((edit) => contextEdit.of(edit));
}

function detailsOf(
  { details, source, model, firstKeptEntryId, tokensBefore }: Candidate,
  plan: CompactionPreparation,
  made: {
    policy: Policy;
    reason: CompactionReason;
    tokensAfter: number;
    durationMs: number;
    session: SessionState;
  },
): CompactionDetails {
  const { core } = made.session;
  const all = [...plan.historyIds, ...plan.turnPrefixIds, ...plan.keptIds];
  // An extension may keep less than planned: what falls out is covered too.
  const cut =
    firstKeptEntryId === plan.firstKeptEntryId
      ? all.length - plan.keptIds.length
      : all.indexOf(firstKeptEntryId);
  const { model: inForce, thinkingLevel } = core.context;
  return {
    omitted: {},
    readFiles: [],
    modifiedFiles: [],
    ...details,
    reason: made.reason,
    policy: made.policy.name,
    source,
    model,
    covered: rangeOf(all.slice(0, cut < 0 ? all.length : cut)),
    kept: rangeOf(cut < 0 ? [] : all.slice(cut)),
    tokensBefore,
    tokensAfter: made.tokensAfter,
    isSplitTurn: plan.isSplitTurn,
    durationMs: made.durationMs,
    pinned: pinnedTexts(core).map(({ id }) => id),
    settings: { provider: inForce?.provider ?? null, modelId: inForce?.modelId ?? null, thinkingLevel },
  };
}

/** The end of a compaction that is not in the log: what was billed is, and everyone who was asked is told. */
async function failed(
  session: SessionState,
  error: unknown,
  {
    reason,
    willRetry,
    by,
    summarizer,
  }: {
    reason: CompactionReason;
    willRetry: boolean;
    by: string | undefined;
    summarizer: Summarizer | undefined;
  },
): Promise<void> {
  const billed =
    error instanceof SummarizerError || error instanceof CompactionError ? error.usage : undefined;
  if (billed)
    await session.core.append(billedEntry("compaction", summarizer ?? extractiveSummarizer(), billed));
  const code = (error as { code?: unknown }).code;
  const outcome: CompactionOutcome =
    code === "aborted"
      ? "aborted"
      : code === "cancelled"
        ? "cancelled"
        : code === "stale"
          ? "skipped"
          : "failed";
  const event = {
    reason,
    outcome,
    ...(by ? { by } : {}),
    error: {
      code: typeof code === "string" ? code : "failed",
      message: error instanceof Error ? error.message : String(error),
    },
    aborted: outcome === "aborted",
    willRetry,
  };
  await session.host.notify(sessionCompactFailed, event, contextForHandlers(session));
}
