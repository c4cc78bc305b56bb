import { type AnthropicSummarizerOptions, anthropicSummarizer } from "@espalier/summarizer";
import { type MessagesServerOptions, startMessagesServer } from "@espalier/summarizer/testing";
import { afterEach } from "vitest";

const closing: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});

/** A summarizer on the real SDK, asking a server of its own. */
export async function start(
  reply: MessagesServerOptions["reply"],
  options: AnthropicSummarizerOptions = {},
  more: Partial<MessagesServerOptions> = {},
) {
  const server = await startMessagesServer({ reply, apiKey: "key", ...more });
  closing.push(server.close);
  const summarizer = anthropicSummarizer({
    apiKey: "key",
    baseURL: server.url,
    model: "claude-haiku-4-5",
    ...options,
  });
  return { server, summarizer };
}
