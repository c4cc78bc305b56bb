import type { AssistantMessage, RequestFormat } from "@espalier/session-tree";
import type { Summarizer } from "@espalier/summarizer";

/** What a model says while it answers. The last event is always `answer`. */
export type ModelEvent =
  | { type: "text"; text: string }
  | { type: "thinking"; text: string }
  /** The whole answer. One that failed or was aborted says so in `stopReason` and holds what there was of it. */
  | { type: "answer"; message: AssistantMessage };

export interface StreamOptions {
  signal: AbortSignal;
  /** The most tokens of the answer; default what the model can. */
  maxOutputTokens?: number;
}

/**
 * A model that answers requests. It never throws for what a provider does: a failure is an answer too, so that it can
 * be kept in the session.
 */
export interface Model<Request = unknown> {
  readonly provider: string;
  readonly modelId: string;
  /** Tokens. */
  readonly contextWindow: number;
  readonly maxOutputTokens: number;
  /** The shape of this provider's requests. */
  readonly format: RequestFormat<Request>;
  /** The same model as a writer of summaries; absent: the session's own writes them. */
  readonly summarizer?: Summarizer;
  stream(request: Request, options: StreamOptions): AsyncIterable<ModelEvent>;
}
