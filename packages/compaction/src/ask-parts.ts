import type { Usage } from "@espalier/session-tree";
import {
  addUsage,
  renderTranscript,
  SummarizerError,
  type SummaryAnswer,
  type SummaryRequest,
  toSummarizerError,
} from "@espalier/summarizer";
import type { CompactionPreparation } from "./compaction-plan.ts";
import { type GenerateSummaryOptions, generateSummary } from "./generate-summary.ts";
import type { SummaryPart } from "./summary-parts.ts";

/** How the parts of a summary are asked for. */
export interface AskOptions
  extends Pick<
    GenerateSummaryOptions,
    "summarizer" | "customInstructions" | "signal" | "onProgress" | "onRequest"
  > {
  /** Summaries asked for at the same time. Default 2: history and turn prefix in parallel; 1: one after the other. */
  concurrency?: number;
}

/** A part and what was answered to it. */
export interface AnsweredPart {
  part: SummaryPart;
  answer: SummaryAnswer;
}

/** Asks for all parts, at once or one after the other. When one fails the others are aborted, and every bill is kept. */
export async function askParts(
  parts: readonly SummaryPart[],
  preparation: CompactionPreparation,
  options: AskOptions,
): Promise<AnsweredPart[]> {
  const { concurrency = 2, signal, onRequest, ...shared } = options;
  const failure = new AbortController();
  const stop = signal ? AbortSignal.any([signal, failure.signal]) : failure.signal;
  const answers = new Map<SummaryPart, SummaryAnswer>();
  const errors: SummarizerError[] = [];
  const lanes = Math.max(1, Math.floor(concurrency / parts.length));
  const ask = async (part: SummaryPart) => {
    if (failure.signal.aborted) return;
    const request = {
      ...shared,
      ...part.ask,
      concurrency: lanes,
      signal: stop,
      onRequest: (draft: SummaryRequest) => {
        const styled = inStyle(draft, preparation);
        return onRequest ? onRequest(styled) : styled;
      },
    };
    try {
      answers.set(part, await generateSummary(part.messages, request));
    } catch (error) {
      errors.push(toSummarizerError(error, shared.summarizer.name, stop));
      failure.abort();
    }
  };
  if (concurrency <= 1) for (const part of parts) await ask(part);
  else await Promise.all(parts.map(ask));
  if (errors.length > 0) throw withBills(errors, [...answers.values()]);
  return parts.map((part) => ({ part, answer: answers.get(part)! }));
}

/** All that an answer was billed, attempts that failed before it included. */
export function billOf({
  usage,
  attempts = [],
}: Pick<SummaryAnswer, "usage" | "attempts">): Usage | undefined {
  return [{ usage }, ...attempts].reduce<Usage | undefined>(
    (sum, { usage }) => addUsage(sum, usage),
    undefined,
  );
}

/** The request with the messages shown as the policy wants them shown. */
function inStyle(request: SummaryRequest, { style }: CompactionPreparation): SummaryRequest {
  const toolResultLimit = style?.toolResultLimits?.[0];
  if (style?.render) return { ...request, transcript: style.render(request.messages) };
  if (toolResultLimit === undefined) return request;
  return { ...request, transcript: renderTranscript(request.messages, { toolResultLimit }) };
}

/** The first error, with what the other parts were billed for nothing. */
function withBills(errors: readonly SummarizerError[], answers: readonly SummaryAnswer[]): SummarizerError {
  const first = errors[0]!;
  const bills = [...errors.map(({ usage }) => usage), ...answers.map(billOf)];
  return new SummarizerError(first.code, first.message, {
    cause: first.cause ?? first,
    attempts: errors.flatMap(({ attempts }) => attempts),
    usage: bills.reduce<Usage | undefined>((sum, bill) => addUsage(sum, bill), undefined),
    retryAfterMs: first.retryAfterMs,
  });
}
