import {
  anthropicSummarizer,
  extractiveSummarizer,
  type Summarizer,
  withFallback,
  withFallbackFor,
  withFitting,
  withRetry,
} from "@espalier/summarizer";
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
      `There is no summarizer ${JSON.stringify(name)}; take extractive, anthropic or anthropic:MODEL.`,
    );
  }
  if (!apiKey)
    throw new EngineError(
      "bad-input",
      "Summaries by Claude need a key: set ANTHROPIC_API_KEY, or take --summarizer extractive.",
    );
  return anthropicSummarizer({ apiKey, ...(baseURL ? { baseURL } : {}), ...(model ? { model } : {}) });
}

/**
 * A summarizer made ready for any history: asked again when trouble passes, its requests sized, and, with `fallback`,
 * the extractive one behind it; without, that one steps in for what is too long for the model and nothing else.
 */
export function chainOf(summarizer: Summarizer, fallback: boolean): Summarizer {
  if (summarizer.name === EXTRACTIVE.name) return summarizer;
  const sized = withFitting(withRetry(summarizer));
  return fallback ? withFallback(sized, EXTRACTIVE) : withFallbackFor(["too-long"], sized, EXTRACTIVE);
}

const EXTRACTIVE = extractiveSummarizer();
