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

/** Response of a scripted summarizer to one request; a string is a successful text. */
export interface ScriptedAnswer {
  text?: string;
  /** Stop reason. Default `stop`. */
  stopReason?: SummaryStopReason;
  usage?: Usage;
  /** Error that is thrown instead of an answer. */
  error?: Error;
  /** Milliseconds before the answer; an abort ends the wait. */
  delayMs?: number;
  /** Never answers: `until-aborted` ends by the signal, `for-ever` ignores it. */
  hangs?: "until-aborted" | "for-ever";
}

/**
 * A list of answers in order (each once, then the error `failed`), one answer for all requests, or a function of the
 * request and its number (from 1).
 */
export type Script =
  | string
  | ScriptedAnswer
  | readonly (string | ScriptedAnswer)[]
  | ((request: SummaryRequest, n: number) => string | ScriptedAnswer | Promise<string | ScriptedAnswer>);

/** Options of a scripted summarizer. */
export interface ScriptedSummarizerOptions {
  /** Name of the summarizer. Default `scripted`. */
  name?: string;
  /** Window in tokens. Default: no limit. */
  contextWindow?: number;
  /** Maximum number of tokens of an answer. Default 8,192. */
  maxOutputTokens?: number;
  /**
   * Measures requests, and refuses (`too-long`) those that exceed `contextWindow`, as a provider does. Default:
   * characters / 4.
   */
  tokens?: (request: SummaryRequest) => number;
  /** Counts for `promptTokens`. Default: the summarizer cannot count. */
  counts?: (request: SummaryRequest) => number;
}

/** A summarizer that follows a test's script, and stores its requests. */
export interface ScriptedSummarizer extends Summarizer {
  /** Requests received, oldest first. */
  readonly requests: SummaryRequest[];
  /** Events in order: `request 1`, `request 2`, `answer 2`, `failure 1`. */
  readonly events: string[];
  /** Maximum number of requests that were open at the same time. */
  readonly maxInFlight: number;
}

/** Makes a scripted summarizer. Without further options it accepts prompts of any size. */
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

/** Makes an answer without text. */
export const emptyAnswer = (usage?: Usage): ScriptedAnswer => ({ text: "", ...(usage && { usage }) });

/** Makes an answer that ended at the output limit. */
export const cutOffAnswer = (text = "## Goal\nHalf a", usage?: Usage): ScriptedAnswer => ({
  text,
  stopReason: "length",
  ...(usage && { usage }),
});

/** Makes a refusal by text, with the stop reason `stop`, which does not show the refusal. */
export const refusingAnswer = (usage?: Usage): ScriptedAnswer => ({
  text: "I'm sorry, but I can't help with that request.",
  ...(usage && { usage }),
});

/** Makes a tool call instead of a text. */
export const callingAnswer = (usage?: Usage): ScriptedAnswer => ({
  text: "Let me look at the file first.",
  stopReason: "toolUse",
  ...(usage && { usage }),
});

/** Makes an error instead of an answer. */
export const failingAnswer = (code: SummaryErrorCode, usage?: Usage): ScriptedAnswer => ({
  error: summaryError(code, `Scripted: ${code}.`, { usage }),
});

/** Makes a response that never comes. */
export const hangingAnswer = (
  how: NonNullable<ScriptedAnswer["hangs"]> = "until-aborted",
): ScriptedAnswer => ({ hangs: how });

/** Makes an answer twice as long as its transcript. */
export const largerAnswer = (request: SummaryRequest): ScriptedAnswer => ({
  text: request.transcript.repeat(2),
});
