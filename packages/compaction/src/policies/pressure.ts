import { type ContextMessage, isFailedAnswer, toolCalls } from "@espalier/session-tree";
import { wordEstimator } from "@espalier/summarizer";
import { type CompactionSpan, readSpan } from "../cut.ts";
import {
  type CompactionPlan,
  conditionsFor,
  planSelection,
  prepareCompaction,
  type Selection,
} from "../plan.ts";
import { type PlanOptions, type Policy, type PolicySituation, trustedTokens } from "../policy.ts";
import { checkSettings, defaultsOf, type SettingsOf, type SettingsTable, thresholdOf } from "../settings.ts";
import { PLANNED_SUMMARY_TOKENS } from "../summary-text.ts";

/**
 * Prunes by priority when the context reaches a threshold of the policy's own size limit (origins 004), before a
 * request is sent. The kept messages can have gaps: edits remove the messages between, and all removed messages are
 * summarized.
 *
 * @throws EspalierError `settings`
 */
export function pressure(settings: Partial<PressureSettings> = {}): Policy {
  const checked = checkSettings(PRESSURE_SETTINGS, settings);
  return {
    name: "pressure",
    judgedAt: "request",
    estimate: TokenCounter.estimate,
    judge(situation) {
      const level = CompactionTrigger.checkLevel(pressingTokens(situation), limitsIn(situation, checked));
      return level === "NONE" ? undefined : "threshold";
    },
    fill: (situation) => pressingTokens(situation) / limitsIn(situation, checked).maxContextTokens,
    plan: (situation, options) => planPruning(situation, options, limitsIn(situation, checked)),
  };
}

/**
 * Returns the size of the next request in tokens: the usage that a provider reported, if it still describes the
 * context, plus the word count of later messages; else the word count of history, system prompt and tools, plus 50.
 */
const pressingTokens = ({ context, overheadTokens }: PolicySituation): number =>
  trustedTokens(context, overheadTokens, ESTIMATOR);

/**
 * Estimates tokens by words (origins 004): 0.75 for a word, 0.5 for a Chinese, Japanese or Korean character, 0.75 for a
 * code token, 0.25 for a special character, and 50 for each request. Each message is counted once, because messages
 * never change.
 */
export const TokenCounter = {
  /** Estimates the tokens of one message. */
  estimate(message: ContextMessage): number {
    const weighed = known.get(message);
    if (weighed !== undefined) return weighed;
    const tokens = wordEstimator.estimate(message);
    known.set(message, tokens);
    return tokens;
  },

  /** Estimates the tokens of a text. */
  text: (text: string): number => wordEstimator.text(text),

  /** Estimates the tokens of messages, without the 50 of a request. */
  messages(messages: readonly ContextMessage[]): number {
    return messages.reduce((tokens, message) => tokens + TokenCounter.estimate(message), 0);
  },

  /** Estimates the tokens of a request: history, system prompt, and 50. */
  request(history: readonly ContextMessage[], systemPrompt = ""): number {
    return TokenCounter.messages(history) + TokenCounter.text(systemPrompt) + wordEstimator.overhead;
  },

  /** Tokens added to every total. */
  overhead: wordEstimator.overhead,
} as const;

/** Word estimator that counts each message once. */
const ESTIMATOR = { ...wordEstimator, estimate: TokenCounter.estimate };

/** Limits `maxContextTokens` to the window less the reserve for the answer. */
function limitsIn({ settings }: PolicySituation, checked: PressureSettings): PressureSettings {
  return { ...checked, maxContextTokens: Math.min(checked.maxContextTokens, thresholdOf(settings)) };
}

/** Maximum number of times that the room for messages is corrected by the size of the summary's blocks. */
const CORRECTIONS = 4;

/**
 * Share of the context that a manual compaction keeps when the context is below every level. It equals
 * the share that remains at the level CRITICAL: 60 % of 90 %.
 */
const SHARE_BY_HAND = 60 / 90;

