import type { AssistantMessage } from "@espalier/session-tree";

/**
 * Why a run ended without an answer.
 *
 * - `max-iterations`: the model asked for tools again and again; what they gave is in the session
 * - `overflow`: the request was too long for the model, also after a compaction; `breakdown` lists what cannot shrink
 * - `busy`: a run is going on
 * - `bad-input`: a blank prompt, which no provider takes
 * - `moved`: somebody went to another place of the session meanwhile; what came is where it belongs
 */
export type AgentErrorCode = "max-iterations" | "overflow" | "busy" | "bad-input" | "moved";

/** The one error class of this package. */
export class AgentError extends Error {
  override readonly name: string = "AgentError";
  readonly code: AgentErrorCode;
  /** What cannot shrink, in tokens. */
  readonly breakdown: Readonly<Record<string, number>> | undefined;
  constructor(
    code: AgentErrorCode,
    message: string,
    options: ErrorOptions & { breakdown?: Record<string, number> } = {},
  ) {
    super(message, options);
    this.code = code;
    this.breakdown = options.breakdown;
  }
}

/** The model asked for tools more often than allowed; everything it got is stored. */
export class MaxIterations extends AgentError {
  override readonly name = "MaxIterations";
  readonly iterations: number;
  constructor(iterations: number) {
    super(
      "max-iterations",
      `The model asked for tools ${iterations} times without an answer; go on with another prompt, or allow more iterations.`,
    );
    this.iterations = iterations;
  }
}

/** The error for a request that is too long although the context was compacted. Sizes in tokens. */
export function stillTooLong(
  { model, errorMessage }: AssistantMessage,
  breakdown: { systemAndTools: number; newestUserMessage: number; context: number; contextWindow: number },
): AgentError {
  const { systemAndTools, newestUserMessage, context, contextWindow } = breakdown;
  const said = errorMessage ? ` (${errorMessage})` : "";
  const message = `The request is too long for ${model}, and compacting does not help${said}: system prompt and tools take ${systemAndTools} tokens, the newest user message ${newestUserMessage}, the whole context ${context}, and the window has ${contextWindow}. Use a model with a larger window.`;
  return new AgentError("overflow", message, { breakdown });
}
