import {
  type ContextMessage,
  contentBlocks,
  contextEdit,
  type Entry,
  estimateTokens,
  isFailedAnswer,
  isMessage,
  messageText,
  type ToolResultMessage,
} from "@espalier/session-tree";
import type { CompactionPlan } from "../plan.ts";
import { type OffloadPlan, type Policy, type PolicySituation, trustedTokens } from "../policy.ts";
import { COMPACT_SUMMARY_SECTIONS, COMPACT_SUMMARY_TASK } from "../prompts.ts";
import {
  checkSettings,
  DEFAULT_COMPACTION_SETTINGS,
  defaultsOf,
  type SettingsOf,
  type SettingsTable,
  thresholdOf,
} from "../settings.ts";
import type { SummaryStyle } from "../summary-text.ts";
import { planKeepingNewest } from "./message-count.ts";
import {
  COMPRESSED_HISTORY_HEADING,
  compactSummaryPrompt,
  memoryOffloadStorage,
  type OffloadStorage,
  OUTPUT_MARGIN,
  offloadedPath,
  offloadedPaths,
  offloadReference,
  referencedPath,
  WHOLE_RESULTS_FIRST,
  withText,
} from "./offload-storage.ts";

/**
 * Moves large tool results to files before a request is sent, and compacts only when that frees less than
 * `triggerTokens` and leaves the context above the threshold (origins 003). Before a compaction the results are read
 * back from the files.
 *
 * @throws EspalierError `settings`
 */
export function offload(settings: Partial<OffloadSettings> = {}): Policy {
  const checked = checkSettings(OFFLOAD_SETTINGS, settings);
  const { preserveCount, targetTokens, triggerTokens, retryCount } = checked;
  const style: SummaryStyle = {
    systemPrompt: compactSummaryPrompt(targetTokens),
    instructions: COMPACT_SUMMARY_TASK,
    sections: COMPACT_SUMMARY_SECTIONS,
    toolResultLimits: WHOLE_RESULTS_FIRST,
    maxOutputTokens: Math.floor(targetTokens * OUTPUT_MARGIN),
    attempts: retryCount,
    heading: COMPRESSED_HISTORY_HEADING,
    ...(settings.model ? { model: settings.model } : {}),
  };
  return {
    name: "offload",
    judgedAt: "request",
    estimate: estimateTokens,
    judge(situation) {
      const { freedTokens, stillExceedsThreshold } =
        situation.offloaded ?? planOffload(situation, checked, () => "");
      return stillExceedsThreshold && freedTokens < triggerTokens ? "threshold" : undefined;
    },
    offload(situation, pathFor) {
      const plan = planOffload(situation, checked, pathFor);
      return plan.offloadedCount > 0 || plan.stillExceedsThreshold ? plan : undefined;
    },
    plan(situation, options) {
      const plan = planKeepingNewest(preserveCount, situation, { ...options, style });
      return plan.eligible ? withFilesToRead(plan) : plan;
    },
  };
}

/**
 * Limits for moving results to files, and for the compaction after it (origins 003, which has no value for
 * `offloadMinTokens`). All sizes are tokens.
 */
export const OFFLOAD_SETTINGS = {
  /** Results are moved out of a context larger than this. Default and maximum: the model's window less the reserve. */
  offloadThreshold: {
    least: 1,
    share: 0.5,
    about: "context tokens at which long results move to files; -: the model's window minus the reserve",
  },
  /** Smaller results are not moved. Default 1,000. */
  offloadMinTokens: { default: 1_000, least: 1, share: 0.1, about: "minimum tokens of a result that moves" },
  /**
   * A compaction is due when less than this was moved out and the context is still above the threshold. Default 15,000.
   */
  triggerTokens: {
    default: 15_000,
    least: 0,
    share: 0.1,
    about: "a summary is made when moving results frees fewer tokens",
  },
  /** Number of newest messages that a compaction keeps. Default 5. */
  preserveCount: { default: 5, least: 1, about: "newest messages that a summary leaves unchanged" },
  /** Target length of the summary; the limit is 1.2 times this. Default 8,000. */
  targetTokens: { default: 8_000, least: 256, share: 0.3, about: "target length of the summary in tokens" },
  /** Maximum number of attempts at a summary. Default 3. */
  retryCount: { default: 3, least: 1, most: 10, about: "maximum attempts at a summary" },
} satisfies SettingsTable;

