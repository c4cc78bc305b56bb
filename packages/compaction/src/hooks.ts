import { decideHook, LONG_HANDLER_LIMIT_MS, notifyHook, transformHook } from "@espalier/extensions";
import type { CompactionEntry, ContextMessage, Entry, Usage } from "@espalier/session-tree";
import type { FileOps } from "@espalier/summarizer";
import { firstKeptProblem, isNoSmaller } from "./cut.ts";
import type { CompactionReason } from "./plan.ts";
import type { FoundRule } from "./rule-finder.ts";
import { RULE_KINDS } from "./rules.ts";
import type { CompactionSettings } from "./settings.ts";

/** Event before a compaction. */
export interface BeforeCompactEvent {
  preparation: {
    messagesToSummarize: readonly ContextMessage[];
    turnPrefixMessages: readonly ContextMessage[];
    isSplitTurn: boolean;
    /** Earlier summary, in prose: the one that an update rewrites, or all that are stacked (`stackedOn`). */
    previousSummary?: string;
    /** Earlier summaries that the core would keep word for word in front of its own. An answer replaces them too. */
    stackedOn?: string;
    fileOps: FileOps;
    tokensBefore: number;
    firstKeptEntryId: string;
    settings: CompactionSettings;
  };
  /** The id that the compaction will have. */
  compactionId: string;
  /** The path of the leaf, root first, as far as the context reaches back. */
  branchEntries: readonly Entry[];
  customInstructions?: string;
  reason: CompactionReason;
  /** True when the request that overflowed is sent again afterwards. */
  willRetry: boolean;
  signal: AbortSignal;
}

/**
 * An extension's own compaction; the core fills in absent fields. It replaces everything before the entries that it
 * keeps: the messages to summarize, and every earlier summary.
 */
export interface CompactionProposal {
  summary: string;
  /**
   * On the path, not before what the last compaction kept, and where a path may be cut; or the event's `compactionId`
   * to keep nothing. Default: the preparation's.
   */
  firstKeptEntryId?: string;
  tokensBefore?: number;
  details?: unknown;
  usage?: Usage;
}

/** Answer of extensions before a compaction; every field is optional. */
export interface BeforeCompactAnswer {
  compaction?: CompactionProposal;
  /** Further focus of the core's summary. */
  instructions?: string;
}

/** Asked before every compaction; may cancel it, make it, or say what the summary shall attend to. */
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
  const keepsNothing = firstKeptEntryId === compactionId;
  const problem = keepsNothing ? undefined : firstKeptProblem(branchEntries, firstKeptEntryId);
  if (problem) return `\`compaction.firstKeptEntryId\` ${problem}`;
  if (!isNoSmaller(branchEntries, summary, keepsNothing ? null : firstKeptEntryId)) return undefined;
  return "`compaction` leaves the context no smaller";
}

/** Event after a compaction. */
export interface CompactEvent {
  entry: CompactionEntry;
  /** The same entry, under Pi's name. */
  compactionEntry: CompactionEntry;
  fromExtension: boolean;
  reason: CompactionReason;
  willRetry: boolean;
}

/** Notifies of a compaction that is in the log. */
export const sessionCompact = notifyHook<CompactEvent>("session_compact");

/** End of a compaction that is not in the log. */
export type CompactionOutcome = "failed" | "aborted" | "cancelled" | "skipped";

/** Event after a compaction that is not in the log. Exactly one of the two follows each `session_before_compact`. */
export interface CompactFailedEvent {
  reason: CompactionReason;
  outcome: CompactionOutcome;
  /** The extension that cancelled. */
  by?: string;
  error?: { code: string; message: string };
  /** Error message, unless it was cancelled or aborted. */
  errorMessage?: string;
  /** True where it was cancelled or aborted. */
  aborted: boolean;
  /** True where the compaction that did not get into the log was an extension's. */
  fromExtension: boolean;
  willRetry: boolean;
}

/** Notifies of a compaction that was begun and is not in the log. */
export const sessionCompactFailed = notifyHook<CompactFailedEvent>("session_compact_failed");

/** Rules found in a message of the user, before they are appended with it. */
export interface RulesFound {
  /** Text of the message, text blocks joined by newlines. */
  text: string;
  /** Clauses that bind what follows. A handler may add, change and remove some, or ask a model for all. */
  rules: FoundRule[];
}

/** Rules of each message of the user, before they are in the log. What comes out is recorded. */
export const rulesFound = transformHook<RulesFound, "found">("rules_found", {
  field: "found",
  timeoutMs: LONG_HANDLER_LIMIT_MS,
  validate: ({ text, rules }: RulesFound) =>
    Array.isArray(rules) && rules.every((rule) => isSound(rule, text))
      ? undefined
      : "`found.rules` is not a list of `{text, kind, range}` with a range inside the message",
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
