import { EspalierError } from "@espalier/jsonl-stream";
import type { AssistantMessage } from "@espalier/session-tree";

/** The model asked for tools more often than allowed; everything it got is stored. */
export class MaxIterations extends EspalierError {
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
): EspalierError {
  const { systemAndTools, newestUserMessage, context, contextWindow } = breakdown;
  const said = errorMessage ? ` (${errorMessage})` : "";
  const message = `The request is too long for ${model}, and compacting does not help${said}: system prompt and tools take ${systemAndTools} tokens, the newest user message ${newestUserMessage}, the whole context ${context}, and the window has ${contextWindow}. Use a model with a larger window.`;
  return new EspalierError("overflow", message, { breakdown });
}
