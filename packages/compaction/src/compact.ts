import type { ContextMessage, Usage } from "@espalier/session-tree";
import {
  addUsage,
  type FailedAttempt,
  fileLists,
  renderTranscript,
  SummarizerError,
  type SummaryAnswer,
  type SummaryOmission,
  type SummaryRequest,
} from "@espalier/summarizer";
import type { CompactionPreparation } from "./compaction-plan.ts";
import { type GenerateSummaryOptions, generateSummary } from "./generate-summary.ts";
import {
  TURN_PREFIX_SECTIONS,
  TURN_PREFIX_SUMMARIZATION_PROMPT,
} from "./prompts/turn-prefix-summarization-prompt.ts";
import { joinSummary } from "./summary-blocks.ts";
import { frameSummary } from "./summary-style.ts";

export interface CompactOptions
  extends Pick<
    GenerateSummaryOptions,
    "summarizer" | "customInstructions" | "signal" | "onProgress" | "onRequest"
  > {
  /** Summaries asked for at the same time. Default 2: history and turn prefix in parallel; 1: one after the other. */
  concurrency?: number;
}

/** A summary that can be committed. */
export interface CompactResult {
  /** The whole text for the entry: the prose and what stands beside it. */
  summary: string;
  /** What the summarizer wrote. */
  prose: string;
  /** Who wrote it. */
  source: string;
  model: SummaryAnswer["model"];
  /** All that was billed, failed attempts included. */
  usage?: Usage;
  /** Attempts that failed before the answers. */
  attempts: FailedAttempt[];
  /** What the requests had to shorten or drop, by part. */
  omitted: { history?: SummaryOmission; turnPrefix?: SummaryOmission };
  readFiles: string[];
  modifiedFiles: string[];
}

/** What separates the summary of the history from that of the turn whose end is kept. */
const TURN_HEADING = "# Beginning of the current turn";

/** The share of a summary's room that the beginning of a turn may take. */
const TURN_PREFIX_SHARE = 0.5;

/**
 * Carries out a plan: asks for the summary of the history and, when a turn is cut, at the same time for that of its
 * beginning; joins them; adds what stands beside the prose. Writes nothing.
 *
 * @throws SummarizerError with all that was billed; one part failing fails the whole
 */
export async function compact(
  preparation: CompactionPreparation,
  options: CompactOptions,
): Promise<CompactResult> {
  const answered = await askAll(partsOf(preparation), preparation, options);
  const answerTo = (wanted: Part["part"]) => answered.find(({ part }) => part === wanted)?.answer;
  const history = answerTo("history");
  const turn = answerTo("turnPrefix");
  const prose = [history?.text ?? preparation.previousSummary, turn && `${TURN_HEADING}\n\n${turn.text}`]
    .filter(Boolean)
    .join("\n\n---\n\n");
  const answers = answered.map(({ answer }) => answer);
  const attempts = answers.flatMap((answer) => answer.attempts ?? []);
  const usage = [...answers, ...attempts].reduce<Usage | undefined>(
    (sum, { usage }) => addUsage(sum, usage),
    undefined,
  );
  const files = fileLists(preparation.fileOps);
  return {
    summary: joinSummary(
      frameSummary(prose, preparation),
      { ...preparation.blocks, files },
      preparation.settings.contextWindow,
    ),
    prose,
    source: answers[0]!.source ?? options.summarizer.name,
    model: answers[0]!.model,
    ...(usage ? { usage } : {}),
    attempts,
    omitted: {
      ...(history?.omitted ? { history: history.omitted } : {}),
      ...(turn?.omitted ? { turnPrefix: turn.omitted } : {}),
    },
    ...files,
  };
}

interface Part {
  part: "history" | "turnPrefix";
  messages: readonly ContextMessage[];
  ask: Partial<GenerateSummaryOptions>;
}

/** The requests that a plan takes. */
function partsOf({
  messagesToSummarize,
  turnPrefixMessages,
  previousSummary,
  maxSummaryTokens,
  style = {},
}: CompactionPreparation): Part[] {
  const parts: Part[] = [];
  const { instructions, sections, systemPrompt } = style;
  const update = {
    ...(previousSummary ? { previousSummary } : {}),
    ...(instructions ? { instructions } : {}),
    ...(sections ? { sections } : {}),
    ...(systemPrompt ? { systemPrompt } : {}),
  };
  if (messagesToSummarize.length > 0)
    parts.push({ part: "history", messages: messagesToSummarize, ask: update });
  if (turnPrefixMessages.length === 0) return parts;
  // The turn of the previous summary is still going on: its beginning is brought up to date instead of told twice.
  if (parts.length === 0 && previousSummary?.includes(TURN_HEADING)) {
    return [{ part: "history", messages: turnPrefixMessages, ask: update }];
  }
  const ask = {
    purpose: "turn-prefix" as const,
    instructions: TURN_PREFIX_SUMMARIZATION_PROMPT,
    sections: TURN_PREFIX_SECTIONS,
    maxOutputTokens: Math.max(1, Math.floor(maxSummaryTokens * TURN_PREFIX_SHARE)),
  };
  parts.push({ part: "turnPrefix", messages: turnPrefixMessages, ask });
  return parts;
}

interface Answered {
  part: Part["part"];
  answer: SummaryAnswer;
}

/** Asks for all parts, at once or one after the other. When one fails the others are aborted, and every bill is kept. */
async function askAll(
  parts: readonly Part[],
  preparation: CompactionPreparation,
  options: CompactOptions,
): Promise<Answered[]> {
  const { concurrency = 2, signal, onRequest, ...shared } = options;
  const failure = new AbortController();
  const stop = signal ? AbortSignal.any([signal, failure.signal]) : failure.signal;
  const answered: Answered[] = [];
  const errors: unknown[] = [];
  const askOne = async ({ part, messages, ask }: Part) => {
    if (failure.signal.aborted) return;
    const request = {
      ...shared,
      maxOutputTokens: preparation.maxSummaryTokens,
      ...ask,
      concurrency,
      signal: stop,
      onRequest: (request: SummaryRequest) => {
        const styled = inStyle(request, preparation);
        return onRequest ? onRequest(styled) : styled;
      },
    };
    try {
      answered.push({ part, answer: await generateSummary(messages, request) });
    } catch (error) {
      errors.push(error);
      failure.abort();
    }
  };
  if (concurrency === 1) for (const part of parts) await askOne(part);
  else await Promise.all(parts.map(askOne));
  if (errors.length > 0) throw withBills(errors, answered);
  return answered;
}

/** The request with the messages shown as the policy wants them shown. */
function inStyle(request: SummaryRequest, { style }: CompactionPreparation): SummaryRequest {
  const toolResultLimit = style?.toolResultLimits?.[0];
  if (style?.render) return { ...request, transcript: style.render(request.messages) };
  if (toolResultLimit === undefined) return request;
  return { ...request, transcript: renderTranscript(request.messages, { toolResultLimit }) };
}

/** The first error, with what the other parts were billed for nothing. */
function withBills(errors: readonly unknown[], answered: readonly Answered[]): unknown {
  const [first] = errors;
  if (!(first instanceof SummarizerError)) return first;
  const bills = [
    ...errors.map((error) => (error instanceof SummarizerError ? error.usage : undefined)),
    ...answered.map(({ answer }) => answer.usage),
  ];
  const usage = bills.reduce<Usage | undefined>((sum, bill) => addUsage(sum, bill), undefined);
  return new SummarizerError(first.code, first.message, {
    cause: first.cause ?? first,
    attempts: first.attempts,
    usage,
  });
}
