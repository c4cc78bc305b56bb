import type { AssistantBlock, AssistantMessage } from "@espalier/session-tree";
import type { Model, ModelEvent } from "./model.ts";
import { addPiece } from "./partial-answer.ts";
import { untilAborted } from "./until-aborted.ts";

/** How long a model may take to end by itself after an abort, in milliseconds: it knows best what it was billed. */
const GRACE_MS = 300;

/**
 * Streams one answer, telling of its pieces. Whatever happens becomes an answer: what a model throws one of
 * `stopReason` `error`, an abort one of `aborted`, both with what there was of text and thinking.
 */
export async function streamAnswer(
  model: Model,
  request: unknown,
  options: { signal: AbortSignal; maxOutputTokens: number },
  tell: (event: Exclude<ModelEvent, { type: "answer" }>) => void,
): Promise<AssistantMessage> {
  const { signal } = options;
  const content: AssistantBlock[] = [];
  let events: AsyncIterator<ModelEvent> | undefined;
  try {
    events = model.stream(request, options)[Symbol.asyncIterator]();
    for (;;) {
      const { value, done } = await untilAborted(events.next(), signal, GRACE_MS);
      if (done) throw new Error(`The model ${model.modelId} ended without an answer.`);
      if (value.type === "answer") return value.message;
      addPiece(content, value);
      tell(value);
    }
  } catch (error) {
    return {
      role: "assistant",
      content,
      provider: model.provider,
      model: model.modelId,
      usage: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, totalTokens: 0 },
      stopReason: signal.aborted ? "aborted" : "error",
      errorMessage: signal.aborted ? ABORTED : error instanceof Error ? error.message : String(error),
      timestamp: Date.now(),
    };
  } finally {
    // Nobody listens from here on. A model that hears of nothing is not waited for, and how it ends changes nothing.
    events?.return?.().catch(() => undefined);
  }
}

/** What an aborted answer says of itself. */
export const ABORTED = "The answer was aborted.";
