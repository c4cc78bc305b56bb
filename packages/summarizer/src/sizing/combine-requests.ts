import type { ContextMessage } from "@espalier/session-tree";
import type { SummaryRequest } from "../summarizer.ts";
import { SummarizerError } from "../summarizer-error.ts";
import { renderTranscript } from "../transcript.ts";
import { COMBINE_PREAMBLE, MERGE_INSTRUCTIONS } from "./chunk-prompts.ts";
import { cutToTokens } from "./cut-to-tokens.ts";
import { type FullFitOptions, promptSize, roomFor } from "./fit-options.ts";

/** The least that a note must be able to say, in tokens. */
const LEAST_NOTE = 50;

/** The next step from notes on parts to one summary. */
export interface CombineStep {
  /** What to ask; one request with `isLast`, else one for each group of notes. */
  requests: SummaryRequest[];
  /** Notes that need no request because they are alone in their group; they follow the answers. */
  carried: string[];
  /** True when the answer is the summary. */
  isLast: boolean;
  /** Characters cut out of notes that were too large. */
  cutCharacters: number;
}

/**
 * Plans how notes become one summary: at once where all of them fit beside the instructions and the previous summary,
 * else by merging neighbours first. Each step has fewer notes than the one before.
 */
export function combineNotes(
  request: SummaryRequest,
  notes: readonly string[],
  options: FullFitOptions,
): CombineStep {
  const { estimator } = options;
  const { prompt } = roomFor(request, options);
  const most = roomForNote(request, options);
  const cuts = notes.map((note) => cutToTokens(note, most, estimator));
  const texts = cuts.map(({ text }) => text);
  const cutCharacters = cuts.reduce((sum, { leftOut }) => sum + leftOut, 0);
  const last = combineRequest(request, texts, true, options);
  if (texts.length <= 1 || promptSize(last, estimator) <= prompt) {
    return { requests: [last], carried: [], isLast: true, cutCharacters };
  }
  const groups: string[][] = [];
  for (const text of texts) {
    const group = groups.at(-1);
    const grown = group && combineRequest(request, [...group, text], false, options);
    if (group && grown && (group.length < 2 || promptSize(grown, estimator) <= prompt)) group.push(text);
    else groups.push([text]);
  }
  const alone = groups.at(-1)?.length === 1 ? (groups.pop() ?? []) : [];
  return {
    requests: groups.map((group) => combineRequest(request, group, false, options)),
    carried: alone,
    isLast: false,
    cutCharacters,
  };
}

/**
 * Tokens for one note when notes are combined: two of the largest must fit into one request of either kind, or merging
 * would never end. Throws `too-long` where a note could say nothing.
 */
export function roomForNote(request: SummaryRequest, options: FullFitOptions): number {
  const { estimator } = options;
  const frames = [true, false].map((isLast) =>
    promptSize(combineRequest(request, [], isLast, options), estimator),
  );
  const noteFrame = estimator.text(renderTranscript([asMessage("x")]));
  const most = Math.floor((roomFor(request, options).prompt - Math.max(...frames)) / 2) - noteFrame;
  if (most >= LEAST_NOTE) return most;
  throw new SummarizerError(
    "too-long",
    `A window of ${options.contextWindow} tokens leaves no room for notes beside the instructions; take a summarizer with a larger window.`,
  );
}

function combineRequest(
  request: SummaryRequest,
  notes: readonly string[],
  isLast: boolean,
  options: FullFitOptions,
): SummaryRequest {
  const { output, prompt } = roomFor(request, options);
  const messages = notes.map(asMessage);
  const common = {
    ...request,
    purpose: "combine" as const,
    messages,
    transcript: renderTranscript(messages),
  };
  if (isLast) {
    return {
      ...common,
      instructions: `${COMBINE_PREAMBLE}\n\n${request.instructions}`,
      maxOutputTokens: output,
    };
  }
  const { previousSummary, systemPrompt, ...rest } = common;
  return {
    ...rest,
    instructions: MERGE_INSTRUCTIONS,
    sections: [],
    maxOutputTokens: Math.max(1, Math.min(output, Math.floor(prompt / 4))),
  };
}

/** Notes on a part, in the shape in which a summary stands in a context. */
const asMessage = (summary: string): ContextMessage => ({
  role: "compactionSummary",
  summary,
  tokensBefore: 0,
  timestamp: 0,
});
