import {
  type CompactionDetails,
  CompactionError,
  excessBytes,
  firstKeptProblem,
  isByteOverflow,
  learntWindows,
  pictureEdits,
  rangeOf,
  readSpan,
  sessionBeforeCompact,
  shrinkEdits,
  systemInForce,
  thresholdOf,
  waitingItem,
} from "@espalier/compaction";
import {
  CHARS_PER_TOKEN,
  type CompactionEntry,
  type ContextEdit,
  type ContextMessage,
  compaction,
  contextEdit,
  contextOfPath,
  type Entry,
  isMessage,
  type NewEntry,
  totalBytes,
} from "@espalier/session-tree";
import { automaticInARow } from "./automatic-in-a-row.ts";
import type { CompactionCandidate, CompactionRun } from "./compaction-run.ts";
import { pinnedTexts } from "./pins.ts";

/** What would be appended for a candidate, on the path as it is now. */
export interface CompactionDraft {
  /** The compaction, then what shortens what it keeps. */
  entries: NewEntry[];
  details: CompactionDetails;
  tokensAfter: number;
  /** Why it must not be appended; undefined when it may. */
  problem: string | undefined;
}

/** Makes the entries of a candidate and measures what they leave. Pure. */
export function draftCompaction(run: CompactionRun, candidate: CompactionCandidate): CompactionDraft {
  const { session, policy, compactionId } = run;
  const { summary, tokensBefore, usage, fromHook } = candidate;
  const firstKeptEntryId = firstKeptOf(run, candidate);
  const system = systemInForce(session.core.context.messages);
  const isIdNamed =
    firstKeptEntryId === compactionId ||
    session.host.has(sessionBeforeCompact) ||
    policy.record !== undefined;
  const fields = {
    // Without one the log gives an id of its own, and need not be searched for this one.
    ...(isIdNamed ? { id: compactionId } : {}),
    summary,
    firstKeptEntryId,
    tokensBefore,
    ...(system ? { systemMessage: system } : {}),
  };
  const { edits, tokensAfter } = fittingEdits(run, compaction.of(fields), firstKeptEntryId);
  const details = detailsOf(run, candidate, firstKeptEntryId, tokensAfter);
  const draft: NewEntry<CompactionEntry> = compaction.of({
    ...fields,
    details,
    ...(usage ? { usage } : {}),
    ...(fromHook ? { fromHook } : {}),
  });
  const before = sizeOf(run, session.core.context.messages);
  const problem = `The compaction would leave ${tokensAfter} tokens of ${before} (as ${policy.name} counts); nothing was written. Keep less (keepRecentTokens), or go on without.`;
  return {
    entries: [draft, ...edits.map((edit) => contextEdit.of(edit))],
    details,
    tokensAfter,
    problem: tokensAfter < before ? undefined : problem,
  };
}

/** The first kept entry. A compaction that keeps nothing still keeps what was said since it was planned. */
function firstKeptOf({ session, plan, compactionId }: CompactionRun, candidate: CompactionCandidate): string {
  if (candidate.firstKeptEntryId !== compactionId) return candidate.firstKeptEntryId;
  const path = session.core.window.entries;
  const grown = path[path.findIndex(({ id }) => id === plan.leafId) + 1];
  if (!grown) return compactionId;
  if (firstKeptProblem(path, grown.id)) {
    const message = "The session went on inside a call while it was compacted; nothing was written.";
    throw new CompactionError("stale", message);
  }
  return grown.id;
}

const sizeOf = ({ policy }: CompactionRun, messages: readonly ContextMessage[]): number =>
  messages.reduce((sum, message) => sum + policy.estimate(message), 0);

