import type { FailedAttempt } from "@espalier/jsonl-stream";
import { CHARS_PER_TOKEN, type ContextMessage, estimateTokens, type Usage } from "@espalier/session-tree";
import {
  billOf,
  cutText,
  fileLists,
  newestRequest,
  type RequestSummaryOptions,
  renderTranscript,
  requestSummary,
  runPool,
  type Summarizer,
  type SummaryAnswer,
  type SummaryError,
  type SummaryOmission,
  type SummaryRequest,
  summaryError,
  sumUsage,
  toSummarizerError,
} from "@espalier/summarizer";
import type { CompactionPreparation, CompactionReason } from "./plan.ts";
import {
  HISTORY_SECTIONS,
  SUMMARIZATION_PROMPT,
  TURN_PREFIX_SECTIONS,
  TURN_PREFIX_SUMMARIZATION_PROMPT,
  UPDATE_SUMMARIZATION_PROMPT,
} from "./prompts.ts";
import type { Rule } from "./rules.ts";
import { frameSummary, joinSummary } from "./summary-text.ts";

/** Summary of a compaction before it is written to the log. */
export interface CompactionSummary {
  /**
   * Whole text of the entry: the policy's heading and earlier summaries if it has them, the prose, the note and the
   * blocks.
   */
  summary: string;
  /**
   * Text of the summarizer, both parts joined. Without a new summary of the history, the previous one is the first
   * part.
   */
  prose: string;
  /** Name of the summarizer that answered; two names joined by ` + ` when the parts have different ones. */
  source: string;
  model: SummaryAnswer["model"];
  /** Usage of all requests, including failed attempts; absent when none was reported. */
  usage?: Usage;
  /** Attempts that failed before the successful answers. */
  attempts: FailedAttempt[];
  /** Content that the requests shortened or dropped, by part; a part without omissions is absent. */
  omitted: { history?: OmittedEntries; turnPrefix?: OmittedEntries };
  /** Requested headings that the prose of any part lacks; absent when none is missing. */
  missingSections?: string[];
  readFiles: string[];
  modifiedFiles: string[];
}

/**
 * Executes a plan: requests a summary of the history and, when a turn is cut, a second one of the turn's beginning.
 * Joins the two and adds the blocks. Without messages of the history, the previous summary is kept in place of the
 * first one; if it already describes the beginning of a turn, it is updated in a single request. Writes nothing to the
 * log.
 *
 * @throws SummaryError with the usage of all requests; the failure of one part fails the whole
 */
export async function compact(
  preparation: CompactionPreparation,
  options: SummaryOptions,
): Promise<CompactionSummary> {
  const parts = summaryParts(preparation, options.summarizer);
  const answers = await askParts(parts, preparation, options);
  const textOf = (wanted: SummaryPart["part"]) =>
    answers[parts.findIndex(({ part }) => part === wanted)]?.text;
  const turn = textOf("turnPrefix");
  const prose = [
    textOf("history") ?? preparation.previousSummary,
    turn === undefined ? "" : `${TURN_HEADING}\n\n${turn}`,
  ]
    .filter(Boolean)
    .join(PART_RULE);
  const usage = sumUsage(answers.map(billOf));
  const files = fileLists(preparation.fileOps);
  const omitted: CompactionSummary["omitted"] = {};
  for (const [at, { part, ids }] of parts.entries()) {
    const found = omittedEntries(answers[at]!.omitted, ids);
    if (found) omitted[part] = found;
  }
  const missingSections = answers.flatMap(({ missingSections: missing = [] }) => missing);
  return {
    summary: joinSummary(
      frameSummary(prose, preparation),
      { ...preparation.blocks, files },
      preparation.settings.contextWindow,
    ),
    prose,
    source: [...new Set(answers.map(({ source = options.summarizer.name }) => source))].join(" + "),
    model: answers[0]!.model,
    ...(usage ? { usage } : {}),
    attempts: answers.flatMap(({ attempts = [] }) => attempts),
    omitted,
    ...(missingSections.length > 0 ? { missingSections } : {}),
    ...files,
  };
}

/** Options of the requests that execute a plan. */
export interface SummaryOptions
  extends Pick<
    HistorySummaryOptions,
    "summarizer" | "customInstructions" | "signal" | "onProgress" | "onRequest"
  > {
  /**
   * Maximum number of simultaneous requests. Default 2: history and turn prefix in parallel; 1: one after the other.
   */
  concurrency?: number;
}

