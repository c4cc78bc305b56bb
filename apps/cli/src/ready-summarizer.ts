import {
  extractiveSummarizer,
  type Summarizer,
  withFallback,
  withFitting,
  withRetry,
} from "@espalier/summarizer";
import { settingsInForce, summarizerOf } from "./opening.ts";
import type { Shell } from "./shell.ts";

/** The summarizer in force, made ready for any number of messages. */
export async function readySummarizer(shell: Shell): Promise<Summarizer> {
  const { values } = await settingsInForce(shell);
  const { summarizer, fallback } = summarizerOf(shell, values);
  const ready = withFitting(withRetry(summarizer));
  return fallback ? withFallback(ready, extractiveSummarizer()) : ready;
}
