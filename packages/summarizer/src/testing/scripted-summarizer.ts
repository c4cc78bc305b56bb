import type { SummaryErrorCode } from "@espalier/jsonl-stream";
import type { Usage } from "@espalier/session-tree";
import { promptSize } from "../chunks.ts";
import { sleep } from "../retry.ts";
import {
  type Summarizer,
  type SummaryAnswer,
  type SummaryRequest,
  type SummaryStopReason,
  summaryError,
} from "../summarizer.ts";
import { charsEstimator } from "../tokens.ts";

/** Response of a scripted summarizer to one request; a string is a text that ended well. */
export interface ScriptedAnswer {
  text?: string;
  /** `stop` by default. */
  stopReason?: SummaryStopReason;
  usage?: Usage;
  /** Thrown instead of an answer. */
  error?: Error;
  /** Milliseconds before the answer; an abort ends the wait. */
  delayMs?: number;
  /** Never answers: `until-aborted` listens to the signal, `for-ever` does not. */
  hangs?: "until-aborted" | "for-ever";
}

/** The answers in order (each once), one for all requests, or a function of the request and its number (from 1). */
export type Script =
  | string
  | ScriptedAnswer
  | readonly (string | ScriptedAnswer)[]
  | ((request: SummaryRequest, n: number) => string | ScriptedAnswer | Promise<string | ScriptedAnswer>);

/** Options of a scripted summarizer. */
export interface ScriptedSummarizerOptions {
  /** Default `scripted`. */
  name?: string;
  /** Tokens. Default: no limit. */
  contextWindow?: number;
  /** Default 8,192. */
  maxOutputTokens?: number;
  /** Refuses (`too-long`) what exceeds `contextWindow`, as a provider does, by this measure: characters / 4 by default. */
  tokens?: (request: SummaryRequest) => number;
  /** Counts for `promptTokens`; a summarizer that cannot count where absent. */
  counts?: (request: SummaryRequest) => number;
}

/** A summarizer that does what a test says, and remembers what it was asked. */
export interface ScriptedSummarizer extends Summarizer {
  /** Requests received, oldest first. */
  readonly requests: SummaryRequest[];
  /** `request 1`, `request 2`, `answer 2`, `failure 1`: what happened, in order. */
  readonly events: string[];
  /** The most requests that were open at the same time. */
  readonly maxInFlight: number;
}

/** Makes one. Without further options it takes prompts of any size. */
export function scriptedSummarizer(
  script: Script,
  options: ScriptedSummarizerOptions = {},
): ScriptedSummarizer {
  const { name = "scripted", contextWindow = Number.POSITIVE_INFINITY, maxOutputTokens = 8_192 } = options;
  const requests: SummaryRequest[] = [];
  const events: string[] = [];
  let inFlight = 0;
  let maxInFlight = 0;

  async function summarize(request: SummaryRequest): Promise<SummaryAnswer> {
    const n = requests.push(request);
    events.push(`request ${n}`);
    maxInFlight = Math.max(maxInFlight, ++inFlight);
    try {
      const answer = await perform(request, n);
      events.push(`answer ${n}`);
      return answer;
    } catch (error) {
      events.push(`failure ${n}`);
      throw error;
    } finally {
      inFlight--;
    }
  }

  async function perform(request: SummaryRequest, n: number): Promise<SummaryAnswer> {
    const size = options.tokens?.(request) ?? promptSize(request, charsEstimator);
    if (size + request.maxOutputTokens > contextWindow) {
      throw summaryError(
        "too-long",
        `${size} tokens and ${request.maxOutputTokens} of answer exceed ${contextWindow}.`,
      );
    }
    const given = await pick(script, request, n);
    const answer = typeof given === "string" ? { text: given } : given;
    if (answer.hangs) await hang(answer.hangs, request.signal);
    if (answer.delayMs !== undefined) await sleep(answer.delayMs, request.signal);
    if (answer.error) throw answer.error;
    const { text = "", stopReason = "stop", usage } = answer;
    request.onProgress?.({ outputTokens: charsEstimator.text(text), elapsedMs: answer.delayMs ?? 0 });
    return { text, stopReason, model: { provider: "scripted", modelId: name }, ...(usage && { usage }) };
  }

  const { counts } = options;
  return {
    name,
    contextWindow,
    maxOutputTokens,
    requests,
    events,
    get maxInFlight() {
      return maxInFlight;
    },
    summarize,
    ...(counts && { promptTokens: async (request: SummaryRequest) => counts(request) }),
  };
}

function pick(script: Script, request: SummaryRequest, n: number) {
  if (typeof script === "function") return script(request, n);
  if (typeof script === "string" || !isList(script)) return script;
  const answer = script[n - 1];
  if (answer !== undefined) return answer;
  throw summaryError("failed", `The script has ${script.length} answers, and this is request ${n}.`);
}

const isList = (script: Script): script is readonly (string | ScriptedAnswer)[] => Array.isArray(script);

async function hang(
  how: NonNullable<ScriptedAnswer["hangs"]>,
  signal: AbortSignal | undefined,
): Promise<void> {
  if (how === "for-ever") await new Promise(() => undefined);
  await sleep(2 ** 30, signal);
}

/** An answer without text. */
export const emptyAnswer = (usage?: Usage): ScriptedAnswer => ({ text: "", ...(usage && { usage }) });

/** An answer that ended at the output limit. */
export const cutOffAnswer = (text = "## Goal\nHalf a", usage?: Usage): ScriptedAnswer => ({
  text,
  stopReason: "length",
  ...(usage && { usage }),
});

/** A refusal in words, with a stop reason that does not show it. */
export const refusingAnswer = (usage?: Usage): ScriptedAnswer => ({
  text: "I'm sorry, but I can't help with that request.",
  ...(usage && { usage }),
});

/** A tool call instead of a text. */
export const callingAnswer = (usage?: Usage): ScriptedAnswer => ({
  text: "Let me look at the file first.",
  stopReason: "toolUse",
  ...(usage && { usage }),
});

/** An error instead of an answer. */
export const failingAnswer = (code: SummaryErrorCode, usage?: Usage): ScriptedAnswer => ({
  error: summaryError(code, `Scripted: ${code}.`, { usage }),
});

/** Never an answer. */
export const hangingAnswer = (
  how: NonNullable<ScriptedAnswer["hangs"]> = "until-aborted",
): ScriptedAnswer => ({ hangs: how });

/** An answer twice as long as the transcript it is made of. */
export const largerAnswer = (request: SummaryRequest): ScriptedAnswer => ({
  text: request.transcript.repeat(2),
});
