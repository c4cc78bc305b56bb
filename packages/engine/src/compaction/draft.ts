// Separate from run.ts: a draft writes nothing, so a plan or a preview can be made without a run.
import {
  type CompactionDetails,
  type CompactionPreparation,
  type CompactionProposal,
  type CompactionReason,
  type CompactionSettings,
  compact,
  coveredFiles,
  currentSystemMessage,
  isByteOverflow,
  joinSummary,
  learntWindows,
  type Policy,
  type PolicySituation,
  proseOf,
  rangeOf,
  readSpan,
  sessionBeforeCompact,
  shrinkEdits,
  thresholdOf,
  waitingItem,
} from "@espalier/compaction";
import type { PolicyName } from "@espalier/compaction/policies";
import { EspalierError, type FailedAttempt } from "@espalier/jsonl-stream";
import {
  CHARS_PER_TOKEN,
  type CompactionEntry,
  type ContextEdit,
  compaction,
  contextEdit,
  contextOfPath,
  type Entry,
  formatCount,
  isMessage,
  isRecord,
  type NewEntry,
  toolCalls,
  totalBytes,
  type Usage,
} from "@espalier/session-tree";
import {
  charsEstimator,
  type FileLists,
  fileLists,
  isExtractive,
  recordedFiles,
  type Summarizer,
  soundUsage,
} from "@espalier/summarizer";
import { abortedAct } from "../extensions/context.ts";
import { pinnedTexts, rulesAtLeaf } from "../session/edit.ts";
import { excessBytes, pictureEdits } from "../session/pictures.ts";
import type { Session } from "../session/session.ts";
import type { ActOptions, Bill } from "../session/state.ts";
import { withFilesRead } from "./offload.ts";
import { automaticInARow, sizeOf, toolsOf } from "./request.ts";
import { EXTRACTIVE, summaryOptions } from "./summarizers.ts";

/**
 * Makes the entries of a candidate on the current path: the compaction, then the edits that shorten the kept part.
 * Measures the remaining context. `problem` is the reason why the entries must not be appended: the context would not
 * become smaller. It is undefined when they may be appended. Writes nothing. Throws `stale` as {@link refuseSplitCall}.
 */
export function draftCompaction(run: CompactionRun, candidate: CompactionCandidate) {
  const { session, policy, compactionId } = run;
  const { tokensBefore, usage, fromHook } = candidate;
  const kept = keptPart(run, candidate);
  const { firstKeptEntryId } = kept;
  refuseSplitCall(kept);
  const summary = summaryNow(run, candidate, kept);
  const system = currentSystemMessage(session.context.messages);
  const isIdNamed =
    firstKeptEntryId === compactionId ||
    session.host.has(sessionBeforeCompact) ||
    policy.record !== undefined;
  const fields = {
    // Without this id the log assigns an id, and does not search for duplicates of it.
    ...(isIdNamed ? { id: compactionId } : {}),
    summary,
    firstKeptEntryId,
    tokensBefore,
    ...(system ? { systemMessage: system } : {}),
  };
  const { edits, tokensAfter } = fittingEdits(run, compaction.of(fields), kept);
  const details = detailsOf(run, { ...candidate, summary }, kept, tokensAfter);
  const draft: NewEntry<CompactionEntry> = compaction.of({
    ...fields,
    details,
    ...(usage ? { usage } : {}),
    ...(fromHook ? { fromHook } : {}),
  });
  const before = sizeOf(session.context.messages, policy);
  const problem = `The compaction would leave ${formatCount(tokensAfter)} tokens of ${formatCount(before)} (as ${policy.name} counts); nothing was written. Keep less (keepRecentTokens), or continue without a compaction.`;
  const entries: NewEntry[] = [draft, ...edits.map((edit) => contextEdit.of(edit))];
  return { entries, details, tokensAfter, problem: tokensAfter < before ? undefined : problem };
}

type KeptPart = ReturnType<typeof keptPart>;

function keptPart({ session, plan, compactionId }: CompactionRun, candidate: CompactionCandidate) {
  const path = session.window.entries;
  const places = new Map(path.map(({ id }, place) => [id, place]));
  /** Entries that were appended after the plan was made. */
  const grown = path.slice((places.get(plan.leafId) ?? -1) + 1);
  // A compaction that keeps no planned entries keeps the entries appended after the plan.
  const firstKeptEntryId =
    candidate.firstKeptEntryId === compactionId ? (grown[0]?.id ?? compactionId) : candidate.firstKeptEntryId;
  const keptFrom = places.get(firstKeptEntryId) ?? path.length;
  const ids = new Set(path.slice(keptFrom).map(({ id }) => id));
  // The plan may remove some of the kept entries.
  for (const { targetId, replacement } of plan.edits) if (replacement === null) ids.delete(targetId);
  return { path, places, grown, firstKeptEntryId, keptFrom, ids };
}