/**
 * Requests the summaries of all parts. When one request fails, the others are aborted, and the error has the usage of
 * all of them.
 */
async function askParts(
  parts: readonly SummaryPart[],
  preparation: CompactionPreparation,
  options: SummaryOptions,
): Promise<SummaryAnswer[]> {
  const { concurrency = 2, signal, onRequest, ...shared } = options;
  const answers: SummaryAnswer[] = [];
  const errors: SummaryError[] = [];
  const ask = async (part: SummaryPart, stop: AbortSignal): Promise<SummaryAnswer> => {
    try {
      const answer = await generateSummary(part.messages, {
        ...shared,
        ...part.ask,
        concurrency: Math.max(1, Math.floor(concurrency / parts.length)),
        signal: stop,
        onRequest: (draft: SummaryRequest) => {
          const styled = styleRequest(draft, preparation);
          return onRequest ? onRequest(styled) : styled;
        },
      });
      answers.push(answer);
      return answer;
    } catch (error) {
      errors.push(toSummarizerError(error, shared.summarizer.name, stop));
      throw error;
    }
  };
  try {
    return await runPool(parts, concurrency, signal, ask);
  } catch (error) {
    throw errors.length > 0 ? withBills(errors, answers) : error;
  }
}

/**
 * Returns a request whose transcript is rendered by the policy's `render`, or with the first of its limits of tool
 * results; the same request for a policy without either.
 */
function styleRequest(request: SummaryRequest, { style }: CompactionPreparation): SummaryRequest {
  const toolResultLimit = style?.toolResultLimits?.[0];
  if (style?.render) return { ...request, transcript: style.render(request.messages) };
  if (toolResultLimit === undefined) return request;
  return { ...request, transcript: renderTranscript(request.messages, { toolResultLimit }) };
}

/** Returns the first error, with the failed attempts of all parts and the usage of all of them. */
function withBills(errors: readonly SummaryError[], answers: readonly SummaryAnswer[]): SummaryError {
  const first = errors[0]!;
  return summaryError(first.code, first.message, {
    cause: first.cause ?? first,
    attempts: errors.flatMap(({ attempts }) => attempts),
    usage: sumUsage([...errors.map(({ usage }) => usage), ...answers.map(billOf)]),
    retryAfterMs: first.retryAfterMs,
  });
}

/** Options of {@link generateSummary}. All but the summarizer have a default. */
export type HistorySummaryOptions = Partial<RequestSummaryOptions> &
  Pick<RequestSummaryOptions, "summarizer">;

/**
 * Default limit of a summary in tokens: 0.8 of the default reserve. The rest of the reserve is for the answer that
 * follows the summary.
 */
const DEFAULT_MAX_OUTPUT = 13_107;

/**
 * Requests a summary of a conversation's older part: with the summarization prompt, or with the update prompt when
 * there is a previous summary. Throws an `EspalierError` when the request fails or the answer is not a valid summary.
 */
export function generateSummary(
  messages: readonly ContextMessage[],
  options: HistorySummaryOptions,
): Promise<SummaryAnswer> {
  return requestSummary(messages, {
    purpose: "history",
    instructions: options.previousSummary ? UPDATE_SUMMARIZATION_PROMPT : SUMMARIZATION_PROMPT,
    sections: HISTORY_SECTIONS,
    maxOutputTokens: DEFAULT_MAX_OUTPUT,
    ...options,
  });
}

/** Heading of the second part of a summary: the turn whose end is kept. */
const TURN_HEADING = "# Beginning of the current turn";

const PART_RULE = "\n\n---\n\n";

/** Tokens of the text that joins two parts. It counts toward the size of the summary. */
const JOINT_TOKENS = Math.ceil(`${PART_RULE}${TURN_HEADING}\n\n`.length / CHARS_PER_TOKEN);

/** Minimum share of the summary's tokens for each of its two parts (300 of 1,200 words for the turn). */
const LEAST_SHARE = 1 / 4;

/**
 * Returns the number of the summary's tokens for the beginning of a turn when there is also a history. The history
 * first gets as many tokens as the previous summary has. The other tokens are divided in proportion to the messages of
 * both parts. Each part gets at least a quarter.
 */
