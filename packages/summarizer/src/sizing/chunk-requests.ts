import { renderMessage } from "../rendered-message.ts";
import type { SummaryRequest } from "../summarizer.ts";
import { SummarizerError } from "../summarizer-error.ts";
import type { TokenEstimator } from "../tokens/token-estimator.ts";
import { joinTranscript } from "../transcript.ts";
import { chunkInstructions } from "./chunk-prompts.ts";
import { largest } from "./cut-to-tokens.ts";
import { type FullFitOptions, promptSize, roomFor } from "./fit-options.ts";
import { describeOmission, type PlacedMessage, type SummaryOmission } from "./summary-omission.ts";

/** The least room for the transcript of a part that is worth a request, in tokens. */
const LEAST_ROOM = 100;

/** A message with the tokens its rendering takes. */
type SizedMessage = PlacedMessage & { size: number };

/**
 * Splits a request into parts that fit; the oldest messages beyond the most parts are dropped.
 * Throws `too-long` where not one message can be made small enough to be shown.
 */
export function splitRequest(
  request: SummaryRequest,
  options: FullFitOptions,
): { requests: SummaryRequest[]; omitted: SummaryOmission } {
  const { estimator, maxChunks } = options;
  const room = partRoom(request, options);
  const limit = options.toolResultLimits.at(-1) ?? 0;
  const placed = request.messages.map((message, index) => shrink({ index, message }, limit, room, estimator));
  const shown = placed.filter((piece) => piece.text !== "" && piece.size <= room);
  if (shown.length === 0) {
    throw new SummarizerError(
      "too-long",
      `No message can be shortened to the ${Math.floor(room)} tokens that a window of ${options.contextWindow} leaves for the transcript; take a summarizer with a larger window.`,
    );
  }
  const packed = pack(steps(shown, room), room);
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

/** Tokens for the messages of one part: the prompt without what a part is asked. */
function partRoom(request: SummaryRequest, options: FullFitOptions): number {
  const frame = partRequest(request, [], 0, options.maxChunks, new Set([0]), options);
  // The numbers in a note and in the instructions may have more digits than here.
  const room = roomFor(request, options).prompt - promptSize(frame, options.estimator) - 32;
  if (room >= LEAST_ROOM) return room;
  throw new SummarizerError(
    "too-long",
    `A window of ${options.contextWindow} tokens leaves no room for a transcript beside the instructions; take a summarizer with a larger window.`,
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
  const { previousSummary, systemPrompt, ...rest } = request;
  const { output, prompt } = roomFor(request, options);
  return {
    ...rest,
    purpose: "chunk",
    instructions: chunkInstructions(at + 1, parts),
    sections: [],
    messages: pieces.map(({ message }) => message),
    transcript: joinTranscript(pieces, note),
    // Notes on several parts have to fit into one request again.
    maxOutputTokens: Math.max(1, Math.min(output, Math.floor(prompt / 4))),
  };
}

/** A message rendered small enough for a part, if it can be: its texts are cut in the middle until it is. */
function shrink(
  { index, message }: Pick<PlacedMessage, "index" | "message">,
  limit: number,
  room: number,
  estimator: TokenEstimator,
): SizedMessage {
  const at = (toolResultLimit: number, textLimit: number): SizedMessage => {
    const rendered = renderMessage(message, { toolResultLimit, textLimit });
    return {
      index,
      message,
      ...rendered,
      size: rendered.text === "" ? 0 : estimator.text(rendered.text) + 1,
    };
  };
  const whole = at(limit, Number.POSITIVE_INFINITY);
  if (whole.size <= room) return whole;
  const characters = largest(whole.text.length, (most) => at(Math.min(limit, most), most).size <= room);
  return at(Math.min(limit, characters), characters);
}

/** Messages that stay together, and the tokens they take. */
interface Group {
  pieces: SizedMessage[];
  size: number;
}

/** A call and its results stay together where that fits. */
function steps(pieces: readonly SizedMessage[], room: number): Group[] {
  const groups: Group[] = [];
  for (const piece of pieces) {
    const last = groups.at(-1);
    if (piece.message.role === "toolResult" && last && last.size + piece.size <= room) {
      last.pieces.push(piece);
      last.size += piece.size;
    } else groups.push({ pieces: [piece], size: piece.size });
  }
  return groups;
}

/** As many groups into one part as fit, in order. */
function pack(groups: readonly Group[], room: number): SizedMessage[][] {
  const parts: Group[] = [];
  for (const { pieces, size } of groups) {
    const last = parts.at(-1);
    if (last && last.size + size <= room) {
      last.pieces.push(...pieces);
      last.size += size;
    } else parts.push({ pieces: [...pieces], size });
  }
  return parts.map(({ pieces }) => pieces);
}

/** The parts as ranges of indexes without gaps, from the first message shown to the last message of all. */
function ranges(parts: readonly PlacedMessage[][], messages: number): { first: number; last: number }[] {
  const firsts = parts.map((pieces) => pieces[0]!.index);
  return firsts.map((first, at) => ({ first, last: (firsts[at + 1] ?? messages) - 1 }));
}