/**
 * Throws `stale` if a tool result that was appended after the plan would be kept without its call: no model would read
 * it.
 */
function refuseSplitCall({ path, grown, ids }: KeptPart): void {
  for (const entry of grown) {
    if (!isMessage(entry, "toolResult")) continue;
    const { toolCallId } = entry.message;
    const isCall = (each: Entry) =>
      isMessage(each, "assistant") && toolCalls(each.message).some(({ id }) => id === toolCallId);
    const call = path.slice(0, path.indexOf(entry)).findLast(isCall);
    if (call && !ids.has(call.id))
      throw new EspalierError(
        "stale",
        "The session continued inside a call while it was compacted; nothing was written.",
      );
  }
}

/**
 * Returns the summary with the pins and rules at the leaf: they may have changed after the plan. An extension's summary
 * gets them too.
 */
function summaryNow(
  run: CompactionRun,
  { summary, fromHook }: CompactionCandidate,
  { grown, ids }: KeptPart,
): string {
  const { session, plan } = run;
  if (!fromHook && grown.length === 0) return summary;
  const { contextWindow } = plan.settings;
  const pinned = pinnedTexts(session).filter(({ id }) => !ids.has(id));
  const rules = rulesAtLeaf(session);
  if (!fromHook) return joinSummary(proseOf(summary), { ...plan.blocks, pinned, rules }, contextWindow);
  const blocks = joinSummary("", { pinned, rules, files: NO_FILES }, contextWindow);
  return blocks === "" ? summary : `${summary.trimEnd()}\n\n${blocks}`;
}

const NO_FILES: FileLists = { readFiles: [], modifiedFiles: [] };

/**
 * Returns the plan's edits of the kept part, further ones if the real summary leaves less room than planned, and those
 * that remove images from a request with too many bytes.
 */
function fittingEdits(
  run: CompactionRun,
  draft: NewEntry<CompactionEntry>,
  { path, places, grown, keptFrom }: KeptPart,
): { edits: ContextEdit[]; tokensAfter: number } {
  const { plan, session, situation, policy } = run;
  const isPlanned = keptFrom === (places.get(plan.firstKeptEntryId ?? "") ?? path.length);
  // An edit that was made after the plan, such as by `hide`, is the newer one.
  const edited = new Set(grown.flatMap((entry) => (contextEdit.is(entry) ? [entry.targetId] : [])));
  const planned = plan.edits.filter(
    ({ targetId, replacement }) =>
      (places.get(targetId) ?? -1) >= keptFrom &&
      (replacement === null || (isPlanned && !edited.has(targetId))),
  );
  const pathWith = (edits: readonly ContextEdit[]): Entry[] => [
    ...path,
    // Drafts have no time and no parent; the context needs neither.
    ...[{ ...draft, id: run.compactionId }, ...edits.map((edit) => contextEdit.of(edit))].map(
      (entry) => ({ parentId: null, timestamp: "", id: "", ...entry }) as Entry,
    ),
  ];
  const sizeWith = (edits: readonly ContextEdit[]) =>
    sizeOf(contextOfPath(pathWith(edits), session.window.before).messages, policy);

  const threshold = thresholdOf(plan.settings);
  const isBelow = plan.tokensAfter + situation.overheadTokens <= threshold;
  const most = (isBelow ? threshold : plan.settings.contextWindow) - situation.overheadTokens;
  const size = sizeWith(planned);
  const shorter =
    size <= most
      ? planned
      : replacing(planned, shrinkEdits(readSpan(pathWith(planned)).items, size - most, policy.estimate));
  const edits = replacing(shorter, picturesToLose(run, pathWith(shorter)));
  return { edits, tokensAfter: edits === planned ? size : sizeWith(edits) };
}

/** Merges edits; a later edit replaces an earlier one of the same entry. */
function replacing(edits: ContextEdit[], later: readonly ContextEdit[]): ContextEdit[] {
  if (later.length === 0) return edits;
  const replaced = new Set(later.map(({ targetId }) => targetId));
  return [...edits.filter(({ targetId }) => !replaced.has(targetId)), ...later];
}

/**
 * Returns edits that remove images from the next request: none if it is within the limit of bytes, else as many as bring
 * it well below the limit. All images are removed after a request was refused because it had too many bytes.
 */
function picturesToLose(
  { session, situation, reason }: CompactionRun,
  path: readonly Entry[],
): ContextEdit[] {
  const { window } = session;
  const { messages } = contextOfPath(path, window.before);
  const bytes = totalBytes(messages) + situation.overheadTokens * CHARS_PER_TOKEN;
  const newest = window.entries.findLast((entry) => isMessage(entry, "assistant"));
  const isRefused = reason === "overflow" && newest !== undefined && isByteOverflow(newest.message);
  // The limit of a proxy is unknown: only a request without images is safe.
  const excess = isRefused ? Number.POSITIVE_INFINITY : excessBytes(bytes, situation.settings.requestBytes);
  if (excess === 0) return [];
  const span = readSpan(path);
  return pictureEdits(span.items, excess, waitingItem(span));
}