function planPruning(
  situation: PolicySituation,
  options: PlanOptions,
  limits: PressureSettings,
): CompactionPlan {
  const { path } = situation;
  const span = readSpan(path);
  const pressing = pressingTokens(situation);
  const level = CompactionTrigger.checkLevel(pressing, limits);
  const overheadTokens = situation.overheadTokens + TokenCounter.overhead;
  const counted = TokenCounter.messages(situation.context.messages) + overheadTokens;
  // When the provider counts more tokens than the word count, the target is converted to the word count.
  const target = Math.floor(pruneTarget(level, limits) * Math.min(1, counted / pressing));
  // Only a manual compaction is planned below the levels. It always removes messages, even if there is enough room.
  const isByHand = level === "NONE" && !options.isOverflow;
  const wanted = isByHand ? Math.min(target, Math.floor(counted * SHARE_BY_HAND)) : target;
  // The plan is made for the target: the size of blocks depends on the target, not on the model's window.
  const { maxContextTokens: contextWindow } = limits;
  const conditions = conditionsFor(
    { ...situation.settings, contextWindow, reserveTokens: contextWindow - target },
    { ...options, estimate: TokenCounter.estimate, overheadTokens },
  );
  let budget = wanted - overheadTokens - Math.min(PLANNED_SUMMARY_TOKENS, Math.floor(wanted / 4));
  for (let correction = 1; ; correction++) {
    const selection = selectByPriority(span, budget);
    if (!hasWork(selection)) break;
    const { plan, fits, lacking } = planSelection(span, selection, conditions);
    const excess = plan.tokensAfter + overheadTokens - wanted + lacking;
    const isDone = (fits && excess <= 0) || correction === CORRECTIONS;
    if (isDone && (isByHand || plan.tokensAfter < plan.tokensBefore)) return plan;
    if (isDone) break;
    budget -= Math.max(1, excess);
  }
  if (isByHand) return { eligible: false, reason: nothingReason(span) };
  // The messages that must stay are too large, or none may be removed: plan like the default policy, with the same
  // room.
  return prepareCompaction(path, { ...conditions.settings, keepRecentTokens: target / 2 }, conditions);
}

function selectByPriority({ items }: CompactionSpan, budget: number): Selection {
  const said = items.flatMap((item) => item.messages.map((message) => ({ item, message })));
  const pruned = HistoryPruner.prune(
    said.map(({ message }) => message),
    budget,
  );
  const chosen = new Set(pruned.keptIndexes.map((index) => said[index]!.item));
  // The compaction carries the system messages, so that they do not decide where the kept part begins.
  const first = items.findIndex((item) => chosen.has(item) && !isSystem(item));
  const kept = items.filter((item, at) => first >= 0 && at >= first && chosen.has(item));
  const stays = new Set(kept);
  const history = items.filter((item) => item.messages.length > 0 && !stays.has(item));
  return { history, turnPrefix: [], kept };
}

const isSystem = ({ messages }: Selection["kept"][number]): boolean =>
  messages.every(({ role }) => role === "system");
const hasWork = ({ history }: Selection): boolean => history.some((item) => !isSystem(item));

function nothingReason({ items }: CompactionSpan): string {
  const messages = items.reduce((sum, item) => sum + item.messages.length, 0);
  if (messages === 0) return "Nothing to compact: there are no messages yet.";
  return `Nothing to compact: all ${messages} messages are among those that always stay (the newest question, answer and tool messages).`;
}

/** Limits of a context's size (origins 004). */
export const PRESSURE_SETTINGS = {
  /** Size that counts as full, in tokens; at most the model's window less `reserveTokens`. Default 8,000. */
  maxContextTokens: { default: 8_000, least: 100, share: 1, about: "tokens that count as full" },
  /** Percentage of the size from which pruning is due. Default 75. */
  compactionThreshold: {
    default: 75,
    least: 1,
    most: 100,
    isPercent: true,
    about: "percent of maxContextTokens at which messages are left out",
  },
  /** Percentage of the size from which more is pruned. Default 90. */
  criticalThreshold: {
    default: 90,
    least: 1,
    most: 100,
    isPercent: true,
    about: "percent of maxContextTokens at which more messages are left out",
  },
} satisfies SettingsTable;

/** Settings of a context's size. */
export interface PressureSettings extends SettingsOf<typeof PRESSURE_SETTINGS> {}

/** Values of origins 004: tokens, and percentages of them. */
export const DEFAULT_PRESSURE_SETTINGS: PressureSettings = defaultsOf(PRESSURE_SETTINGS);

/** Target size of a pruning in percent of the context's limit, by level (origins 004). */
const TARGET_PERCENT = { NONE: 70, WARNING: 70, CRITICAL: 60 } as const;

/**
 * Minimum distance of a pruned context below `compactionThreshold`, in percent of the limit, so that the next message
 * does not make a pruning due.
 */
const LEAST_RELIEF = 5;

/** Returns the size after a pruning, in tokens. */
export function pruneTarget(
  level: keyof typeof TARGET_PERCENT,
  { maxContextTokens, compactionThreshold }: PressureSettings,
): number {
  const percent = Math.min(TARGET_PERCENT[level], Math.max(1, compactionThreshold - LEAST_RELIEF));
  return Math.floor((maxContextTokens * percent) / 100);
}