/** Settings of the move to files, and of the compaction after it. */
export interface OffloadSettings extends SettingsOf<typeof OFFLOAD_SETTINGS> {
  /** The model of the summary. Default: the session's. */
  model?: string;
}

/** Values of origins 003, in tokens; origins 003 has no value for `offloadMinTokens`. */
export const DEFAULT_OFFLOAD_SETTINGS: OffloadSettings = defaultsOf(OFFLOAD_SETTINGS);

function planOffload(
  { context, path, settings, overheadTokens }: PolicySituation,
  { offloadThreshold, offloadMinTokens }: OffloadSettings,
  pathFor: (text: string) => string,
): OffloadPlan {
  const byId = new Map<string, Entry>(path.map((entry) => [entry.id, entry]));
  const { files, messages, ...counts } = offloadIfNeeded(context.messages, {
    // A configured threshold never uses the tokens that are reserved for the answer.
    offloadThreshold: Math.min(offloadThreshold ?? Number.POSITIVE_INFINITY, thresholdOf(settings)),
    offloadMinTokens,
    pathFor,
    tokens: trustedTokens(context, overheadTokens),
    // A result that an edit shortened is written to its file whole, as it is in the log.
    originalOf: (message, index) => originalText(byId.get(context.sources[index]!)) ?? messageText(message),
  });
  return {
    files: files.map(({ path: file, text }) => ({ path: file, text })),
    edits: files.map(({ index, path: file }) => ({
      targetId: context.sources[index]!,
      replacement: { content: contentFor(file) },
    })),
    ...counts,
  };
}

function withFilesToRead(plan: CompactionPlan & { eligible: true }): CompactionPlan {
  const { previousSummary } = plan;
  const readBack = offloadedPaths([...plan.messagesToSummarize, ...plan.turnPrefixMessages]);
  const isHeaded = previousSummary?.startsWith(COMPRESSED_HISTORY_HEADING) === true;
  return {
    ...plan,
    ...(readBack.length > 0 && { readBack }),
    ...(isHeaded && { previousSummary: previousSummary.slice(COMPRESSED_HISTORY_HEADING.length) }),
  };
}

/**
 * Limits and paths for moving results out. Sizes are tokens; defaults as in `OffloadSettings`, with the threshold of a
 * window of 200,000.
 */
export interface OffloadOptions
  extends Partial<Pick<OffloadSettings, "offloadThreshold" | "offloadMinTokens">> {
  /** Returns the path of a text. Default: numbered paths in a folder `offloaded`. */
  pathFor?: (text: string) => string;
  /** Estimates the tokens of one message. Default: characters / 4. */
  estimate?: (message: ContextMessage) => number;
  /** Size that is compared with the threshold. Default: the estimate of the messages. */
  tokens?: number;
  /** Returns the whole text of a result when the message was shortened. Default: the message's text. */
  originalOf?: (message: ToolResultMessage, index: number) => string;
}

/** A result that moves to a file. */
export interface OffloadedResult {
  /** Index among the messages. */
  index: number;
  path: string;
  text: string;
}

/** Messages after results were moved out, and the effect on their size. */
export interface OffloadResult extends Omit<OffloadPlan, "files" | "edits"> {
  messages: ContextMessage[];
  /** Files that have to be written before the messages are used. */
  files: OffloadedResult[];
}

/**
 * Replaces large tool results by references to files, oldest first, until the messages are no longer above the
 * threshold. Pure: the caller writes the listed files. Results after the newest answer stay, because the model has not
 * read them. So do results below `offloadMinTokens`, results that a reference would not make smaller, and results with
 * media, which a text file cannot store.
 */
