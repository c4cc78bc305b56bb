import { customMessage, type Entry, isMessage } from "../entry/kinds.ts";
import { type BashExecutionMessage, type ContextMessage, contentText } from "../entry/message.ts";

/**
 * The wrappers below are part of the session format: every reader of the file sends the model the same bytes. So a
 * session that another program opens keeps its cached prefix.
 */
const BEFORE_COMPACTION =
  "The conversation history before this point was compacted into the following summary:\n\n<summary>\n";

const BEFORE_BRANCH =
  "The following is a summary of a branch that this conversation came back from:\n\n<summary>\n";
const FENCE = "```";

/** Returns a compaction's summary as the model reads it. */
export function compactionSummaryText(summary: string): string {
  return `${BEFORE_COMPACTION}${escapeSummaryTags(summary)}\n</summary>`;
}

/** Returns a branch summary as the model reads it. */
export function branchSummaryText(summary: string): string {
  return `${BEFORE_BRANCH}${escapeSummaryTags(summary)}</summary>`;
}

/** Returns a run of the user's shell as the model reads it: the command, its output, and how it ended unless it succeeded. */
export function bashExecutionText(run: BashExecutionMessage): string {
  const output = textOf(run.output);
  return `Ran \`${textOf(run.command)}\`\n${output ? `${FENCE}\n${output}\n${FENCE}` : "(no output)"}${bashEnding(run)}`;
}

function bashEnding({ cancelled, exitCode, truncated, fullOutputPath }: BashExecutionMessage): string {
  let ending = "";
  if (cancelled) ending = "\n\n(command cancelled)";
  else if (typeof exitCode === "number" && exitCode !== 0)
    ending = `\n\nCommand exited with code ${exitCode}`;
  if (truncated && textOf(fullOutputPath)) ending += `\n\n[Output truncated. Full output: ${fullOutputPath}]`;
  return ending;
}

/** Returns a field as text; an empty text for a value of another type, which a file can hold. */
const textOf = (value: unknown): string => (typeof value === "string" ? value : "");

/**
 * Escapes the tags of our wrapper in a summary. The summarized conversation can contain them, and they must not end the
 * wrapper early.
 */
function escapeSummaryTags(summary: string): string {
  return summary.replace(/<(?=\/?summary\b)/gi, "&lt;");
}

/**
 * Returns the text that a model reads in place of a shell run or a summary; empty when it is not sent. Undefined for a
 * message of another role.
 */
export function wording(message: ContextMessage): string | undefined {
  if (message.role === "bashExecution") return message.excludeFromContext ? "" : bashExecutionText(message);
  if (message.role !== "compactionSummary" && message.role !== "branchSummary") return undefined;
  const textOfSummary = message.role === "branchSummary" ? branchSummaryText : compactionSummaryText;
  return typeof message.summary === "string" ? textOfSummary(message.summary) : "";
}

/**
 * Returns the text of a user message or of a custom message of an extension: the text that an editor shows after
 * navigation to the entry. Null for every other entry.
 */
export function promptText(entry: Entry): string | null {
  if (isMessage(entry, "user")) return contentText(entry.message);
  return customMessage.is(entry) ? contentText(entry) : null;
}