/** Messages that are kept or removed together: an answer with the results of its calls, or any other single message. */
interface MessageUnit {
  tokens: number;
  /** `orphan` is a result whose call is not in the history. */
  kind: "system" | "single" | "calls" | "orphan";
}

/** Returns the unit of each message. */
function messageUnits(
  messages: readonly ContextMessage[],
  estimate: (message: ContextMessage) => number,
): MessageUnit[] {
  const unitOfCall = new Map<string, MessageUnit>();
  return messages.map((message) => {
    const called = message.role === "toolResult" ? unitOfCall.get(message.toolCallId) : undefined;
    const unit = called ?? { tokens: 0, kind: kindOf(message) };
    unit.tokens += estimate(message);
    for (const { id } of toolCalls(message)) unitOfCall.set(id, unit);
    return unit;
  });
}

function kindOf(message: ContextMessage): MessageUnit["kind"] {
  if (message.role === "system") return "system";
  if (message.role === "toolResult") return "orphan";
  return toolCalls(message).length > 0 ? "calls" : "single";
}

const known = new WeakMap<ContextMessage, number>();

/** Level of pressure of a context. */
export type PressureLevel = "NONE" | "WARNING" | "CRITICAL";

/** Detects the level of a context (origins 004). */
export const CompactionTrigger = {
  /**
   * Returns the level of a number of tokens. A level includes its threshold: WARNING from 75 % and CRITICAL from 90 %
   * by default.
   */
  checkLevel(tokens: number, settings: Partial<PressureSettings> = {}): PressureLevel {
    const limits = { ...DEFAULT_PRESSURE_SETTINGS, ...settings };
    const reaches = (percent: number) => tokens * 100 >= percent * limits.maxContextTokens;
    if (!reaches(limits.compactionThreshold)) return "NONE";
    return reaches(limits.criticalThreshold) ? "CRITICAL" : "WARNING";
  },
} as const;

/** A history after pruning, in order. */
export interface PrunedHistory {
  kept: ContextMessage[];
  removed: ContextMessage[];
  /** Indexes of the kept messages. */
  keptIndexes: number[];
}

/** Number of newest tool messages that always stay (origins 004). */
const RECENT_TOOL_MESSAGES = 5;

/** Selects messages (origins 004). */
export const HistoryPruner = {
  /**
   * Keeps, in this order: system messages, the newest user message, the newest answer, and the 5 newest tool messages;
   * then other messages, newest first, within the budget; at last older tool results with their calls. A message that
   * does not fit is skipped, and an older one that fits is kept. The first four are kept even above the budget. The
   * newest answer is the newest one that did not fail; tool messages are kept with their calls. Results of calls that
   * are not in the history are always removed.
   */
  prune(
    messages: readonly ContextMessage[],
    budgetTokens: number,
    estimate: (message: ContextMessage) => number = TokenCounter.estimate,
  ): PrunedHistory {
    const units = messageUnits(messages, estimate);
    const kept = requiredUnits(units, messages);
    let left = budgetTokens;
    for (const unit of kept) left -= unit.tokens;
    const newestFirst = [...new Set(units)].reverse();
    for (const kind of ["single", "calls"] as const) {
      for (const unit of newestFirst) {
        if (unit.kind !== kind || kept.has(unit) || unit.tokens > left) continue;
        kept.add(unit);
        left -= unit.tokens;
      }
    }
    const stays = units.map((unit) => kept.has(unit));
    return {
      kept: messages.filter((_, index) => stays[index]),
      removed: messages.filter((_, index) => !stays[index]),
      keptIndexes: [...messages.keys()].filter((index) => stays[index]),
    };
  },
} as const;

function requiredUnits(units: readonly MessageUnit[], messages: readonly ContextMessage[]): Set<MessageUnit> {
  const required = new Set(units.filter(({ kind }) => kind === "system"));
  const newest = (count: number, isWanted: (message: ContextMessage) => boolean) => {
    const found = units.filter((unit, index) => unit.kind !== "orphan" && isWanted(messages[index]!));
    for (const unit of found.slice(-count)) required.add(unit);
  };
  newest(1, ({ role }) => role === "user");
  newest(1, (message) => message.role === "assistant" && !isFailedAnswer(message));
  newest(RECENT_TOOL_MESSAGES, ({ role }) => role === "toolResult");
  return required;
}
