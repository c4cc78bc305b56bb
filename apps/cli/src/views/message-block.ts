import { jsonText } from "@espalier/jsonl-stream";
import { type ContextMessage, contentBlocks, messageText, toolCalls } from "@espalier/session-tree";
import { fieldText, plainLine, plainText } from "../plain-text.ts";
import { cutToColumns } from "../text-columns.ts";

/** Columns of a line where no terminal says how many there is room for. */
const LINE_LENGTH = 160;

/** The first lines of what a message says, without anything a terminal would act on; `…` stands for the rest. */
export function firstLines(message: ContextMessage, most: number, columns: number): string[] {
  // Empty lines would use up the little room there is.
  const lines = allLines(message).filter((line) => line !== "");
  const length = Math.max(20, Math.min(columns, LINE_LENGTH));
  const shown = lines.slice(0, most).map((line) => cutToColumns(line, length));
  const left = lines.length - shown.length;
  if (left > 0) shown.push(`… ${left === 1 ? "1 more line" : `${left} more lines`}`);
  return shown;
}

/** All lines of what a message says: text, then calls and pictures. */
export function allLines(message: ContextMessage): string[] {
  if (message.role === "bashExecution") {
    return [`$ ${plainLine(fieldText(message.command))}`, ...splitLines(fieldText(message.output))];
  }
  const lines = splitLines(messageText(message));
  for (const { name, arguments: given } of toolCalls(message))
    lines.push(plainLine(`→ ${fieldText(name)} ${jsonText(given)}`));
  if ("content" in message) {
    for (const block of contentBlocks(message))
      if (block.type === "image")
        lines.push(plainLine(`(a picture, ${fieldText(block.mimeType) || "of no known type"})`));
  }
  return lines;
}

function splitLines(text: string): string[] {
  if (text === "") return [];
  return plainText(text)
    .split("\n")
    .map((line) => line.replaceAll("\t", "  ").trimEnd());
}
