import { chainOf, type Summarizer } from "@espalier/summarizer";
import { settingsInForce, summarizerOf } from "./settings-in-force.ts";
import type { Shell } from "./shell.ts";

/** The summarizer in force, made ready for any number of messages. */
export async function readySummarizer(shell: Shell): Promise<Summarizer> {
  const { values } = await settingsInForce(shell);
  const { summarizer, fallback } = summarizerOf(shell, values);
  return chainOf(summarizer, { fallback });
}
