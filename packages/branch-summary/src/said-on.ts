import {
  type ContextMessage,
  compaction,
  type Entry,
  estimateTokens,
  projectPath,
} from "@espalier/session-tree";

/** A message and the entry that says it. */
export interface SaidMessage {
  message: ContextMessage;
  entryId: string;
}

/** What a model would read of these entries: a compaction among them hides what it covers. */
export function saidOn(entries: readonly Entry[]): SaidMessage[] {
  return projectPath(entries).flatMap(({ entry, messages }) =>
    messages.map((message) => ({ message, entryId: entry.id })),
  );
}

/** What was said by these entries, as if nothing had been compacted, edits applied. */
export function toldOn(entries: readonly Entry[]): SaidMessage[] {
  return saidOn(entries.filter((entry) => !compaction.is(entry)));
}

/** Whether a message tells anything: the system's words and shell runs kept from the model do not. */
export function isTelling({ message }: SaidMessage): boolean {
  return message.role !== "system" && estimateTokens(message) > 0;
}
