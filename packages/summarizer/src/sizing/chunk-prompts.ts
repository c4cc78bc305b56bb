/** What a model is asked about one part of a conversation that is too long for one request. */
export function chunkInstructions(part: number, parts: number): string {
  return [
    `The transcript above is part ${part} of ${parts} of one conversation. Write notes on this part, for somebody who will write one summary from the notes on all parts and will not see the transcript.`,
    "Say what the user asked for and every condition they set, in their words; what was done and what came of it; what failed and why; what was decided and for which reason; what was still open at the end of this part.",
    "Keep exact paths, identifiers, commands, numbers and error messages. Leave out what led nowhere and taught nothing.",
  ].join("\n");
}

/** What a model is asked about notes that together are still too long to become the summary at once. */
export const MERGE_INSTRUCTIONS = [
  "The transcript above holds notes on consecutive parts of one conversation, oldest first. Merge them into one set of notes: later facts replace earlier ones, nothing is said twice.",
  "Keep the user's wishes in their words, and exact paths, identifiers, commands, numbers and error messages.",
].join("\n");

/** What stands before the instructions when the summary itself is written from notes. */
export const COMBINE_PREAMBLE =
  "The transcript above holds notes on consecutive parts of one conversation, oldest first. Take them for the conversation itself and do the following with it.";
