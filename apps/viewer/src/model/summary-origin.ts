import type { Tree } from "@espalier/session-tree";
import { Breath } from "./breath.ts";
import { compactionAt } from "./compaction-view.ts";
import { oneLine } from "./entry-gist.ts";
import { textOfEntry } from "./entry-text.ts";

/** An entry that a line of a summary may have come from. */
export interface SummaryOrigin {
  row: number;
  /** 0 to 1: the share of the line's words, rare ones counting more, that the entry has too. */
  score: number;
  /** Where in the entry most of them stand. */
  snippet: string;
}

/** Origins that are told at the most, and the score below which none is. */
const BEST = 5;
const LEAST = 0.15;

/** Words that stand in nearly every text tell nothing. */
const SHORTEST_WORD = 3;

/** Paths, numbers and names of code tell more than words of a language. */
const NAME = /[\d_./$-]/;
const NAME_WEIGHT = 3;

/** Characters around the first rare word. */
const SNIPPET = 160;

/**
 * The entries that a line of a compaction's summary most likely came from, best first: those among the covered entries
 * that share its words, weighed by how rare a word is among them. Where the summary goes on from an older one, what
 * that one covered is looked at too.
 */
export async function originsOf(tree: Tree, compactionRow: number, line: string): Promise<SummaryOrigin[]> {
  const words = [...new Set(wordsOf(line))];
  if (words.length === 0) return [];
  const found = await sharersOf(tree, coveredRows(tree, compactionRow), words);
  const weights = weightsOf(words, found);
  const whole = words.reduce((sum, word) => sum + weights.get(word)!, 0);
  return found
    .map(({ row, text, shared }) => {
      const score = shared.reduce((sum, word) => sum + weights.get(word)!, 0) / whole;
      const rarest = shared.toSorted((a, b) => weights.get(b)! - weights.get(a)!)[0];
      return { row, score, snippet: rarest === undefined ? "" : around(text, rarest) };
    })
    .filter(({ score }) => score > LEAST)
    .toSorted((a, b) => b.score - a.score || a.row - b.row)
    .slice(0, BEST);
}

/** An entry, and which of the words that are looked for it has. */
interface Sharer {
  row: number;
  text: string;
  shared: string[];
}

async function sharersOf(tree: Tree, rows: readonly number[], words: readonly string[]): Promise<Sharer[]> {
  const sharers: Sharer[] = [];
  const breath = new Breath();
  for (const row of rows) {
    const text = textOfEntry(tree.entryAt(row));
    const has = new Set(wordsOf(text));
    sharers.push({ row, text, shared: words.filter((word) => has.has(word)) });
    await breath.take();
  }
  return sharers;
}

/** What each word tells: the rarer it is among the entries, the more. */
function weightsOf(words: readonly string[], sharers: readonly Sharer[]): Map<string, number> {
  const seen = new Map<string, number>();
  for (const { shared } of sharers) for (const word of shared) seen.set(word, (seen.get(word) ?? 0) + 1);
  return new Map(
    words.map((word) => {
      const telling = NAME.test(word) ? NAME_WEIGHT : 1;
      return [word, telling * Math.log(1 + sharers.length / (1 + (seen.get(word) ?? 0)))];
    }),
  );
}

function coveredRows(tree: Tree, compactionRow: number): number[] {
  const rows: number[] = [];
  for (let at = compactionRow; at >= 0; ) {
    const { covered, previousRow } = compactionAt(tree, at);
    rows.push(...covered);
    at = previousRow;
  }
  return rows;
}

const wordsOf = (text: string): string[] =>
  text
    .toLowerCase()
    .split(/[^\p{L}\p{N}_.$/-]+/u)
    .map((word) => word.replace(/^[./-]+|[./-]+$/g, ""))
    .filter((word) => word.length >= SHORTEST_WORD);

function around(text: string, word: string): string {
  const at = Math.max(0, text.toLowerCase().indexOf(word));
  const from = Math.max(0, at - SNIPPET / 2);
  return oneLine(text.slice(from, from + SNIPPET));
}
