import { type Entry, kindOf, messageText, toolCalls } from "@espalier/session-tree";

/** What was said in an entry: whose words they are, and the words. */
export interface EntryTexts {
  /** The role of its message; of a summary, and whatever else speaks, the role that it takes in a context. */
  role: string;
  /** Its text, then for each call the tool's name and every text among the arguments. */
  texts: string[];
}

/** The words of an entry, before edits; undefined for one that says nothing. */
export function entryTexts(entry: Entry): EntryTexts | undefined {
  const kind = kindOf(entry);
  if (kind.problem?.(entry)) return undefined;
  // What a compaction carries of the system stands in the system's own entry.
  const message = kind.toMessages?.(entry).at(-1);
  if (!message) return undefined;
  const called = toolCalls(message).flatMap(({ name, arguments: given }) => [name, ...textsIn(given)]);
  const texts = [messageText(message), ...called].filter((text) => typeof text === "string" && text !== "");
  return texts.length === 0 ? undefined : { role: message.role, texts };
}

/** All texts in a value of JSON, keys left out, however deep it is. */
function textsIn(value: unknown): string[] {
  const texts: string[] = [];
  const waiting: unknown[] = [value];
  while (waiting.length > 0) {
    const next = waiting.pop();
    if (typeof next === "string") texts.push(next);
    else if (typeof next === "object" && next !== null)
      for (const inner of Object.values(next).reverse()) waiting.push(inner);
  }
  return texts;
}
