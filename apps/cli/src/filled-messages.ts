import { EngineError, fillMessage, type MessageDraft } from "@espalier/engine";
import type { MessageEntry, NewEntry, SessionContext, StoredMessage } from "@espalier/session-tree";
import { badLine, type StdinLine } from "./stdin-lines.ts";

/**
 * Message entries out of lines of stdin that follow one another.
 * @throws CommandError `bad-input`, naming the line
 */
export function filledMessages(
  lines: readonly StdinLine[],
  context: SessionContext,
): NewEntry<MessageEntry>[] {
  const said: StoredMessage[] = [];
  return lines.map(({ lineNumber, value }) => {
    try {
      const entry = fillMessage(value as MessageDraft, context, Date.now(), said);
      said.push(entry.message);
      return entry;
    } catch (error) {
      if (error instanceof EngineError) throw badLine(lineNumber, error.message, error);
      throw error;
    }
  });
}
