import { decideHook, hookAlias, LONG_HANDLER_LIMIT_MS, notifyHook } from "@espalier/extensions";
import { checkJson } from "@espalier/jsonl-stream";
import type { BranchSummaryEntry, Entry, Usage } from "@espalier/session-tree";

/** Event before a branch is abandoned. */
export interface BeforeForkEvent {
  /** `navigate` inside the session, `fork` to a new session. */
  kind: "navigate" | "fork";
  /** Entry at which the new leaf will be; null before the first entry. */
  targetId: string | null;
  oldLeafId: string | null;
  commonAncestorId: string | null;
  /** Abandoned entries, oldest first. */
  entriesToSummarize: readonly Entry[];
  /** True if a summary was requested. A `summary` in the answer is used only then. */
  userWantsSummary: boolean;
  /**
   * Id of the entry that was named. When the target is before the first entry, the id of the first entry; empty in a
   * session without entries.
   */
  entryId: string;
  /** `at`: the fork or the new leaf ends at the entry. `before`: it ends before the entry. */
  position: "at" | "before";
  /** Focus of the summary. With `replaceInstructions` it replaces the prompt. */
  customInstructions?: string;
  replaceInstructions?: boolean;
  /** Label that the caller gives to the new leaf. */
  label?: string;
  signal: AbortSignal;
}

/** A branch summary by an extension. */
export interface BranchSummaryProposal {
  summary: string;
  details?: unknown;
  usage?: Usage;
}

/** Answer of extensions before a branch is abandoned. Every field is optional. */
export interface BeforeForkAnswer {
  summary?: BranchSummaryProposal;
  /** Focus of the summary. With `replaceInstructions` it replaces the prompt. */
  instructions?: string;
  replaceInstructions?: boolean;
  /** Label for the new leaf. */
  label?: string;
}

/** Hook before a branch is abandoned, by navigation or by a fork. */
export const sessionBeforeFork = decideHook<BeforeForkEvent, BeforeForkAnswer>("session_before_fork", {
  timeoutMs: LONG_HANDLER_LIMIT_MS,
  fields: { summary: "one", instructions: "join", replaceInstructions: "any", label: "one" },
  validate: ({ summary, instructions, label }) => {
    if (instructions !== undefined && typeof instructions !== "string") return "`instructions` is not text";
    if (label !== undefined && typeof label !== "string") return "`label` is not text";
    if (summary === undefined) return undefined;
    const isText = typeof summary === "object" && summary !== null && typeof summary.summary === "string";
    if (!isText || summary.summary.trim() === "") return "`summary.summary` is missing or empty";
    const { details, usage = {} } = summary;
    checkJson({ details });
    return typeof usage === "object" && usage !== null ? undefined : "`summary.usage` is not an object";
  },
});

/**
 * Event after a fork: the named entry, then file, id, leaf and branch summary (null without one) of the new session.
 */
export interface ForkEvent {
  entryId: string;
  file: string;
  id: string;
  leafId: string | null;
  summaryEntryId: string | null;
}

/** Hook after a path was forked into a new session. */
export const sessionFork = notifyHook<ForkEvent>("session_fork");

/**
 * Event after a navigation. A leaf is null before the first entry; `summaryEntryId` is null when no summary was
 * written.
 */
export interface NavigateEvent {
  oldLeafId: string | null;
  newLeafId: string | null;
  summaryEntryId: string | null;
  /** The new branch summary; absent when none was written. */
  summaryEntry?: BranchSummaryEntry;
  /** True when an extension wrote the summary. */
  fromExtension: boolean;
}

/** Hook after the leaf moved inside a session, also by a navigation without a summary. */
export const sessionNavigate = notifyHook<NavigateEvent>("session_navigate");

/**
 * Pi's name for the hook before a navigation. The event is also under `preparation`, where Pi's extensions expect it,
 * and `customInstructions` in their answer counts as `instructions`.
 */
export const sessionBeforeTree = hookAlias("session_before_tree", {
  of: sessionBeforeFork,
  when: ({ kind }) => kind === "navigate",
  map: (event) => ({ ...event, preparation: { replaceInstructions: false, ...event } }),
  mapAnswer: (
    answer: BeforeForkAnswer & { customInstructions?: string; cancel?: boolean; reason?: string },
  ) => {
    const { customInstructions, ...rest } = answer;
    return customInstructions === undefined ? rest : { ...rest, instructions: customInstructions };
  },
});

/** Pi's name for the hook after a navigation. */
export const sessionTree = hookAlias("session_tree", { of: sessionNavigate });
