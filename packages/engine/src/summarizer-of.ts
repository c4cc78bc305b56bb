import type { Summarizer } from "@espalier/summarizer";
import { resolveSummarizer } from "./resolve-summarizer.ts";
import type { SessionState } from "./session-state.ts";

/**
 * Who writes a session's summaries: the summarizer of the model that a policy names, where it can be reached, else the
 * session's own, with a notice; undefined where the session has none.
 */
export function summarizerOf({ options, log }: SessionState, model?: string): Summarizer | undefined {
  if (!model) return options.summarizer;
  const named = options.summarizerForModel?.(model) ?? sameProvider(options.summarizer, model);
  if (!named)
    log.warn(`Nobody here can ask the model ${model} for summaries; the session's own writes them.`);
  return named ?? options.summarizer;
}

/** Another model of Claude's, where Claude is asked anyway. */
function sameProvider(summarizer: Summarizer | undefined, model: string): Summarizer | undefined {
  const canAsk = summarizer?.name === "anthropic" && process.env["ANTHROPIC_API_KEY"];
  return canAsk ? resolveSummarizer(`anthropic:${model}`) : undefined;
}
