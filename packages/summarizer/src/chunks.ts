import type { ContextMessage } from "@espalier/session-tree";
import {
  describeOmission,
  type PlacedMessage,
  type SummaryOmission,
  type SummaryRequest,
  summaryError,
  summaryPrompt,
} from "./summarizer.ts";
import { type TokenEstimator, upperBoundEstimator } from "./tokens.ts";
import { type Cut, cut, escapeText, joinTranscript, renderMessage, renderTranscript } from "./transcript.ts";

/** Minimum length of a note in tokens. */
const LEAST_NOTE = 50;

/**
 * Plans the next step from notes to one summary: a single request (`last`) when all notes fit next to the instructions
 * and the previous summary, else requests that merge neighbouring notes (`merges`). Each step has fewer notes than the
 * one before. `cutCharacters` is the number of characters cut out of notes that were too large.
 */
export function combineNotes(request: SummaryRequest, notes: readonly string[], options: FullFitOptions) {
  const { estimator } = options;
  const { prompt } = roomFor(request, options);
  const most = roomForNote(request, options);
  const cuts = notes.map((note) => cutToTokens(note, most, estimator));
  const cutCharacters = cuts.reduce((sum, { leftOut }) => sum + leftOut, 0);
  const ask = (texts: readonly Cut[], isLast: boolean) =>
    combineRequest(
      request,
      texts.map(({ text }) => text),
      isLast,
      options,
    );
  const last = ask(cuts, true);
  if (cuts.length <= 1 || promptSize(last, estimator) <= prompt) return { last, cutCharacters };
  const groups: Cut[][] = [];
  for (const text of cuts) {
    const group = groups.at(-1);
    if (group && (group.length < 2 || promptSize(ask([...group, text], false), estimator) <= prompt))
      group.push(text);
    else groups.push([text]);
  }
  return { merges: groups.map((group) => ask(group, false)), cutCharacters };
}

/**
 * Returns the maximum number of tokens of one note when notes are combined. Two of the largest notes must fit into one
 * request of either kind, otherwise merging would never end. Throws `too-long` when a note would be too short to be
 * useful.
 */
export function roomForNote(request: SummaryRequest, options: FullFitOptions): number {
  const { estimator } = options;
  const frames = [true, false].map((isLast) =>
    promptSize(combineRequest(request, [], isLast, options), estimator),
  );
  const noteFrame = estimator.text(renderTranscript([asMessage("x")]));
  const most = Math.floor((roomFor(request, options).prompt - Math.max(...frames)) / 2) - noteFrame;
  if (most >= LEAST_NOTE) return most;
  throw summaryError(
    "too-long",
    `A window of ${options.contextWindow} tokens leaves no room for notes beside the instructions; choose a summarizer with a larger window.`,
  );
}

function combineRequest(
  request: SummaryRequest,
  notes: readonly string[],
  isLast: boolean,
  options: FullFitOptions,
): SummaryRequest {
  const messages = notes.map(asMessage);
  const parts = { purpose: "combine" as const, messages, transcript: renderTranscript(messages) };
  if (!isLast) return notesRequest(request, { ...parts, instructions: MERGE_INSTRUCTIONS }, options);
  const instructions = `${COMBINE_PREAMBLE}\n\n${request.instructions}`;
  return { ...request, ...parts, instructions, maxOutputTokens: roomFor(request, options).output };
}

/** Returns a request for notes, which another request combines. */
function notesRequest(
  { previousSummary, systemPrompt, ...request }: SummaryRequest,
  parts: Pick<SummaryRequest, "purpose" | "instructions" | "messages" | "transcript">,
  options: FullFitOptions,
): SummaryRequest {
  const { output, prompt } = roomFor(request, options);
  // Notes on several parts have to fit into one request later.
  const maxOutputTokens = Math.max(1, Math.min(output, Math.floor(prompt / 4)));
  return { ...request, ...parts, sections: [], maxOutputTokens };
}

/** Converts notes on a part to a message, in the form of a summary in a context. */
const asMessage = (summary: string): ContextMessage => ({
  role: "compactionSummary",
  summary,
  tokensBefore: 0,
  timestamp: 0,
});

/** Minimum room for the transcript of a part, in tokens. */
const LEAST_ROOM = 100;

/** A message with the number of tokens of its rendering. */
type SizedMessage = PlacedMessage & { size: number };

/**
 * Splits a request into parts that fit; the oldest messages beyond the maximum number of parts are dropped. Throws
 * `too-long` when no message can be shortened enough, or the instructions leave no room for a transcript.
 */