/** The plan's edits of what the candidate keeps, and more where the real summary leaves less room than was planned. */
function fittingEdits(
  run: CompactionRun,
  draft: NewEntry<CompactionEntry>,
  firstKeptEntryId: string,
): { edits: ContextEdit[]; tokensAfter: number } {
  const { plan, session, situation, policy } = run;
  const { window } = session.core;
  const places = placesOf(window.entries);
  const keptFrom = places.get(firstKeptEntryId) ?? window.entries.length;
  const isPlanned = keptFrom === (places.get(plan.firstKeptEntryId ?? "") ?? window.entries.length);
  const planned = plan.edits.filter(
    ({ targetId, replacement }) =>
      (places.get(targetId) ?? -1) >= keptFrom && (isPlanned || replacement === null),
  );
  const pathWith = (edits: readonly ContextEdit[]): Entry[] => [
    ...window.entries,
    // What is not in the log yet has no time and no parent; a context depends on neither.
    ...[{ ...draft, id: run.compactionId }, ...edits.map((edit) => contextEdit.of(edit))].map(
      (entry) => ({ parentId: null, timestamp: "", id: "", ...entry }) as Entry,
    ),
  ];
  const sizeWith = (edits: readonly ContextEdit[]) =>
    sizeOf(run, contextOfPath(pathWith(edits), window.before).messages);

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

/** Edits of which the later ones stand in place of the earlier ones of the same entries. */
function replacing(edits: ContextEdit[], later: readonly ContextEdit[]): ContextEdit[] {
  if (later.length === 0) return edits;
  const replaced = new Set(later.map(({ targetId }) => targetId));
  return [...edits.filter(({ targetId }) => !replaced.has(targetId)), ...later];
}

/** Pictures with which the next request would have too many bytes; all of them where one was refused for its bytes. */
function picturesToLose(
  { session, situation, reason }: CompactionRun,
  path: readonly Entry[],
): ContextEdit[] {
  const { window } = session.core;
  const { messages } = contextOfPath(path, window.before);
  const bytes = totalBytes(messages) + situation.overheadTokens * CHARS_PER_TOKEN;
  const newest = window.entries.findLast((entry) => isMessage(entry, "assistant"));
  const isRefused = reason === "overflow" && newest !== undefined && isByteOverflow(newest.message);
  // What a proxy takes nobody has said: only without them is the request sure to go through.
  const excess = isRefused ? Number.POSITIVE_INFINITY : excessBytes(bytes, situation.settings.requestBytes);
  if (excess === 0) return [];
  const span = readSpan(path);
  return pictureEdits(span.items, excess, waitingItem(span));
}

/** What the compaction records of itself. */
function detailsOf(
  run: CompactionRun,
  { details, source, model, tokensBefore, summary, fromHook }: CompactionCandidate,
  firstKeptEntryId: string,
  tokensAfter: number,
): CompactionDetails {
  const { session, plan, policy, reason, situation } = run;
  const { core } = session;
  const { model: inForce, thinkingLevel } = core.context;
  const { covered, kept } = rangesOf(run, firstKeptEntryId);
  const learnt = learntWindows(core.window.entries);
  const at = new Date(session.now()).toISOString();
  const made = {
    entryId: run.compactionId,
    sessionId: core.id,
    summary,
    fromExtension: fromHook,
    covered,
    at,
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
    automaticInARow: inARowAfter(run),
    ...(Object.keys(learnt).length > 0 ? { learntWindows: learnt } : {}),
    pinned: pinnedTexts(core).map(({ id }) => id),
    settings: { provider: inForce?.provider ?? null, modelId: inForce?.modelId ?? null, thinkingLevel },
  };
}

function inARowAfter({ session, reason }: CompactionRun): number {
  if (reason === "manual") return 0;
  return automaticInARow(session) + (reason === "policy" ? 0 : 1);
}

/** What is covered and what is kept, by messages. */
function rangesOf({ session, plan }: CompactionRun, firstKeptEntryId: string) {
  const path = session.core.window.entries;
  const places = placesOf(path);
  const placeOf = (id: string) => places.get(id) ?? -1;
  const speakers = readSpan(path).items.flatMap(({ entry, messages }) => messages.map(() => entry.id));
  if (firstKeptEntryId === plan.firstKeptEntryId) {
    const grown = speakers.filter((id) => placeOf(id) > placeOf(plan.leafId));
    return {
      covered: rangeOf([...plan.historyIds, ...plan.turnPrefixIds]),
      kept: rangeOf([...plan.keptIds, ...grown]),
    };
  }
  // An extension may keep less than planned, or more: what falls out is covered too.
  const keptFrom = places.get(firstKeptEntryId) ?? path.length;
  return {
    covered: rangeOf(speakers.filter((id) => placeOf(id) < keptFrom)),
    kept: rangeOf(speakers.filter((id) => placeOf(id) >= keptFrom)),
  };
}

const placesOf = (path: readonly Entry[]): Map<string, number> =>
  new Map(path.map(({ id }, place) => [id, place]));