function detailsOf(
  run: CompactionRun,
  { details, source, model, tokensBefore, summary, fromHook }: CompactionCandidate,
  part: KeptPart,
  tokensAfter: number,
): CompactionDetails {
  const { session, plan, policy, reason, situation } = run;
  const { model: current, thinkingLevel } = session.context;
  const speakers = readSpan(part.path).items.flatMap(({ entry, messages }) => messages.map(() => entry.id));
  const covered = rangeOf(speakers.filter((id) => !part.ids.has(id)));
  const kept = rangeOf(speakers.filter((id) => part.ids.has(id)));
  const learnt = learntWindows(part.path);
  const made = {
    entryId: run.compactionId,
    sessionId: session.id,
    summary,
    fromExtension: fromHook,
    covered,
    at: new Date(session.now()).toISOString(),
  };
  return {
    omitted: {},
    readFiles: [],
    modifiedFiles: [],
    ...details,
    ...policy.record?.(plan, made, situation),
    reason,
    policy: policy.name,
    source,
    model,
    covered,
    kept,
    tokensBefore,
    tokensAfter,
    isSplitTurn: plan.isSplitTurn,
    durationMs: Date.now() - run.started,
    automaticInARow: reason === "manual" ? 0 : automaticInARow(session) + (reason === "policy" ? 0 : 1),
    ...(Object.keys(learnt).length > 0 ? { learntWindows: learnt } : {}),
    pinned: pinnedTexts(session).map(({ id }) => id),
    rules: rulesAtLeaf(session),
    settings: { provider: current?.provider ?? null, modelId: current?.modelId ?? null, thinkingLevel },
  };
}

/** Makes a candidate of an extension's proposal. Files of the covered part are added to the files that it records. */
export function proposedCandidate(run: CompactionRun, proposal: CompactionProposal): CompactionCandidate {
  const { plan, compactionId, session } = run;
  const { summary, usage, details, tokensBefore = plan.tokensBefore } = proposal;
  const firstKeptEntryId = proposal.firstKeptEntryId ?? plan.firstKeptEntryId ?? compactionId;
  const { items, previous } = readSpan(session.window.entries);
  const from = items.findIndex(({ entry }) => entry.id === firstKeptEntryId);
  const covered = from < 0 ? items : items.slice(0, from);
  const own = isRecord(details) ? details : {};
  const fileOps = recordedFiles({ summary, details: own }, recordedFiles(previous));
  return {
    summary,
    firstKeptEntryId,
    source: "extension",
    model: null,
    usage: usage && soundUsage(usage),
    tokensBefore,
    details: { ...own, ...fileLists(coveredFiles(covered, toolsOf(session), fileOps)) },
    fromHook: true,
  };
}

/**
 * Makes a candidate by the summarizer. If its summary is too large, the extractive summarizer makes another one, or,
 * without a fallback, `no-smaller` is thrown.
 *
 * @param named the chosen summarizer; undefined: the extractive one is used
 * @param bill gets the usage as soon as it is known
 */
export async function summarizedCandidate(
  run: CompactionRun,
  named: Summarizer | undefined,
  instructions: string,
  bill: Bill,
): Promise<CompactionCandidate> {
  const { session, options } = run;
  const fallback =
    options.fallback ?? session.options.fallback ?? (named === undefined || run.reason !== "manual");
  const summarizer = named ?? EXTRACTIVE;
  const candidate = await summarizedBy(run, summarizer, instructions, fallback);
  bill.usage = candidate.usage;
  refuseStale(run);
  const problem = isExtractive(summarizer) ? undefined : sizeProblem(run, candidate);
  if (!problem) return candidate;
  if (!fallback) throw new EspalierError("no-smaller", problem, { usage: candidate.usage });
  const extracted = await summarizedBy(run, EXTRACTIVE, instructions, fallback);
  return { ...extracted, usage: candidate.usage };
}

