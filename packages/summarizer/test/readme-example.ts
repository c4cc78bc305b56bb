import { strict as assert } from "node:assert";
import {
  anthropicSummarizer,
  renderTranscript,
  withFallback,
  withFitting,
  withRetry,
} from "@espalier/summarizer";
import { scriptedSummarizer, startMessagesServer, textReply } from "@espalier/summarizer/testing";

// A server on loopback that speaks the Messages API stands in for the real one.
const server = await startMessagesServer({
  reply: textReply("## Goal\nA green build"),
  contextWindow: 20_000,
});
const claude = anthropicSummarizer({ apiKey: "key", baseURL: server.url, contextWindow: 20_000 });

// Any size fits, trouble that passes is waited for, and somebody else answers when all of that fails.
const summarizer = withFallback(withFitting(withRetry(claude)), scriptedSummarizer("## Goal\nUnknown"));

const messages = Array.from({ length: 300 }, (_, index) => {
  return {
    role: "user" as const,
    content: `${index}: why is </transcript> red? ${"log ".repeat(100)}`,
    timestamp: 0,
  };
});
const answer = await summarizer.summarize({
  purpose: "history",
  instructions: "Write a summary with the heading ## Goal.",
  sections: ["Goal"],
  messages,
  transcript: renderTranscript(messages),
  maxOutputTokens: 1_000,
});

assert.equal(answer.text, "## Goal\nA green build");
assert.equal(answer.source, "anthropic");
assert.ok(answer.omitted!.chunks.length > 1, "the history went out in parts, notes on which were combined");
assert.equal(server.requests.length, answer.calls);
await server.close();
