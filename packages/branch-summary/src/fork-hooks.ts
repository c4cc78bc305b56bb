import { decideHook, hookAlias, LONG_HANDLER_LIMIT_MS, notifyHook } from "@espalier/extensions";
import type { BranchSummaryEntry, Entry, Usage } from "@espalier/session-tree";

/** Event before a branch is left. */
export interface BeforeForkEvent {
  /** Inside the session, or to a new one. */
  kind: "navigate" | "fork";
  targetId: string | null;
  oldLeafId: string | null;
  commonAncestorId: string | null;
  /** Entries left behind, oldest first. */
  entriesToSummarize: readonly Entry[];
  /** True if a summary was requested; a `summary` in the answer counts only then. */
  userWantsSummary: boolean;
  /** The entry that was named; before the first entry that entry, and empty in a session without any. */
  entryId: string;
  /** Side of it on which the fork ends, or the leaf will be. */
  position: "at" | "before";
  /** Focus of the summary; with `replaceInstructions`, in place of the prompt. */
  customInstructions?: string;
  replaceInstructions?: boolean;
  /** The label that the caller gives the place arrived at. */
  label?: string;
  signal: AbortSignal;
}

/** A branch summary of an extension's own making. */
export interface BranchSummaryProposal {
  summary: string;
  details?: unknown;
  usage?: Usage;
}

/** Answer of extensions before a branch is left; every field is optional. */
export interface BeforeForkAnswer {
  summary?: BranchSummaryProposal;
  /** Focus of the summary; with `replaceInstructions`, in place of the prompt. */
  instructions?: string;
  replaceInstructions?: boolean;
  /** A label for the place arrived at. */
  label?: string;
}

/** Asked before a branch is left, in place or to a new session. */
export const sessionBeforeFork = decideHook<BeforeForkEvent, BeforeForkAnswer>("session_before_fork", {
  timeoutMs: LONG_HANDLER_LIMIT_MS,
  fields: { summary: "one", instructions: "join", replaceInstructions: "any", label: "one" },
  validate: ({ summary, instructions, label }) => {
    if (instructions !== undefined && typeof instructions !== "string") return "`instructions` is not text";
    if (label !== undefined && typeof label !== "string") return "`label` is not text";
    if (summary === undefined) return undefined;
    const isText = typeof summary === "object" && summary !== null && typeof summary.summary === "string";
    if (!isText || summary.summary.trim() === "") return "`summary.summary` is missing or empty";
    const { usage = {} } = summary;
    return typeof usage === "object" && usage !== null ? undefined : "`summary.usage` is not an object";
  },
});

/** Event after a fork. */
export interface ForkEvent {
  entryId: string;
  file: string;
  id: string;
  leafId: string | null;
  summaryEntryId: string | null;
}

/** Notifies of a path that became a session of its own. */
export const sessionFork = notifyHook<ForkEvent>("session_fork");

/** Event after a navigation. */
export interface NavigateEvent {
  oldLeafId: string | null;
  newLeafId: string | null;
  summaryEntryId: string | null;
  /** The branch summary that was written; absent where none was. */
  summaryEntry?: BranchSummaryEntry;
  fromExtension: boolean;
}

/** Notifies of a leaf that moved inside a session, also by a navigation without a summary. */
export const sessionNavigate = notifyHook<NavigateEvent>("session_navigate");

/** Pi's name for leaving a branch in place; the event is also under `preparation`, where Pi's extensions look. */
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

/** Pi's name for a navigation that happened. */
export const sessionTree = hookAlias("session_tree", { of: sessionNavigate });
