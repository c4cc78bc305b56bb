// Separate from ask.ts: providers and authors of providers use it without a turn.
import { type CompactionSettings, DEFAULT_COMPACTION_SETTINGS, effectiveWindow } from "@espalier/compaction";
import type { AssistantMessage, SessionContext, ToolDefinition, Usage } from "@espalier/session-tree";
import { type Summarizer, withWindow } from "@espalier/summarizer";
import type { CompactionRequest } from "../compaction/draft.ts";
import { overheadOf } from "../compaction/request.ts";
import type { Session } from "../session/session.ts";

/**
 * A model of a provider: the form of its requests, its limits, and the reading of its answers. `anthropic`, `openai`,
 * `openaiResponses` and `aiSdk` make one from a client of their SDK.
 */
export interface Provider<Params = unknown> {
  /** Name of the provider in entries, such as `anthropic`. */
  readonly provider: string;
  /** Name of the model at its provider. */
  readonly modelId: string;
  /** Maximum number of tokens of a request and its answer together. */
  readonly contextWindow: number;
  /** Maximum number of tokens of one answer. */
  readonly maxOutputTokens: number;
  /** Tokens of an answer as chosen by the caller. Absent: the session's reserve. */
  readonly answerTokens?: number | undefined;
  /** System prompt. Default: none. */
  readonly system?: string | undefined;
  /** Tools that the caller runs. Default: none. */
  readonly tools?: readonly ToolDefinition[] | undefined;
  /** Summarizer that uses the same model. Absent: the session's own summarizer is used. */
  readonly summarizer?: Summarizer | undefined;
  /** Writes a request in the SDK's form. */
  params(context: SessionContext, options: ParamsOptions): Params;
  /** Sends a request with the client. Returns an answer for {@link read}, or a promise of one. */
  send(params: Params, signal: AbortSignal): unknown;
  /**
   * Reads a stream of the SDK, or a whole answer; the last event is `answer`. Throws the SDK's errors, and an
   * EspalierError `bad-input` for a value that is not an answer of this SDK.
   */
  read(answer: unknown): AsyncIterable<AnswerEvent>;
}

/** Parts of a request other than the context. */
export interface ParamsOptions {
  /** The whole system prompt, including that of the provider value. */
  system?: string | undefined;
  /** All tools that the caller runs, including those of the provider value. */
  tools?: readonly ToolDefinition[] | undefined;
  /** Maximum number of tokens of the answer. */
  maxOutputTokens: number;
}

/** Events of an answer, in order. */
export type AnswerEvent =
  /** A piece of the answer, or of the model's thinking. */
  | { type: "text" | "thinking"; text: string }
  /** Usage of the answer so far, for an answer that is cut short. */
  | { type: "usage"; usage: Usage }
  /** The whole answer. */
  | { type: "answer"; message: AssistantMessage };

/** Limits for compactions while a provider answers. */
export interface Limits extends Pick<CompactionRequest, "summarizer" | "fallback"> {
  settings: CompactionSettings;
  /** Tokens of system prompt and tools, as the policy counts. */
  overheadTokens: number;
}

/**
 * Returns the limits of a request: the provider's window, or a smaller one that its errors in this session named; a
 * reserve for the answer; the provider's summarizer, unless the session names another.
 */
export function limitsOf(
  session: Session,
  provider: Provider,
  given: Pick<ParamsOptions, "system" | "tools">,
): Limits {
  const settings = { ...DEFAULT_COMPACTION_SETTINGS, ...session.options.compaction };
  return {
    settings: {
      ...settings,
      contextWindow: windowOf(session, provider),
      reserveTokens: Math.max(settings.reserveTokens, provider.answerTokens ?? 0),
    },
    overheadTokens: overheadOf(session.policy, promptOf(provider, given)),
    ...writerOf(session, provider),
  };
}

/** Returns a model's window in tokens: its own, or the smaller one that its provider's errors in this session named. */
export const windowOf = ({ window }: Session, provider: Provider): number =>
  effectiveWindow(provider.contextWindow, window.entries, provider);

/** Returns the provider as summarizer, with the extractive one as fallback; empty when the session names its own. */
export function writerOf(
  session: Session,
  provider: Provider,
): Pick<CompactionRequest, "summarizer" | "fallback"> {
  const { summarizer } = provider;
  if (!summarizer || session.options.summarizer) return {};
  return {
    summarizer: withWindow(summarizer, windowOf(session, provider)),
    fallback: session.options.fallback ?? true,
  };
}

/** Returns system prompt and tools of the provider value, and those of the caller after them. */
export function promptOf({ system, tools = [] }: Provider, given: Pick<ParamsOptions, "system" | "tools">) {
  return {
    system: [system, given.system].filter(Boolean).join("\n\n"),
    tools: [...tools, ...(given.tools ?? [])],
  };
}
