import {
  type CompactionEntry,
  type ContextEdit,
  type ContextMessage,
  compaction,
  type Entry,
  estimateTokens,
  isMessage,
  type SessionContext,
  type Usage,
} from "@espalier/session-tree";
import {
  charsEstimator,
  contextTokens,
  namesByteOverflow,
  namesOverflow,
  type TokenEstimator,
  type TokenPrices,
} from "@espalier/summarizer";
import type { EntryRange } from "./compact.ts";
import {
  type CompactionPlan,
  type CompactionPreparation,
  type CompactionReason,
  type PrepareOptions,
  prepareCompaction,
} from "./plan.ts";
import { type CompactionSettings, thresholdOf } from "./settings.ts";

/** Situation that a policy evaluates. */
export interface PolicySituation {
  /** The context at the leaf. */
  context: SessionContext;
  /** End of the leaf's path, root first, as far as the context reaches. */
  path: readonly Entry[];
  settings: CompactionSettings;
  /** Tokens of system prompt and tools, which are sent in addition to the context. */
  overheadTokens: number;
  /** Current time, in epoch milliseconds. */
  now: number;
  /** Start of the session, ISO 8601; absent when it is unknown. */
  startedAt?: string;
  /** Prices of the current model, in US dollars per million tokens; absent when they are unknown. */
  prices?: Required<TokenPrices>;
  /** Counts the messages of the path above `path`, for policies that count from the root. Absent: there are none. */
  messagesAbove?: () => number;
  /** Effect of the move of results to files directly before this evaluation; absent when no move was tried. */
  offloaded?: Pick<OffloadPlan, "freedTokens" | "stillExceedsThreshold">;
}

/** A compaction before it is committed, as input of the policy's `record`. */
export interface CompactionInTheMaking {
  /** Id that the entry of the compaction will have. */
  entryId: string;
  sessionId: string;
  /** Whole text of the summary. */
  summary: string;
  fromExtension: boolean;
  /** Range that the summary replaces. */
  covered: EntryRange;
  /** Time, ISO 8601. */
  at: string;
}

/** Time of a policy's evaluation: before a request goes out and after its answer, or after every append. */
export type PolicyMoment = "request" | "append";

/**
 * Decides when to compact and what to keep. A policy is a value, chosen by configuration, with pure functions. Every
 * policy has the first three functions; the others are for policies that do more than put a summary before the kept
 * messages.
 */
export interface Policy {
  readonly name: string;
  readonly judgedAt: PolicyMoment;
  /** Returns the size of one message in tokens, as this policy estimates. */
  estimate(message: ContextMessage): number;
  /** Returns the cause if a compaction is due, else undefined. */
  judge(situation: PolicySituation): CompactionReason | undefined;
  /** Plans a compaction. */
  plan(situation: PolicySituation, options: Omit<PrepareOptions, "estimate">): CompactionPlan;
  /** Returns the fill of the context; 1 is full. Default: its share of the model's window. */
  fill?(situation: PolicySituation): number;
  /** Returns the messages of a context that go into a request. Default: all of them. */
  shape?(context: SessionContext): readonly ContextMessage[];
  /**
   * Plans the results to move to files before a request; undefined when none is moved and the context is not above the
   * threshold.
   *
   * @param pathFor returns the path of a text; the same text always has the same path
   */
  offload?(situation: PolicySituation, pathFor: (text: string) => string): OffloadPlan | undefined;
  /** Returns the record of a compaction for its `details`, in addition to the fields of every compaction. */
  record?(
    plan: CompactionPreparation,
    made: CompactionInTheMaking,
    situation: PolicySituation,
  ): Record<string, unknown>;
}

/** Default policy: compacts when the context comes close to the model's window, and keeps the newest tokens. */
export const tokenBudget: Policy = {
  name: "token-budget",
  judgedAt: "request",
  estimate: estimateTokens,
  judge: ({ context, settings, overheadTokens }) =>
    shouldCompact(trustedTokens(context, overheadTokens), settings.contextWindow, settings)
      ? "threshold"
      : undefined,
  plan: ({ path, settings, overheadTokens }, options) =>
    prepareCompaction(path, settings, { overheadTokens, ...options }),
};

/**
 * Returns whether automatic compaction is on and due: the context is strictly above the window less the reserve, or
 * above half of the window when the reserve is not smaller than the window.
 */
export function shouldCompact(
  contextTokens: number,
  contextWindow: number,
  settings: Pick<CompactionSettings, "autoCompact" | "reserveTokens">,
): boolean {
  return (
    settings.autoCompact &&
    contextTokens > thresholdOf({ contextWindow, reserveTokens: settings.reserveTokens })
  );
}

/**
 * Returns the size of a request for the decision whether to compact: the last usage that a provider reported, if it
 * still describes the messages before it (nothing was compacted or edited since), plus an estimate of later messages;
 * otherwise an estimate of all messages.
 *
 * @param overheadTokens tokens of system prompt and tools, which a provider's usage includes and an estimate does not
 * @param estimator default: characters / 4
 */
export function trustedTokens(
  context: SessionContext,
  overheadTokens = 0,
  estimator: TokenEstimator = charsEstimator,
): number {
  const isTrusted = (index: number) => !context.prefixChanged[index];
  const { tokens, usageIndex } = contextTokens(context.messages, estimator, isTrusted);
  return usageIndex === null ? tokens + overheadTokens : tokens;
}

