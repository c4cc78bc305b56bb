import { strict as assert } from "node:assert";
import {
  anthropicSummarizer,
  renderTranscript,
  withFallback,
  withFitting,
  withRetry,
} from "@espalier/summarizer";
import { scriptedSummarizer, startMessagesServer, textReply } from "@espalier/summarizer/testing";

// A server on loopback with the Messages API replaces the real one.
const server = await startMessagesServer({
  reply: textReply("## Goal\nA green build"),
  contextWindow: 20_000,
});
const claude = anthropicSummarizer({ apiKey: "key", baseURL: server.url, contextWindow: 20_000 });

// Requests of any size fit, temporary failures are retried, and a second summarizer is the fallback.
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
assert.ok(answer.omitted!.chunks.length > 1, "the history was sent in parts, and their notes were combined");
assert.equal(server.requests.length, answer.calls);
await server.close();
