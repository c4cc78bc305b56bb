import type { Tree } from "@espalier/session-tree";
import { Breath } from "./breath.ts";
import { oneLine } from "./entry-gist.ts";
import { textOfEntry } from "./entry-text.ts";

/** A place in a session where a text stands. */
export interface FoundText {
  row: number;
  snippet: string;
}

/** Places that are told at the most. */
const MOST = 200;

/** Characters of a snippet before the text, and from it on. */
const BEFORE = 40;
const AFTER = 160;

/** Entries in which a text stands, whatever its case, newest first, 200 at the most. */
export async function findText(tree: Tree, query: string): Promise<FoundText[]> {
  const wanted = query.toLowerCase().trim();
  const found: FoundText[] = [];
  const breath = new Breath();
  for (let row = tree.length - 1; wanted !== "" && row >= 0 && found.length < MOST; row--) {
    const text = textOfEntry(tree.entryAt(row));
    const at = text.toLowerCase().indexOf(wanted);
    if (at >= 0) found.push({ row, snippet: oneLine(text.slice(Math.max(0, at - BEFORE), at + AFTER)) });
    await breath.take();
  }
  return found;
}
