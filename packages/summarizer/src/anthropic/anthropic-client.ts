import type Anthropic from "@anthropic-ai/sdk";
import { SummarizerError } from "../summarizer-error.ts";

/** How Claude is reached. Everything may be left out where `ANTHROPIC_API_KEY` is set. */
export interface AnthropicAccess {
  /** A client of `@anthropic-ai/sdk`; otherwise one is made of `apiKey` and `baseURL` with the first request. */
  client?: Anthropic;
  /** The SDK reads `ANTHROPIC_API_KEY` where this is absent or empty. */
  apiKey?: string;
  /** The SDK reads `ANTHROPIC_BASE_URL` where this is absent or empty. */
  baseURL?: string;
}

/** Gives the client, which is made, and its SDK loaded, when it is asked for first. */
export function anthropicClient({ client, apiKey, baseURL }: AnthropicAccess): () => Promise<Anthropic> {
  let loading: Promise<Anthropic> | undefined;
  const load = async () => {
    const { default: Client } = await import("@anthropic-ai/sdk").catch((cause: unknown) => {
      const message = "Claude needs the package @anthropic-ai/sdk: npm install @anthropic-ai/sdk";
      throw new SummarizerError("failed", message, { cause });
    });
    return new Client({ ...(apiKey && { apiKey }), ...(baseURL && { baseURL }) });
  };
  return () => (loading ??= client ? Promise.resolve(client) : load());
}
