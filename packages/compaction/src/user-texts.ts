import {
  type ContextEdit,
  contentBlocks,
  type Entry,
  isMessage,
  kindOf,
  messageText,
} from "@espalier/session-tree";
import { withoutAgentLines } from "@espalier/summarizer";

/**
 * What the user said along a path (root first), oldest first, with the edits on it applied, also where a compaction
 * hides it from the model. Messages without text are not among it, nor lines that an agent wrote (an interruption, `/mode`).
 */
export function userTexts(path: readonly Entry[]): string[] {
  const edits = new Map<string, ContextEdit["replacement"]>();
  for (const entry of path) {
    const kind = kindOf(entry);
    if (!kind.edit || kind.problem?.(entry)) continue;
    const { targetId, replacement } = kind.edit(entry);
    edits.set(targetId, replacement);
  }
  return path.flatMap((entry) => {
    if (!isMessage(entry, "user")) return [];
    const replacement = edits.get(entry.id);
    if (replacement === null) return [];
    const content = replacement === undefined ? entry.message.content : contentBlocks(replacement);
    const text = messageText({ ...entry.message, content } as typeof entry.message);
    const said = withoutAgentLines(text);
    return said.trim() === "" ? [] : [said === text ? text : said.trim()];
  });
}
