// Separate from named-policies.ts: each policy has a file.
import {
  type CompactionEntry,
  compaction,
  type Entry,
  estimateTokens,
  kindOf,
  pathRows,
  pathWindowAt,
  type SessionContext,
} from "@espalier/session-tree";
import { readSpan } from "../cut.ts";
import type { Policy, PolicySituation } from "../policy.ts";
import { checkBelow, checkSettings, defaultsOf, type SettingsOf, type SettingsTable } from "../settings.ts";
import { compactionIn, countActive, type ReadableSession } from "./history.ts";
import { newestWhole, planKeepingNewest } from "./message-count.ts";

/**
 * Summarizes in batches the messages that leave a window (origins 001). The policy is evaluated after each append. A
 * run is due when enough messages are before the tail, or when at least one is and the cooldown has passed. Each run
 * updates the previous summary. A request has at most `contextSize` messages besides the summary, even if runs are
 * late.
 *
 * @throws EspalierError `settings`
 */
export function slidingWindow(settings: Partial<SlidingWindowSettings> = {}): Policy {
  const { contextSize, tailKeepSize, compressionWindowSize, compressionCooldownSec, compressionHardLimit } =
    checkBelow(checkSettings(SLIDING_WINDOW_SETTINGS, settings), "tailKeepSize", "contextSize");
  return {
    name: "sliding-window",
    judgedAt: "append",
    estimate: estimateTokens,
    judge({ context, path, now, startedAt }) {
      const delta = countActive(context) - tailKeepSize;
      if (delta <= 0) return undefined;
      if (delta >= compressionWindowSize || delta >= compressionHardLimit) return "policy";
      // Before the first run the cooldown counts from the start of the session; without a start time it never passes.
      const since = Date.parse(lastConsolidatedAt(context, path) ?? startedAt ?? "");
      return now - since >= compressionCooldownSec * 1_000 ? "policy" : undefined;
    },
    plan: (situation, options) => planKeepingNewest(tailKeepSize, situation, options),
    shape: (context) => newestWhole(context, contextSize),
    record: (_plan, { covered, at }, situation) => ({
      lastConsolidated: messagesUpTo(situation, covered.lastEntryId),
      lastConsolidatedAt: at,
    }),
  };
}

/** State of a sliding window. The first two fields are from the log, the other two from the process. */
export interface SlidingWindowState {
  /**
   * Number of messages of the path that are summarized, counted from the root; also the index of the first that is not.
   */
  lastConsolidated: number;
  /** Time of the last run, ISO 8601; null before the first. */
  lastConsolidatedAt: string | null;
  isConsolidating: boolean;
  /** True if a run became due while one was running. */
  pendingConsolidation: boolean;
}

/** The members of a session from which the state is read. */
export type ConsolidatedSession = ReadableSession &
  Partial<Pick<SlidingWindowState, "isConsolidating" | "pendingConsolidation">>;

/**
 * Returns the state at a session's leaf. The first two fields are derived from the log, so that they are the same after
 * a restart; the other two are those of the session, by default false.
 */
export function slidingWindowState(session: ConsolidatedSession): SlidingWindowState {
  const { tree, leafId } = session;
  const row = leafId === null ? -1 : tree.row(leafId);
  const { entries } = pathWindowAt(tree, row);
  const messagesAbove = () => {
    const above = pathRows(tree, row).slice(0, -entries.length || undefined);
    return countMessages(above.map((at) => tree.entryAt(at)));
  };
  const { messages, at } = consolidationOf({ path: entries, messagesAbove });
  return {
    lastConsolidated: messages,
    lastConsolidatedAt: at,
    isConsolidating: session.isConsolidating ?? false,
    pendingConsolidation: session.pendingConsolidation ?? false,
  };
}

/**
 * Returns, for the current compaction of a path, the number of summarized messages, its time (null without one), and
 * the index of its first kept entry.
 */
function consolidationOf({ path, messagesAbove }: Pick<PolicySituation, "path" | "messagesAbove">) {
  const { previous } = readSpan(path);
  if (!previous) return { messages: 0, at: null, from: 0 };
  const from = Math.max(
    0,
    path.findIndex(({ id }) => id === previous.firstKeptEntryId),
  );
  const recorded = (previous.details as { lastConsolidated?: unknown } | undefined)?.lastConsolidated;
  // A compaction of another policy, or of Pi, summarized the entries above the first kept one.
  const countAbove = () => (messagesAbove?.() ?? 0) + countMessages(path.slice(0, from));
  const messages = typeof recorded === "number" ? recorded : countAbove();
  return { messages, at: consolidatedAt(previous), from };
}

/** Returns the time of the context's compaction, ISO 8601; undefined when there is none. */
function lastConsolidatedAt(
  context: Pick<SessionContext, "messages" | "sources">,
  path: readonly Entry[],
): string | undefined {
  const id = compactionIn(context);
  const entry = path.findLast((candidate) => candidate.id === id);
  return entry && compaction.is(entry) ? consolidatedAt(entry) : undefined;
}

/**
 * Counts the messages of a path up to and including one of its entries, with messages that edits hide. The count begins
 * with the number that the current compaction recorded, so that the path above need not be read; null adds nothing to
 * that number.
 */
function messagesUpTo(situation: Pick<PolicySituation, "path" | "messagesAbove">, id: string | null): number {
  const { path } = situation;
  const { messages, from } = consolidationOf(situation);
  return messages + countMessages(path.slice(from, path.findIndex((entry) => entry.id === id) + 1));
}

function consolidatedAt({ details, timestamp }: CompactionEntry): string {
  const recorded = (details as { lastConsolidatedAt?: unknown } | undefined)?.lastConsolidatedAt;
  return typeof recorded === "string" ? recorded : timestamp;
}

/** Counts the messages of entries, except those of compactions. */
export function countMessages(entries: readonly Entry[]): number {
  return entries.filter(countsAsMessage).length;
}

function countsAsMessage(entry: Entry): boolean {
  const kind = kindOf(entry);
  return kind.toMessages !== undefined && kind.firstKept === undefined && !kind.problem?.(entry);
}

/** The numbers of the sliding window (origins 001). */
export const SLIDING_WINDOW_SETTINGS = {
  /** Maximum number of messages of a request, without the summary. Default 75. */
  contextSize: { default: 75, least: 2, about: "maximum number of messages in a request" },
  /** Number of newest messages that are never summarized. Smaller than `contextSize`. Default 40. */
  tailKeepSize: { default: 40, least: 1, about: "newest messages that stay unchanged" },
  /** Number of messages before the tail that makes a run due. Default 12. */
  compressionWindowSize: { default: 12, least: 1, about: "older messages that are summarized together" },
  /** Seconds after the last run from which any message before the tail makes a run due. Default 900. */
  compressionCooldownSec: {
    default: 900,
    least: 0,
    about: "seconds after which fewer messages are summarized too",
  },
  /** Number of messages before the tail that makes a run due even if the window does not. Default 30. */
  compressionHardLimit: { default: 30, least: 1, about: "maximum number of older messages" },
} satisfies SettingsTable;

/** Settings of the sliding window. */
export interface SlidingWindowSettings extends SettingsOf<typeof SLIDING_WINDOW_SETTINGS> {}

/** Values of origins 001. */
export const DEFAULT_SLIDING_WINDOW_SETTINGS: SlidingWindowSettings = defaultsOf(SLIDING_WINDOW_SETTINGS);
