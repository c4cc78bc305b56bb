import type { Entry } from "../entry/kinds.ts";
import { customMessage, isMessage } from "../entry/kinds.ts";
import { type BashExecutionMessage, contentText } from "../entry/message.ts";

/**
 * The wrappers below are part of the session format: every reader of such a file gives the model these bytes, so that
 * a session that moves between programs keeps its cached prefix.
 */
const BEFORE_COMPACTION =
  "The conversation history before this point was compacted into the following summary:\n\n<summary>\n";

const BEFORE_BRANCH =
  "The following is a summary of a branch that this conversation came back from:\n\n<summary>\n";
const FENCE = "```";

/** A compaction's summary as the model reads it. */
export function compactionSummaryText(summary: string): string {
  return `${BEFORE_COMPACTION}${escapeSummaryTags(summary)}\n</summary>`;
}

/** A branch summary as the model reads it. */
export function branchSummaryText(summary: string): string {
  return `${BEFORE_BRANCH}${escapeSummaryTags(summary)}</summary>`;
}

/** A run of the user's shell as the model reads it: command, output, and how it ended when it did not end well. */
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

/** Fields of a stored message are what a file says: not always text. */
const textOf = (value: unknown): string => (typeof value === "string" ? value : "");

/** A summary quotes what was said, and what was said may hold our own delimiter: it must not end the quote. */
function escapeSummaryTags(summary: string): string {
  return summary.replace(/<(?=\/?summary\b)/gi, "&lt;");
}

/**
 * The text of something a user typed or an extension said in a user's place: what comes back into an editor when one
 * goes there. Null for every other entry.
 */
export function promptText(entry: Entry): string | null {
  if (isMessage(entry, "user")) return contentText(entry.message);
  return customMessage.is(entry) ? contentText(entry) : null;
}
