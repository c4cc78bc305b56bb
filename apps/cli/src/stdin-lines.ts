import { buffer } from "node:stream/consumers";
import { fillMessage, type MessageDraft } from "@espalier/engine";
import { bytesView, EspalierError, parseLine, scanLines } from "@espalier/jsonl-stream";
import type { SessionContext, StoredMessage } from "@espalier/session-tree";
import { CommandError } from "./failure.ts";

/** A JSON value from stdin, and the number of its line. */
export interface StdinLine {
  /** Line number, from 1. */
  lineNumber: number;
  value: unknown;
}

/**
 * Reads all lines of stdin that are not blank, as JSON.
 * @throws CommandError `bad-input` with the number of the first line that is not JSON
 */
export async function readStdinLines(): Promise<StdinLine[]> {
  const view = bytesView(await buffer(process.stdin));
  const lines: StdinLine[] = [];
  for (const { bytes, lineNumber } of scanLines(view)) {
    const parsed = parseLine(bytes);
    if (parsed.ok) lines.push({ lineNumber, value: parsed.value });
    else if (parsed.problem.kind !== "blank") throw badLine(lineNumber, parsed.problem.message);
  }
  return lines;
}

/** Error for a line of stdin: the line's number, then the sentence. */
function badLine(lineNumber: number, message: string, cause?: unknown): CommandError {
  return new CommandError("bad-input", `Line ${lineNumber} of stdin: ${message}`, { cause });
}

/** Makes message entries from lines of stdin. @throws CommandError `bad-input` with the line's number */
export function filledMessages(lines: readonly StdinLine[], context: SessionContext) {
  const said: StoredMessage[] = [];
  return lines.map(({ lineNumber, value }) => {
    try {
      const entry = fillMessage(value as MessageDraft, context, said);
      said.push(entry.message);
      return entry;
    } catch (error) {
      if (error instanceof EspalierError) throw badLine(lineNumber, error.message, error);
      throw error;
    }
  });
}