export function offloadIfNeeded(
  messages: readonly ContextMessage[],
  options: OffloadOptions = {},
): OffloadResult {
  const {
    offloadThreshold = thresholdOf(DEFAULT_COMPACTION_SETTINGS),
    offloadMinTokens = DEFAULT_OFFLOAD_SETTINGS.offloadMinTokens,
    pathFor = memoryOffloadStorage().pathFor,
    estimate = estimateTokens,
    originalOf = messageText,
  } = options;
  const after = [...messages];
  const files: OffloadedResult[] = [];
  let tokens = options.tokens ?? messages.reduce((sum, message) => sum + estimate(message), 0);
  let freedTokens = 0;
  const newestAnswer = messages.findLastIndex(
    (message) => message.role === "assistant" && !isFailedAnswer(message),
  );
  for (let index = 0; index < newestAnswer && tokens > offloadThreshold; index++) {
    const message = messages[index]!;
    if (!canMove(message) || estimate(message) < offloadMinTokens) continue;
    const text = originalOf(message, index);
    const path = pathFor(text);
    const reference = withText(message, offloadReference(path));
    const freed = estimate(message) - estimate(reference);
    if (freed <= 0) continue;
    files.push({ index, path, text });
    after[index] = reference;
    freedTokens += freed;
    tokens -= freed;
  }
  return {
    messages: after,
    offloadedCount: files.length,
    freedTokens,
    stillExceedsThreshold: tokens > offloadThreshold,
    files,
  };
}

function canMove(message: ContextMessage): message is ToolResultMessage {
  return (
    message.role === "toolResult" &&
    offloadedPath(message) === undefined &&
    contentBlocks(message).every(({ type }) => type === "text")
  );
}

/** An entry whose content is in a file, according to its newest edit. */
export interface OffloadedEntry {
  targetId: string;
  path: string;
}

/** Lists the entries of a path's end whose content is in files: those whose newest edit is a reference to a file. */
export function offloadedEntries(path: readonly Entry[]): OffloadedEntry[] {
  const ids = new Set(path.map(({ id }) => id));
  const found = new Map<string, OffloadedEntry>();
  for (const { targetId, replacement } of path.filter(contextEdit.is)) {
    const at = replacement === null ? undefined : referencedPath(replacement);
    // Entries that a compaction hides are above the end of the path that was given.
    if (at !== undefined && ids.has(targetId)) found.set(targetId, { targetId, path: at });
    else found.delete(targetId);
  }
  return [...found.values()];
}

/**
 * Plans the repair of the files to which a path refers (default: all of them), from the log. `files` are those that
 * may be missing. `edits` name the session's own file for entries whose file is elsewhere, for example after a fork
 * or a move. A reference stays unchanged when its name is not derived from the original text, because another program
 * wrote it.
 */
export function planOffloadRepair(
  path: readonly Entry[],
  storage: Pick<OffloadStorage, "pathFor">,
  entries: readonly OffloadedEntry[] = offloadedEntries(path),
): Pick<OffloadPlan, "files" | "edits"> {
  const byId = new Map(path.map((entry) => [entry.id, entry]));
  const repair: Pick<OffloadPlan, "files" | "edits"> = { files: [], edits: [] };
  for (const { targetId, path: named } of entries) {
    const text = originalText(byId.get(targetId));
    if (text === undefined) continue;
    const own = storage.pathFor(text);
    if (lastPart(own) !== lastPart(named)) continue;
    repair.files.push({ path: own, text });
    if (own !== named) repair.edits.push({ targetId, replacement: { content: contentFor(own) } });
  }
  return repair;
}

const contentFor = (path: string) => [{ type: "text" as const, text: offloadReference(path) }];

function originalText(entry: Entry | undefined): string | undefined {
  return entry && isMessage(entry, "toolResult") ? messageText(entry.message as ContextMessage) : undefined;
}

const lastPart = (path: string): string => path.split(/[/\\]/).at(-1) ?? path;