export function splitRequest(
  request: SummaryRequest,
  options: FullFitOptions,
): { requests: SummaryRequest[]; omitted: SummaryOmission } {
  const { estimator, maxChunks } = options;
  const room = partRoom(request, options);
  const limit = options.toolResultLimits.at(-1) ?? 0;
  const placed = request.messages.map((message, index) => shrink(message, index, limit, room, estimator));
  const shown = placed.filter((piece) => piece.text !== "" && piece.size <= room);
  if (shown.length === 0) {
    throw summaryError(
      "too-long",
      `No message can be shortened to the ${Math.floor(room)} tokens that a window of ${options.contextWindow} leaves for the transcript; choose a summarizer with a larger window.`,
    );
  }
  const packed = pack(shown, room);
  const kept = packed.slice(-Math.max(1, maxChunks));
  const dropped = new Set(placed.filter(({ size }) => size > room).map(({ index }) => index));
  for (const { index } of packed.slice(0, packed.length - kept.length).flat()) dropped.add(index);
  const omitted = describeOmission(placed, dropped, limit);
  omitted.chunks = ranges(kept, request.messages.length);
  return {
    requests: kept.map((pieces, at) => partRequest(request, pieces, at, kept.length, dropped, options)),
    omitted,
  };
}

/** Returns the tokens for the messages of one part: the room of the prompt less the instructions of the part. */
function partRoom(request: SummaryRequest, options: FullFitOptions): number {
  const frame = partRequest(request, [], 0, options.maxChunks, new Set([0]), options);
  // The numbers in a note and in the instructions may have more digits than here.
  const room = roomFor(request, options).prompt - promptSize(frame, options.estimator) - 32;
  if (room >= LEAST_ROOM) return room;
  throw summaryError(
    "too-long",
    `A window of ${options.contextWindow} tokens leaves no room for a transcript beside the instructions; choose a summarizer with a larger window.`,
  );
}

function partRequest(
  request: SummaryRequest,
  pieces: readonly PlacedMessage[],
  at: number,
  parts: number,
  dropped: ReadonlySet<number>,
  options: FullFitOptions,
): SummaryRequest {
  const missing = dropped.size === 1 ? "1 message is" : `${dropped.size} messages are`;
  const note = at === 0 && dropped.size > 0 ? `${missing} not shown` : undefined;
  const shown = {
    purpose: "chunk" as const,
    instructions: chunkInstructions(at + 1, parts),
    messages: pieces.map(({ message }) => message),
    transcript: joinTranscript(pieces, note),
  };
  return notesRequest(request, shown, options);
}

/** Renders a message small enough for a part, if possible: its texts are cut in the middle until it fits. */
function shrink(
  message: ContextMessage,
  index: number,
  limit: number,
  room: number,
  estimator: TokenEstimator,
): SizedMessage {
  const within = (textLimit: number): SizedMessage => {
    const rendered = renderMessage(message, { toolResultLimit: Math.min(limit, textLimit), textLimit });
    const size = rendered.text === "" ? 0 : estimator.text(rendered.text) + 1;
    return { index, message, ...rendered, size };
  };
  const whole = within(Number.POSITIVE_INFINITY);
  if (whole.size <= room) return whole;
  return within(largest(whole.text.length, (most) => within(most).size <= room));
}

/** Packs as many messages into each part as fit, in order. Results stay in the part of their call if there is room. */
function pack(pieces: readonly SizedMessage[], room: number): SizedMessage[][] {
  const parts: SizedMessage[][] = [];
  let left = 0;
  for (let at = 0; at < pieces.length; ) {
    const start = at;
    let size = 0;
    do size += pieces[at++]!.size;
    while (pieces[at]?.message.role === "toolResult" && size + pieces[at]!.size <= room);
    const together = pieces.slice(start, at);
    if (size <= left) parts.at(-1)!.push(...together);
    else {
      parts.push(together);
      left = room;
    }
    left -= size;
  }
  return parts;
}

/** Returns the parts as ranges of indexes without gaps, from the first shown message to the last message of all. */
function ranges(parts: readonly PlacedMessage[][], messages: number): { first: number; last: number }[] {
  const firsts = parts.map((pieces) => pieces[0]!.index);
  return firsts.map((first, at) => ({ first, last: (firsts[at + 1] ?? messages) - 1 }));
}

