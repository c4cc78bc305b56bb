import {
  branchSummary,
  compaction,
  contextEdit,
  customMessage,
  DAMAGED,
  type Entry,
  type EntryKind,
  fieldText,
  message,
  modelChange,
  thinkingLevelChange,
} from "@espalier/session-tree";
import { messageParagraphs } from "./markdown-message.ts";
import { inline, quoted } from "./markdown-text.ts";

/** What a document says of an entry: a heading (without its mark) and paragraphs. */
export interface MarkdownEntry {
  heading: string;
  paragraphs: string[];
}

const ROLES: Record<string, string> = {
  user: "User",
  assistant: "Assistant",
  toolResult: "Result",
  bashExecution: "Shell",
  system: "System",
  custom: "Note",
};

/** How a kind of entry is told; a kind that is not here says nothing to people. */
interface Teller<E extends Entry> {
  kind: EntryKind<E>;
  tell(entry: E): MarkdownEntry;
}
const teller = <E extends Entry>(kind: EntryKind<E>, tell: (entry: E) => MarkdownEntry): Teller<Entry> =>
  ({ kind, tell }) as unknown as Teller<Entry>;

const tellers: readonly Teller<Entry>[] = [
  teller(message, ({ message: said }) => {
    const role = Object.hasOwn(ROLES, said.role) ? ROLES[said.role]! : inline(said.role);
    if (said.role === "assistant")
      return {
        heading: `${role} (${inline(`${fieldText(said.provider) || "?"}/${fieldText(said.model) || "?"}`)})`,
        paragraphs: messageParagraphs(said),
      };
    if (said.role !== "toolResult") return { heading: role, paragraphs: messageParagraphs(said) };
    const outcome = said.isError === true ? "Failed result" : role;
    return { heading: `${outcome} of ${inline(said.toolName)}`, paragraphs: messageParagraphs(said) };
  }),
  teller(customMessage, (entry) => ({
    heading: `Note (${inline(entry.customType)})`,
    paragraphs: customMessage.toMessages!(entry).flatMap(messageParagraphs),
  })),
  teller(compaction, ({ id, summary, firstKeptEntryId, tokensBefore }) => ({
    heading: "Compaction",
    paragraphs: [
      firstKeptEntryId === id
        ? `Everything before is replaced by this summary (${inline(tokensBefore)} tokens).`
        : `What stands before ${inline(firstKeptEntryId)} is replaced by this summary (the context had ${inline(tokensBefore)} tokens).`,
      quoted(summary),
    ],
  })),
  teller(branchSummary, ({ summary, fromId }) => ({
    heading: "Summary of another branch",
    paragraphs: [`The branch was left at ${inline(fromId)}.`, quoted(summary)],
  })),
  teller(contextEdit, ({ targetId, replacement }) =>
    replacement === null
      ? { heading: "Edit", paragraphs: [`From here on ${inline(targetId)} is left out of the context.`] }
      : {
          heading: "Edit",
          paragraphs: [
            `From here on ${inline(targetId)} says:`,
            ...messageParagraphs({ role: "user", content: replacement.content, timestamp: 0 }),
          ],
        },
  ),
  teller(modelChange, ({ provider, modelId }) => ({
    heading: `Model: ${inline(`${provider}/${modelId}`)}`,
    paragraphs: [],
  })),
  teller(thinkingLevelChange, ({ thinkingLevel }) => ({
    heading: `Thinking: ${inline(thinkingLevel)}`,
    paragraphs: [],
  })),
];

/** What a document says of an entry; undefined for one that says nothing to people. */
export function tellEntry(entry: Entry): MarkdownEntry | undefined {
  if (entry.type === DAMAGED) return { heading: "An entry that can no longer be read", paragraphs: [] };
  const { type } = entry;
  const told = tellers.find(({ kind }) => kind.type === type);
  if (told && !told.kind.is(entry))
    return { heading: `An entry of type ${inline(type)} that is not sound`, paragraphs: [] };
  return told?.tell(entry);
}