function turnPrefixTokens(
  { messagesToSummarize, turnPrefixMessages, previousSummary = "" }: CompactionPreparation,
  most: number,
): number {
  const sizeOf = (messages: readonly ContextMessage[]) =>
    messages.reduce((sum, message) => sum + estimateTokens(message), 1);
  const [history, turn] = [sizeOf(messagesToSummarize), sizeOf(turnPrefixMessages)];
  const free = Math.max(0, most - JOINT_TOKENS - previousSummary.length / CHARS_PER_TOKEN);
  const tokens = (free * turn) / (history + turn);
  return Math.floor(Math.min(Math.max(tokens, most * LEAST_SHARE), most * (1 - LEAST_SHARE)));
}

interface SummaryPart {
  part: "history" | "turnPrefix";
  messages: readonly ContextMessage[];
  /** Entry id of each message. */
  ids: readonly string[];
  ask: Partial<HistorySummaryOptions>;
}

/** Requests of a plan: one for the history, and one for the beginning of a turn that is cut. */
function summaryParts(preparation: CompactionPreparation, { maxOutputTokens }: Summarizer): SummaryPart[] {
  const { messagesToSummarize, turnPrefixMessages, previousSummary, historyIds, turnPrefixIds } = preparation;
  const { instructions, sections, systemPrompt } = preparation.style ?? {};
  const hasHistory = messagesToSummarize.length > 0;
  const hasTurnPrefix = turnPrefixMessages.length > 0;
  const hasBoth = hasHistory && hasTurnPrefix;
  // Two parts together are no longer than a single summary would be.
  const most = Math.min(preparation.maxSummaryTokens, hasBoth ? maxOutputTokens : Number.POSITIVE_INFINITY);
  const prefixTokens = Math.max(1, hasBoth ? turnPrefixTokens(preparation, most) : most);
  const ownRequest = newestRequest(turnPrefixMessages);
  const request = ownRequest ?? newestRequest(messagesToSummarize);
  const prompt = previousSummary ? UPDATE_SUMMARIZATION_PROMPT : SUMMARIZATION_PROMPT;
  const history = {
    ...(hasBoth ? { following: turnPrefixMessages } : {}),
    ...(hasBoth && request ? { instructions: `${prompt}\n\n${followingRequest(request)}` } : {}),
    maxOutputTokens: hasBoth ? Math.max(1, most - prefixTokens - JOINT_TOKENS) : most,
    ...(previousSummary ? { previousSummary } : {}),
    ...(instructions ? { instructions } : {}),
    ...(sections ? { sections } : {}),
    ...(systemPrompt ? { systemPrompt } : {}),
  };
  const parts: SummaryPart[] = [];
  if (hasHistory)
    parts.push({ part: "history", messages: messagesToSummarize, ids: historyIds, ask: history });
  if (!hasTurnPrefix) return parts;
  // The previous summary already describes the beginning of a turn. It is updated, so that there is no second one.
  if (!hasHistory && previousSummary?.includes(TURN_HEADING)) {
    return [{ part: "history", messages: turnPrefixMessages, ids: turnPrefixIds, ask: history }];
  }
  const ask = {
    purpose: "turn-prefix" as const,
    instructions:
      request && ownRequest === undefined
        ? `${TURN_PREFIX_SUMMARIZATION_PROMPT}\n\n${continuedRequest(request)}`
        : TURN_PREFIX_SUMMARIZATION_PROMPT,
    sections: TURN_PREFIX_SECTIONS,
    maxOutputTokens: prefixTokens,
  };
  parts.push({ part: "turnPrefix", messages: turnPrefixMessages, ids: turnPrefixIds, ask });
  return parts;
}

/** Maximum length of a user's request that is quoted in the request for another part, in characters. */
const LONGEST_REQUEST = 300;

const quoted = (request: string) => JSON.stringify(cutText(request, LONGEST_REQUEST, "head-tail"));

/** Names the following turn in the request for the history, so that the two summaries do not contradict each other. */
const followingRequest = (request: string) =>
  `The turn directly after this part began with this request of the user, and is summarized separately: ${quoted(request)}\nThat turn is not open and is not the next step: under Next Steps, name only what remains besides it.`;