/** Returns the prompt for one part of a conversation that is too long for one request. */
function chunkInstructions(part: number, parts: number): string {
  return [
    `The transcript above is part ${part} of ${parts} of one conversation. Write notes on this part, for somebody who will write one summary from the notes on all parts and will not see the transcript.`,
    "Say what the user asked for and every condition they set, in their words; what was done and what came of it; what failed and why; what was decided and for which reason; what was still open at the end of this part.",
    "Keep exact paths, identifiers, commands, numbers and error messages. Leave out what led nowhere and taught nothing.",
  ].join("\n");
}

/** Prompt for notes that together are still too long for the summary. */
const MERGE_INSTRUCTIONS = [
  "The transcript above holds notes on consecutive parts of one conversation, oldest first. Merge them into one set of notes: later facts replace earlier ones, nothing is said twice.",
  "Keep the user's wishes in their words, and exact paths, identifiers, commands, numbers and error messages.",
].join("\n");

/** Text before the instructions when the summary itself is written from notes. */
const COMBINE_PREAMBLE =
  "The transcript above holds notes on consecutive parts of one conversation, oldest first. Take them for the conversation itself and do the following with it.";

/**
 * Reports the sum of the progress of several calls. The returned function makes the `onProgress` field for the request
 * of the next call; no field without `report`.
 */
export function sharedProgress(
  report: SummaryRequest["onProgress"],
): () => Pick<SummaryRequest, "onProgress"> {
  const startedAt = Date.now();
  const tokens: number[] = [];
  return () => {
    if (!report) return {};
    const call = tokens.push(0) - 1;
    return {
      onProgress(progress) {
        tokens[call] = progress.outputTokens;
        const outputTokens = tokens.reduce((sum, count) => sum + count, 0);
        report({ outputTokens, elapsedMs: Date.now() - startedAt });
      },
    };
  };
}

/** Window of a request, and the means to make the request smaller. */
export interface FitOptions {
  /** Maximum number of tokens of one request and its answer together. */
  contextWindow: number;
  /** Maximum number of tokens of one answer. Default: the request's own limit. */
  maxOutputTokens?: number;
  /**
   * Estimator of a prompt's size. Default: {@link upperBoundEstimator}, with which a request that fits here always
   * fits.
   */
  estimator?: TokenEstimator;
  /** Limits of tool results in characters, which are tried in this order before a request is split. */
  toolResultLimits?: readonly number[];
  /**
   * Maximum number of parts; the oldest messages beyond them are dropped. Default 24, which keeps the wait acceptable.
   */
  maxChunks?: number;
}

/** Tokens that are kept free for roles, separators and other text that a provider adds. */
export const RESERVE = 64;

/** {@link FitOptions} with every default filled in. */
export type FullFitOptions = Required<FitOptions>;

/** Maximum number of shown characters of a tool result, from the first attempt to the last. */
const DEFAULT_TOOL_RESULT_LIMITS = [2_000, 500, 120] as const;

export function fillFitOptions(options: FitOptions): FullFitOptions {
  return {
    maxOutputTokens: Number.POSITIVE_INFINITY,
    estimator: upperBoundEstimator,
    toolResultLimits: DEFAULT_TOOL_RESULT_LIMITS,
    maxChunks: 24,
    ...options,
  };
}

/**
 * Returns the tokens of the answer and of the prompt. An answer has at most a quarter of the window, so that a small model
 * still has room for the prompt.
 */
export function roomFor(request: SummaryRequest, options: FullFitOptions) {
  const { contextWindow, maxOutputTokens } = options;
  const most = Math.min(request.maxOutputTokens, maxOutputTokens, contextWindow / 4);
  const output = Math.max(1, Math.floor(most));
  return { output, prompt: contextWindow - output - RESERVE };
}

/** Returns the size of a request's prompt by the estimator. */
export function promptSize(request: SummaryRequest, estimator: TokenEstimator): number {
  const { system, user } = summaryPrompt(request);
  return estimator.overhead + estimator.text(system) + estimator.text(user);
}

/** Returns the longest beginning and end of a text that together take at most `tokens` after escaping. */
export function cutToTokens(text: string, tokens: number, estimator: TokenEstimator): Cut {
  const fits = (candidate: string) => estimator.text(escapeText(candidate)) <= tokens;
  const limit = largest(text.length, (characters) => fits(cut(text, characters, "head-tail").text));
  return cut(text, limit, "head-tail");
}

/**
 * Returns the largest whole number from 0 to `most` for which `holds` is true, if it is true for all smaller ones; 0 if
 * there is none.
 */
function largest(most: number, holds: (value: number) => boolean): number {
  let low = 0;
  let high = Math.max(0, most);
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (holds(middle)) low = middle;
    else high = middle - 1;
  }
  return low;
}
