import { missingSections } from "./section-headings.ts";
import type { SummaryAnswer, SummaryRequest } from "./summarizer.ts";
import { SummarizerError, type SummarizerErrorCode } from "./summarizer-error.ts";

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
 * Throws a {@link SummarizerError} for an answer that must not become a summary: ended by anything but `stop`, empty, a
 * refusal, or a tool call written as text. One in other words or another language than it was asked for is a summary all
 * the same ({@link missingSections} tells what it lacks). Whether it is smaller than what it replaces is for the caller
 * to judge.
 */
export function validateSummary(answer: SummaryAnswer, request: Pick<SummaryRequest, "sections">): void {
  const fail = (code: SummarizerErrorCode, message: string) => {
    throw new SummarizerError(code, message, { usage: answer.usage });
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