/**
 * Names the user's earlier request in the prompt for a turn that has none of its own, for example one that begins with
 * "continue".
 */
const continuedRequest = (request: string) =>
  `The turn continues an earlier request of the user: ${quoted(request)}\nThat request is its Original Request.`;

/** First and last entry of a part of a path, null when the part has no messages, and its number of messages. */
export interface EntryRange {
  firstEntryId: string | null;
  lastEntryId: string | null;
  messages: number;
}

/** Record of a compaction in its `details`. A viewer can show the compaction from this record alone. */
export interface CompactionDetails
  extends Pick<CompactionSummary, "omitted" | "missingSections" | "readFiles" | "modifiedFiles"> {
  reason: CompactionReason;
  /** The policy's name. */
  policy: string;
  /**
   * Author of the summary: the name of the summarizer that answered (two names joined by ` + ` when the parts have
   * different ones), or `extension`.
   */
  source: string;
  /** Model of the summary; null when an extension wrote it. */
  model: { provider: string; modelId: string } | null;
  /** Range that the summary replaces. */
  covered: EntryRange;
  /** Range that the compaction kept. */
  kept: EntryRange;
  tokensBefore: number;
  tokensAfter: number;
  isSplitTurn: boolean;
  durationMs: number;
  /**
   * Number of automatic compactions in a row, including this one, without an answer of the model between them; 0 for a
   * manual one.
   */
  automaticInARow?: number;
  /** Windows that providers reported so far, in tokens by `provider/model`; absent when none was reported. */
  learntWindows?: Readonly<Record<string, number>>;
  /** Ids of the pinned entries of the path. */
  pinned?: string[];
  /** Current rules, including those that did not fit into the block. */
  rules?: Rule[];
  /** Current settings, so that a reader that starts at the file's end does not read entries before the compaction. */
  settings: { provider: string | null; modelId: string | null; thinkingLevel: string };
}

/** Returns the range of a list that has one entry id for each message. */
export function rangeOf(ids: readonly string[]): EntryRange {
  return { firstEntryId: ids[0] ?? null, lastEntryId: ids.at(-1) ?? null, messages: ids.length };
}

/** Content of the covered entries that the request for the summary did not show, by entry id. */
export interface OmittedEntries {
  /**
   * Maximum number of characters shown of each tool result, output and argument; null when they were shown whole, or
   * the summarizer reported no omission.
   */
  toolResultLimit: number | null;
  /** Entries that were shown in part, and the number of characters that were not shown. */
  shortened: { entryId: string; characters: number }[];
  /** Entries whose images or other media were replaced by a word, and the number of replaced media. */
  media: { entryId: string; count: number }[];
  /** Entries that were not shown at all. */
  dropped: string[];
  /** Ranges of the parts that were summarized separately; empty when one request was enough. */
  chunks: { firstEntryId: string; lastEntryId: string }[];
  /** Characters removed from the previous summary, the user's texts and the summaries of parts. */
  summaryCharacters: number;
}

/**
 * Converts the omissions of a request from indexes to entry ids; undefined when nothing was omitted.
 *
 * @param ids entry id of each message of the request; a message without one, added by a hook, gets an empty id
 * @param dropped entries that were left out before the request was made
 */
export function omittedEntries(
  omission: SummaryOmission | undefined,
  ids: readonly string[],
  dropped: readonly string[] = [],
): OmittedEntries | undefined {
  const {
    toolResultLimit = null,
    shortened = [],
    media = [],
    chunks = [],
    summaryCharacters = 0,
  } = omission ?? {};
  // A hook may have added messages to the request that have no entry.
  const idAt = (place: number): string => ids[place] ?? "";
  const told: OmittedEntries = {
    toolResultLimit,
    shortened: shortened.map(({ message, characters }) => ({ entryId: idAt(message), characters })),
    media: media.map(({ message, count }) => ({ entryId: idAt(message), count })),
    dropped: [...dropped, ...(omission?.dropped ?? []).map(idAt)],
    chunks: chunks.map(({ first, last }) => ({ firstEntryId: idAt(first), lastEntryId: idAt(last) })),
    summaryCharacters,
  };
  const lists = [told.shortened, told.media, told.dropped, told.chunks];
  return summaryCharacters > 0 || lists.some(({ length }) => length > 0) ? told : undefined;
}
