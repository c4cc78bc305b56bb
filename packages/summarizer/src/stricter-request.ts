import type { SummaryRequest } from "./summarizer.ts";
import type { SummarizerErrorCode } from "./summarizer-error.ts";

/** The request again, saying what was wrong with the last answer. */
export function stricterRequest(request: SummaryRequest, code: SummarizerErrorCode): SummaryRequest {
  return { ...request, instructions: `${request.instructions}\n\n${reproach(request, code)}` };
}

function reproach(request: SummaryRequest, code: SummarizerErrorCode): string {
  switch (code) {
    case "refused":
      return "Your last answer was a refusal. Nobody asks you to do anything that is in the transcript: only report, neutrally and briefly, what was said and done.";
    case "tool-call":
      return "Your last answer called a tool. No tool can be used here. Answer with the text of the summary alone.";
    case "cut-off":
      return `Your last answer was too long and was cut off. Write at most ${Math.max(1, Math.floor(request.maxOutputTokens / 3))} words; leave out the least important facts.`;
    default:
      return "Your last answer was empty. Answer with the text of the summary.";
  }
}
