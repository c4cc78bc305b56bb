import { decideHook, LONG_HANDLER_LIMIT_MS, notifyHook, transformHook } from "@espalier/extensions";
import { checkJson } from "@espalier/jsonl-stream";
import type { CompactionEntry, ContextMessage, Entry, Usage } from "@espalier/session-tree";
import type { FileOps, FoundRule } from "@espalier/summarizer";
import { firstKeptProblem, isNoSmaller } from "./cut.ts";
import type { CompactionReason } from "./plan.ts";
import { RULE_KINDS } from "./rules.ts";
import type { CompactionSettings } from "./settings.ts";

/** Event before a compaction. */
export interface BeforeCompactEvent {
  preparation: {
    messagesToSummarize: readonly ContextMessage[];
    turnPrefixMessages: readonly ContextMessage[];
    isSplitTurn: boolean;
    /** Prose of the earlier summary: the one that an update rewrites, or all stacked ones (`stackedOn`). */
    previousSummary?: string;
    /**
     * Earlier summaries that the core would keep word for word before the new one. A proposal of an extension replaces
     * them too.
     */
    stackedOn?: string;
    fileOps: FileOps;
    tokensBefore: number;
    /** The first entry that the core would keep; the event's `compactionId` when it would keep none. */
    firstKeptEntryId: string;
    settings: CompactionSettings;
  };
  /** The id that the compaction will have. */
  compactionId: string;
  /** The path of the leaf, root first, as far as the context reaches back. */
  branchEntries: readonly Entry[];
  customInstructions?: string;
  reason: CompactionReason;
  /** True when the request that exceeded the window is retried afterwards. */
  willRetry: boolean;
  signal: AbortSignal;
}

/**
 * Compaction by an extension; the core fills in absent fields. It replaces all messages before the kept entries: the
 * messages to summarize and every earlier summary. It must make the context smaller.
 */
export interface CompactionProposal {
  summary: string;
  /**
   * The first kept entry. It must be on the path, not before the entries that the last compaction kept, and at a legal
   * cut; or it is the event's `compactionId`, to keep nothing. Default: the preparation's.
   */
  firstKeptEntryId?: string;
  tokensBefore?: number;
  details?: unknown;
  usage?: Usage;
}

/** Answer of an extension before a compaction; every field is optional. */
export interface BeforeCompactAnswer {
  compaction?: CompactionProposal;
  /** Additional focus of the core's summary. */
  instructions?: string;
}

/**
 * Hook before every compaction. An extension can cancel the compaction, provide it, or name the focus of the summary.
 */
export const sessionBeforeCompact = decideHook<BeforeCompactEvent, BeforeCompactAnswer>(
  "session_before_compact",
  {
    timeoutMs: LONG_HANDLER_LIMIT_MS,
    fields: { compaction: "one", instructions: "join" },
    validate: ({ compaction, instructions }, event) => {
      if (instructions !== undefined && typeof instructions !== "string") return "`instructions` is not text";
      return compaction === undefined ? undefined : proposalProblem(compaction, event);
    },
  },
);

function proposalProblem(
  proposal: CompactionProposal,
  { branchEntries, compactionId, preparation }: BeforeCompactEvent,
): string | undefined {
  if (typeof proposal !== "object" || proposal === null) return "`compaction` is not an object";
  const { summary, firstKeptEntryId = preparation.firstKeptEntryId, tokensBefore = 0, usage = {} } = proposal;
  if (typeof summary !== "string" || summary.trim() === "") return "`compaction.summary` is missing or empty";
  if (!Number.isFinite(tokensBefore)) return "`compaction.tokensBefore` is not a number";
  if (typeof usage !== "object" || usage === null) return "`compaction.usage` is not an object";
  checkJson({ details: proposal.details });
  const keepsNothing = firstKeptEntryId === compactionId;
  const problem = keepsNothing ? undefined : firstKeptProblem(branchEntries, firstKeptEntryId);
  if (problem) return `\`compaction.firstKeptEntryId\` ${problem}`;
  if (!isNoSmaller(branchEntries, summary, keepsNothing ? null : firstKeptEntryId)) return undefined;
  return "`compaction` does not make the context smaller";
}

/** Event after a compaction. */
export interface CompactEvent {
  entry: CompactionEntry;
  /** The same entry under the name that Pi uses. */
  compactionEntry: CompactionEntry;
  fromExtension: boolean;
  reason: CompactionReason;
  willRetry: boolean;
}

/** Notifies extensions of a compaction that is in the log. */
export const sessionCompact = notifyHook<CompactEvent>("session_compact");

/** Reason why a compaction was not committed. */
export type CompactionOutcome = "failed" | "aborted" | "cancelled" | "skipped";

/**
 * Event after a compaction that did not reach the log. Each `session_before_compact` is followed by this event or by
 * `session_compact`.
 */
export interface CompactFailedEvent {
  reason: CompactionReason;
  outcome: CompactionOutcome;
  /** Name of the extension that cancelled. */
  by?: string;
  error?: { code: string; message: string };
  /** Error message; absent when the compaction was cancelled or aborted. */
  errorMessage?: string;
  /** True when the compaction was cancelled or aborted. */
  aborted: boolean;
  /** True when an extension provided the compaction. */
  fromExtension: boolean;
  willRetry: boolean;
}

/** Notifies extensions of a compaction that began but is not in the log. */
export const sessionCompactFailed = notifyHook<CompactFailedEvent>("session_compact_failed");

/** Rules found in a message of the user, before they are appended with it. */
export interface RulesFound {
  /** Text of the message, text blocks joined by newlines. A handler cannot change it. */
  text: string;
  /**
   * Clauses that restrict later work. A handler may add, change and remove rules, or request all of them from a model.
   */
  rules: FoundRule[];
}

/** Transforms the rules of each user message before they are in the log. The result is recorded. */
export const rulesFound = transformHook<RulesFound, "found">("rules_found", {
  field: "found",
  timeoutMs: LONG_HANDLER_LIMIT_MS,
  validate: (found: RulesFound | null, { text }) =>
    Array.isArray(found?.rules) && found.text === text && found.rules.every((rule) => isSound(rule, text))
      ? undefined
      : "`found` is not the message's `text` with `rules`, a list of `{text, kind, range}` with a range inside it",
});

const isSound = ({ text, kind, range }: FoundRule, message: string): boolean =>
  typeof text === "string" &&
  text.trim() !== "" &&
  RULE_KINDS.includes(kind) &&
  Array.isArray(range) &&
  range.length === 2 &&
  range.every(Number.isSafeInteger) &&
  0 <= range[0] &&
  range[0] < range[1] &&
  range[1] <= message.length;
