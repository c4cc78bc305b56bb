import type { SummaryErrorCode } from "@espalier/jsonl-stream";
import type { SummaryError } from "./summarizer.ts";
import { type SummaryAnswer, type SummaryPurpose, type SummaryRequest, summaryError } from "./summarizer.ts";

/** A refusal says so at once; the same words later in a summary report what somebody else said. */
const REFUSAL = new RegExp(
  [
    "^(?:i(?:'|’)?m sorry|i am sorry|sorry|i apologi[sz]e|unfortunately)[,.:;!]?\\s[^\\n]{0,80}(?:can(?:'|’)?t|cannot|can not|unable|won(?:'|’)?t|not able)",
    "^i\\s(?:can(?:'|’)?t|cannot|can not|won(?:'|’)?t|will not|am unable|am not able|must decline|have to decline)\\b",
    "^i(?:'|’)m (?:unable|not able)\\b",
    "^as an ai\\b[^\\n]{0,80}(?:can(?:'|’)?t|cannot|unable)",
    "^(?:lo siento|es tut mir leid|je suis désolé|desculpe|mi dispiace|извините|к сожалению|抱歉|对不起|申し訳|죄송)",
  ].join("|"),
  "iu",
);

/** A refusal is short; a long text that begins like one is something else. */
const LONGEST_REFUSAL = 1_200;

/** Marks of a call that was written as text, at the beginning of a line. */
const CALL_MARK = /^[ \t]*<(?:function_calls|invoke\s+name=|tool_call\b|tool_use\b|function=|\|tool)/m;

/** An answer that is one JSON object naming a tool and its input. */
const CALL_OBJECT =
  /^(?:```(?:json)?\s*)?\{\s*"(?:type"\s*:\s*"tool_use"|name"\s*:\s*"[^"]+"\s*,\s*"(?:input|arguments|parameters)")/;

/**
 * Throws a {@link SummaryError} for an answer that must not become a summary: ended by anything but `stop`, empty, a
 * refusal, or a tool call written as text. One in other words or another language than it was asked for is a summary all
 * the same ({@link missingSections} tells what it lacks). Whether it is smaller than what it replaces is for the caller
 * to judge.
 */
export function validateSummary(answer: SummaryAnswer, request: Pick<SummaryRequest, "sections">): void {
  const fail = (code: SummaryErrorCode, message: string) => {
    throw summaryError(code, message, { usage: answer.usage });
  };
  const who = `${answer.model.provider}/${answer.model.modelId}`;
  const text = answer.text.trim();
  if (answer.stopReason === "length") {
    fail("cut-off", `The summary of ${who} was cut off at its output limit; allow more output tokens.`);
  }
  if (answer.stopReason === "refusal")
    fail("refused", `${who} refused to summarise; take another summarizer.`);
  if (answer.stopReason === "toolUse")
    fail("tool-call", `${who} called a tool instead of summarising; ask again.`);
  if (answer.stopReason === "error") fail("failed", `${who} ended its answer with an error; ask again.`);
  if (text === "") fail("empty", `${who} answered nothing; ask again or take another summarizer.`);
  if (isWrittenCall(text)) fail("tool-call", `${who} wrote a tool call instead of a summary; ask again.`);
  // Nobody refuses under headings.
  const hasHeading = missingSections(text, request.sections).length < request.sections.length;
  if (!hasHeading && text.length <= LONGEST_REFUSAL && REFUSAL.test(text)) {
    fail("refused", `${who} refused to summarise ("${text.slice(0, 80)}"); take another summarizer.`);
  }
}

function isWrittenCall(text: string): boolean {
  return CALL_OBJECT.test(text) || CALL_MARK.test(withoutFences(text));
}

/** A summary may quote a call inside a fence. */
const withoutFences = (text: string) =>
  text.replace(/^[ \t]*(`{3,}|~{3,})[\s\S]*?(?:^[ \t]*\1[^\n]*$|$(?![\s\S]))/gm, "");

const LONGEST_HEADING = 120;

/**
 * The sections among `wanted` that a text has no heading for. A heading is a line of its own: `## Goal`, at any level,
 * in any case, with or without a number, a colon, or emphasis (`**Goal:**`).
 */
export function missingSections(text: string, wanted: readonly string[]): string[] {
  const lines = text.split(/\r?\n/).filter((line) => line.length <= LONGEST_HEADING);
  const found = new Set(lines.map(headingOf));
  return wanted.filter((section) => !found.has(normalize(section)));
}

/** The words of a line without what marks it as a heading. */
function headingOf(line: string): string {
  return normalize(
    line
      .replace(/^[\s>]*(?:#{1,6}\s*)?/, "")
      .replace(/^(?:\d+[.)]\s*)?[*_]{0,3}(?:\d+[.)]\s*)?/, "")
      .replace(/[\s#]*$/, "")
      .replace(/[:*_\s]*$/, ""),
  );
}

const normalize = (heading: string) =>
  heading
    .toLowerCase()
    .replace(/\band\b/g, "&")
    .replace(/[^\p{L}\p{N}&]+/gu, " ")
    .trim();

const WHOLE = [
  "Goal",
  "Constraints & Preferences",
  "Progress",
  "Key Decisions",
  "Next Steps",
  "Critical Context",
];

/**
 * The headings of a summary, in order, by what it is for. `Progress` has the sub-headings `Done`, `In Progress` and
 * `Blocked`. They stay English whatever language is spoken: programs read them.
 */
export const SUMMARY_SECTIONS: Readonly<Record<SummaryPurpose, readonly string[]>> = {
  history: WHOLE,
  "turn-prefix": ["Original Request", "Early Progress", "Context for Suffix"],
  branch: WHOLE,
  merge: WHOLE,
  chunk: WHOLE,
  combine: WHOLE,
};

/** The request again, saying what was wrong with the last answer. */
export function stricterRequest(request: SummaryRequest, code: SummaryErrorCode): SummaryRequest {
  return { ...request, instructions: `${request.instructions}\n\n${reproach(request, code)}` };
}

function reproach(request: SummaryRequest, code: SummaryErrorCode): string {
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
