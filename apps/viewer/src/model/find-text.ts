import { branchSummary, compaction, messageText, type Tree, toolCalls } from "@espalier/session-tree";
import { oneLine, saidIn } from "./entry-gist.ts";

/** A place in a session where a text stands. */
export interface FoundText {
  row: number;
  snippet: string;
}

/** Places that are told at the most. */
const MOST = 200;

/** Entries in which a text stands, whatever its case, newest first. */
export function findText(tree: Tree, query: string, most = MOST): FoundText[] {
  const wanted = query.toLowerCase().trim();
  const found: FoundText[] = [];
  for (let row = tree.length - 1; wanted !== "" && row >= 0 && found.length < most; row--) {
    const text = textAt(tree, row);
    const at = text.toLowerCase().indexOf(wanted);
    if (at >= 0) found.push({ row, snippet: oneLine(text.slice(Math.max(0, at - 40), at + 160)) });
  }
  return found;
}

function textAt(tree: Tree, row: number): string {
  const entry = tree.entryAt(row);
  if (compaction.is(entry) || branchSummary.is(entry)) return String(entry.summary ?? "");
  const said = saidIn(entry);
  if (!said) return "";
  return [messageText(said), ...toolCalls(said).map((call) => JSON.stringify(call.arguments))].join("\n");
}