async function summarizedBy(
  run: CompactionRun,
  summarizer: Summarizer,
  instructions: string,
  fallback: boolean,
): Promise<CompactionCandidate> {
  const { plan, session, signal, options, compactionId } = run;
  const parts = plan.historyIds.length > 0 && plan.turnPrefixIds.length > 0 ? 2 : 1;
  const { style } = plan;
  const result = await compact(await withFilesRead(session, plan), {
    ...summaryOptions(session, summarizer, { ...options, fallback, signal, parts, style }),
    ...(instructions ? { customInstructions: instructions } : {}),
  });
  const { summary, source, model, usage, attempts, omitted, readFiles, modifiedFiles, missingSections } =
    result;
  return {
    summary,
    firstKeptEntryId: plan.firstKeptEntryId ?? compactionId,
    source,
    model,
    usage,
    tokensBefore: plan.tokensBefore,
    // Named one by one, because they are stored: a new field of the result must not get into files by itself.
    details: { omitted, readFiles, modifiedFiles, ...(missingSections ? { missingSections } : {}) },
    fromHook: false,
    attempts,
  };
}

/** Maximum size of a summary, in characters / 4, as a multiple of the requested tokens: tokens of prose can be longer. */
const LARGEST_EXCESS = 2;

function sizeProblem(run: CompactionRun, candidate: CompactionCandidate): string | undefined {
  const { plan } = run;
  const most = LARGEST_EXCESS * plan.maxSummaryTokens + plan.summaryTokens;
  const tokens = charsEstimator.text(candidate.summary);
  if (tokens > most)
    return `The summary of ${candidate.source} has ${formatCount(tokens)} tokens, where at most ${formatCount(plan.maxSummaryTokens)} were requested; nothing was written. Retry, or choose another summarizer.`;
  return draftCompaction(run, candidate).problem;
}

/**
 * Refuses to continue a compaction that was aborted, or whose plan no longer fits the path. A path that only grew is
 * accepted.
 *
 * @throws EspalierError `aborted`; `stale`
 */
export function refuseStale({ session, plan, signal }: CompactionRun): void {
  if (signal.aborted) throw abortedAct("compaction");
  const path = session.window.entries;
  const planned = path.findIndex(({ id }) => id === plan.leafId);
  if (path.slice(planned + 1).some(compaction.is))
    throw new EspalierError("stale", "Another compaction finished first; nothing was written.");
  if (planned < 0)
    throw new EspalierError(
      "stale",
      "The branch was left while it was compacted; nothing was written. Go back to it and compact again.",
    );
}

/** Request for a compaction. */
export interface CompactionRequest extends ActOptions {
  /** A policy, or the name of one. Default: the session's. */
  policy?: Policy | PolicyName;
  settings?: Partial<CompactionSettings>;
  /** Cause. Default `manual`. */
  reason?: CompactionReason;
  /** Tokens of system prompt and tools, which are sent in addition to the context. Default 0. */
  overheadTokens?: number;
  /** Results that were moved to files directly before. */
  offloaded?: PolicySituation["offloaded"];
  /** Instructions for the summary. */
  instructions?: string;
  /** Summarizer of this summary. Default: the session's. */
  summarizer?: Summarizer;
  /** Allows the extractive summarizer as a fallback; see `SessionOptions.fallback`. */
  fallback?: boolean;
  /** True if a request that was too long is retried afterwards, for extensions. Default: true after an `overflow`. */
  willRetry?: boolean;
}

/** A compaction that is in the log. */
export interface CommittedCompaction {
  eligible: true;
  entryId: string;
  summary: string;
  tokensBefore: number;
  tokensAfter: number;
  firstKeptEntryId: string;
  /** Author of the summary: the name of a summarizer, or `extension`. */
  source: string;
  /** Attempts that failed before the summary, with their errors; absent for a summary of an extension. */
  attempts?: FailedAttempt[];
  /** Requested headings that the summary lacks; absent when none is missing. */
  missingSections?: string[];
  /** Ids of the edits that shorten the kept part or remove entries from it. */
  editIds: string[];
  /** Number of messages that the summary replaces. */
  messagesRemoved: number;
  /** Number of messages that are kept. */
  preservedCount: number;
  /** Removed files of offloaded results to which no context refers. */
  deletedFiles: string[];
  usage: Usage | null;
}

/** A running compaction: its request and its plan. */
export interface CompactionRun {
  session: Session;
  options: CompactionRequest;
  policy: Policy;
  situation: PolicySituation;
  plan: CompactionPreparation;
  reason: CompactionReason;
  willRetry: boolean;
  signal: AbortSignal;
  /** Id of the compaction's entry; an extension may refer to it. */
  compactionId: string;
  /** Start, in epoch milliseconds. */
  started: number;
  /** True if the compaction to commit is from an extension. */
  isProposed: boolean;
}

/** A summary before it is committed. */
export interface CompactionCandidate {
  summary: string;
  firstKeptEntryId: string;
  /** Author: a summarizer's name, or `extension`. */
  source: string;
  model: { provider: string; modelId: string } | null;
  usage: Usage | undefined;
  tokensBefore: number;
  details: Partial<CompactionDetails> & Record<string, unknown>;
  fromHook: boolean;
  attempts?: FailedAttempt[];
}
