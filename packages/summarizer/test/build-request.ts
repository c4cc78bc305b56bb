import type { ContextMessage } from "@espalier/session-tree";
import { renderTranscript, type SummaryRequest } from "@espalier/summarizer";

/** A request for the summary of these messages. */
export const request = (
  messages: readonly ContextMessage[],
  more: Partial<SummaryRequest> = {},
): SummaryRequest => ({
  purpose: "history",
  instructions: "Write a summary under the heading ## Goal.",
  sections: [],
  messages,
  transcript: renderTranscript(messages),
  maxOutputTokens: 1_000,
  ...more,
});
