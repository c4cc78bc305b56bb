import type { AssistantMessage, RequestFormat } from "@espalier/session-tree";
import type { Summarizer } from "@espalier/summarizer";

/** Events of an answer. The last one is always `answer`. */
export type ModelEvent =
  /** A piece of the answer; so is the next of its thinking. */
  | { type: "text"; text: string }
  | { type: "thinking"; text: string }
  /** The whole answer. One that failed or was aborted says so in `stopReason` and holds what there was of it. */
  | { type: "answer"; message: AssistantMessage };

/** Limits of one request. */
export interface StreamOptions {
  /** An abort ends the answer: what there was of it comes as `answer`, with the stop reason `aborted`. */
  signal: AbortSignal;
  /** The most tokens of the answer; default what the model can. */
  maxOutputTokens?: number;
}

/**
 * A model that answers requests. It never throws for what a provider does: a failure is an answer too, so that it can
 * be kept in the session.
 */
export interface Model<Request = unknown> {
  /** As entries record it: `anthropic`. */
  readonly provider: string;
  /** As its provider names it. */
  readonly modelId: string;
  /** Tokens. */
  readonly contextWindow: number;
  /** The most tokens that one answer can have. */
  readonly maxOutputTokens: number;
  /** The shape of this provider's requests. */
  readonly format: RequestFormat<Request>;
  /** The same model as a writer of summaries; absent: the session's own writes them. */
  readonly summarizer?: Summarizer;
  /** Sends a request and tells what comes back; the last event is `answer`, whatever happens. */
  stream(request: Request, options: StreamOptions): AsyncIterable<ModelEvent>;
}
