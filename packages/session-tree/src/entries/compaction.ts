import { defineEntry, type Entry } from "../entry.ts";
import type { SystemMessage, Usage } from "../message.ts";

/** Replaces the older part of its path, in the context, by a summary. */
export interface CompactionEntry extends Entry {
  type: "compaction";
  summary: string;
  /** The first entry that stays visible; the own id keeps nothing. */
  firstKeptEntryId: string;
  /** Size of the context before, in tokens of the policy's estimator. */
  tokensBefore: number;
  /** How it came about; ours hold `CompactionDetails` of `@espalier/compaction`. No model reads it. */
  details?: unknown;
  /** What was billed for the summary; absent where nothing was. */
  usage?: Usage;
  /** True when an extension wrote the summary. */
  fromHook?: boolean;
  /** System prompt and tools as they were (newest Pi). */
  systemMessage?: SystemMessage;
}

/** The kind of {@link CompactionEntry}: says its summary and hides what stands before `firstKeptEntryId`. */
export const compaction = defineEntry<CompactionEntry>("compaction", {
  movesLeaf: true,
  toMessages: ({ summary, tokensBefore, timestamp, systemMessage }) => [
    ...(isSystemMessage(systemMessage) ? [systemMessage] : []),
    {
      role: "compactionSummary",
      summary: summary ?? "",
      tokensBefore: tokensBefore ?? 0,
      timestamp: Date.parse(timestamp),
    },
  ],
  firstKept: (entry) => entry.firstKeptEntryId,
  mayName: ["model", "thinkingLevel"],
  settings: (entry) => recordedSettings(entry.details),
  durability: () => "fsync",
  problem: (entry) =>
    typeof entry.summary !== "string"
      ? "`summary` is not text"
      : typeof entry.firstKeptEntryId !== "string"
        ? "`firstKeptEntryId` is missing"
        : undefined,
});

/** What stands in the place of the system's words may be anything in a file that is read. */
const isSystemMessage = (value: unknown): value is SystemMessage =>
  typeof value === "object" && value !== null && (value as { role?: unknown }).role === "system";

/**
 * Our compactions record the settings that were in force, so that a reader coming from the end of a long file need not
 * look further back for them. They repeat what the path says; reading them again changes nothing.
 */
function recordedSettings(details: unknown) {
  const recorded = (
    details as { settings?: { provider?: unknown; modelId?: unknown; thinkingLevel?: unknown } } | null
  )?.settings;
  if (typeof recorded !== "object" || recorded === null) return {};
  const { provider, modelId, thinkingLevel } = recorded;
  return {
    ...(typeof provider === "string" && typeof modelId === "string" ? { model: { provider, modelId } } : {}),
    ...(typeof thinkingLevel === "string" ? { thinkingLevel } : {}),
  };
}
