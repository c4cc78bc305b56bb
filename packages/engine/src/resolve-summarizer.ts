import { redactText } from "@espalier/session-tree";
import { anthropicSummarizer, extractiveSummarizer, type Summarizer } from "@espalier/summarizer";
import { EngineError } from "./engine-error.ts";

/**
 * The summarizer that a text names: `extractive`, `anthropic`, or `anthropic:<model>`. Without a text: Claude when
 * `ANTHROPIC_API_KEY` is set (`ANTHROPIC_BASE_URL` honoured), else the extractive one.
 *
 * @throws EngineError `bad-input` for any other text, and for Claude without a key
 */
export function resolveSummarizer(name?: string, environment: NodeJS.ProcessEnv = process.env): Summarizer {
  const apiKey = environment["ANTHROPIC_API_KEY"];
  const baseURL = environment["ANTHROPIC_BASE_URL"];
  if (name === "extractive" || (name === undefined && !apiKey)) return extractiveSummarizer();
  const [provider, model] = (name ?? "anthropic").split(/:(.*)/s);
  if (provider !== "anthropic") {
    throw new EngineError(
      "bad-input",
      `There is no summarizer ${redactText(JSON.stringify(name))}; take extractive, anthropic or anthropic:MODEL.`,
    );
  }
  if (!apiKey)
    throw new EngineError(
      "bad-input",
      "Summaries by Claude need a key: set ANTHROPIC_API_KEY, or take --summarizer extractive.",
    );
  return anthropicSummarizer({ apiKey, ...(baseURL ? { baseURL } : {}), ...(model ? { model } : {}) });
}