/** Plan of results to move into files. It is data: no file is written yet. */
export interface OffloadPlan {
  /** Texts of the files, each with the path that the context will name. */
  files: { path: string; text: string }[];
  /** Edits that replace results by references. */
  edits: ContextEdit[];
  offloadedCount: number;
  /** Tokens by which the context becomes smaller. */
  freedTokens: number;
  /** True if the context is still above the threshold. */
  stillExceedsThreshold: boolean;
}

/** Options of a policy's plan other than the situation. */
export type PlanOptions = Parameters<Policy["plan"]>[1];

/**
 * Returns whether an answer shows that its request was too long for the model. One of three signs is enough: the text
 * of the error; a prompt usage above the window, since some servers silently cut a long request; an answer of no tokens
 * that ended at the output limit after a prompt of exactly the window, which left no room for an answer. An aborted
 * answer is never a sign. `afterAnswer` decides the next step; see `docs/decisions/0013`.
 *
 * @param contextWindow window of the model, in tokens
 */
export function isContextOverflow(message: ContextMessage, contextWindow: number): boolean {
  if (message.role !== "assistant" || message.stopReason === "aborted") return false;
  const { usage, stopReason } = message;
  const sent = usage ? inputTokens(usage) : 0;
  if (sent > contextWindow) return true;
  if (stopReason === "length") return usage?.output === 0 && sent === contextWindow;
  return stopReason === "error" && namesOverflow(errorTextOf(message));
}

/** Returns whether an answer shows that its request was refused because it has too many bytes. */
export const isByteOverflow = (message: ContextMessage): boolean =>
  message.role === "assistant" && message.stopReason === "error" && namesByteOverflow(errorTextOf(message));

/** Returns the text of an error; empty when a line of another program has no text there. */
const errorTextOf = ({ errorMessage }: { errorMessage?: unknown }): string =>
  typeof errorMessage === "string" ? errorMessage : "";

function inputTokens(usage: Usage): number {
  const count = (value: unknown) => (typeof value === "number" ? value : 0);
  return count(usage.input) + count(usage.cacheRead) + count(usage.cacheWrite);
}

/**
 * Patterns of error messages that name the size of the window. The list is from documented and observed messages of
 * providers. Each pattern matches the limit, never the size of the request in the same message.
 */
const WINDOW_PATTERNS = [
  /tokens? > (\d[\d,]*) maximum/i,
  /maximum context (?:length|window|size)(?: of this model)? (?:is|of) (\d[\d,]*)/i,
  /maximum prompt length is (\d[\d,]*)/i,
  /maximum number of tokens allowed \(?(\d[\d,]*)/i,
  /model with (\d[\d,]*) maximum context/i,
  /context limit: \d[\d,]* \+ \d[\d,]* > (\d[\d,]*)/i,
  /available context size \(?(\d[\d,]*)/i,
  /token count of \d[\d,]* exceeds the limit of (\d[\d,]*)/i,
];

/** Smallest window that settings accept. A smaller number is not a window. */
const SMALLEST = 1_000;

/**
 * Returns the window that a provider named when it refused a request as too long, in tokens; undefined for every other
 * answer, and when it named none of at least 1,000.
 */
export function namedWindow(message: ContextMessage): number | undefined {
  if (message.role !== "assistant" || message.stopReason !== "error") return undefined;
  // Decided by the text alone: a usage names no window.
  if (!isContextOverflow(message, Number.POSITIVE_INFINITY)) return undefined;
  for (const pattern of WINDOW_PATTERNS) {
    const [, digits] = pattern.exec(errorTextOf(message)) ?? [];
    const tokens = Number(digits?.replaceAll(",", ""));
    if (Number.isSafeInteger(tokens) && tokens >= SMALLEST) return tokens;
  }
  return undefined;
}

/** Windows in tokens, by `provider/model`. */
export type LearntWindows = Readonly<Record<string, number>>;

/**
 * Windows named on a path, and the number of its entries that were read. Paths grow at their end and are read at every
 * step.
 */
interface Seen {
  entries: number;
  learnt: LearntWindows;
}

const seen = new WeakMap<readonly Entry[], Seen>();

/**
 * Collects the windows that providers named on a path when they refused requests as too long. Each compaction records
 * the windows known at that time, so the newest compaction and the entries after it are enough. For a path that has
 * grown, only its new entries are read.
 */
export function learntWindows(path: readonly Entry[]): LearntWindows {
  let { entries, learnt } = seen.get(path) ?? { entries: 0, learnt: {} };
  for (; entries < path.length; entries++) learnt = windowsAfter(learnt, path[entries]!);
  seen.set(path, { entries, learnt });
  return learnt;
}

/** Returns the window to use, in tokens: the configured one, or a smaller one from the provider's errors. */
export function effectiveWindow(
  contextWindow: number,
  path: readonly Entry[],
  model: { provider: string; modelId: string } | null,
): number {
  const learnt = model && learntWindows(path)[`${model.provider}/${model.modelId}`];
  return learnt ? Math.min(contextWindow, learnt) : contextWindow;
}

function windowsAfter(before: LearntWindows, entry: Entry): LearntWindows {
  if (compaction.is(entry)) return recordedWindows(entry);
  if (!isMessage(entry, "assistant")) return before;
  const { provider, model } = entry.message;
  const told = namedWindow(entry.message);
  return told === undefined ? before : { ...before, [`${provider}/${model}`]: told };
}

function recordedWindows({ details }: CompactionEntry): LearntWindows {
  const recorded = (details as { learntWindows?: LearntWindows | null } | null | undefined)?.learntWindows;
  return Object.fromEntries(
    Object.entries(recorded ?? {}).filter(([, tokens]) => Number.isSafeInteger(tokens) && tokens > 0),
  );
}
