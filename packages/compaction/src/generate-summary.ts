import type { ContextMessage } from "@espalier/session-tree";
import {
  renderTranscript,
  type Summarizer,
  type SummaryAnswer,
  type SummaryProgress,
  type SummaryPurpose,
  type SummaryRequest,
  summarizeFitting,
  validateSummary,
} from "@espalier/summarizer";
import { HISTORY_SECTIONS, SUMMARIZATION_PROMPT } from "./prompts/summarization-prompt.ts";
import { UPDATE_SUMMARIZATION_PROMPT } from "./prompts/update-summarization-prompt.ts";

export interface GenerateSummaryOptions {
  summarizer: Summarizer;
  /** What the summary is for. Default `history`. */
  purpose?: SummaryPurpose;
  /** What to write. Default: the summarization prompt, or the update prompt where there is a previous summary. */
  instructions?: string;
  /** Headings the summary must have. Default those of the default prompts. */
  sections?: readonly string[];
  /** The system prompt of the request, for a feature with one of its own. */
  systemPrompt?: string;
  previousSummary?: string;
  /** What the user wants the summary to attend to. */
  customInstructions?: string;
  /** The most tokens of the summary. Default 13,107: 0.8 of the default reserve. */
  maxOutputTokens?: number;
  /** Parts of one summary asked for at the same time, where it takes several. Default 2. */
  concurrency?: number;
  signal?: AbortSignal;
  onProgress?: (progress: SummaryProgress) => void;
  /** Sees every request before it goes out, and may change it. */
  onRequest?: (request: SummaryRequest) => SummaryRequest | Promise<SummaryRequest>;
}

/** Asks for a summary of messages, whatever their size; the answer is valid, or this throws a `SummarizerError`. */
export async function generateSummary(
  messages: readonly ContextMessage[],
  options: GenerateSummaryOptions,
): Promise<SummaryAnswer> {
  const { summarizer, previousSummary, customInstructions, systemPrompt, signal, onProgress } = options;
  const draft: SummaryRequest = {
    purpose: options.purpose ?? "history",
    instructions:
      options.instructions ?? (previousSummary ? UPDATE_SUMMARIZATION_PROMPT : SUMMARIZATION_PROMPT),
    sections: options.sections ?? HISTORY_SECTIONS,
    messages,
    transcript: renderTranscript(messages),
    maxOutputTokens: options.maxOutputTokens ?? DEFAULT_MAX_OUTPUT,
    ...(previousSummary ? { previousSummary } : {}),
    ...(customInstructions ? { customInstructions } : {}),
    ...(systemPrompt ? { systemPrompt } : {}),
    ...(signal ? { signal } : {}),
    ...(onProgress ? { onProgress } : {}),
  };
  const request = options.onRequest ? await options.onRequest(draft) : draft;
  // A chain sizes for each of its members; a bare model has to be asked for what it can take.
  const answer = Number.isFinite(summarizer.contextWindow)
    ? await summarizeFitting(
        summarizer,
        request,
        options.concurrency === undefined ? {} : { concurrency: options.concurrency },
      )
    : await summarizer.summarize(request);
  validateSummary(answer, request);
  return { ...answer, text: answer.text.trim() };
}

const DEFAULT_MAX_OUTPUT = 13_107;
