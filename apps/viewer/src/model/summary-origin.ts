import { type Entry, messageText, type Tree, toolCalls } from "@espalier/session-tree";
import { compactionAt } from "./compaction-view.ts";
import { oneLine, saidIn } from "./entry-gist.ts";

/** An entry that a line of a summary may have come from. */
export interface SummaryOrigin {
  row: number;
  /** 0 to 1: the share of the line's words, rare ones counting more, that the entry has too. */
  score: number;
  /** Where in the entry most of them stand. */
  snippet: string;
}

/** Origins that are told at the most. */
const BEST = 5;

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
export function originsOf(tree: Tree, compactionRow: number, line: string): SummaryOrigin[] {
  const words = [...new Set(wordsOf(line))];
  if (words.length === 0) return [];
  const texts = coveredRows(tree, compactionRow).map((row) => ({ row, text: textOf(tree.entryAt(row)) }));
  const found = texts.map(({ row, text }) => ({ row, text, has: new Set(wordsOf(text)) }));
  const weights = new Map(
    words.map((word) => {
      const seen = found.reduce((sum, { has }) => sum + (has.has(word) ? 1 : 0), 0);
      const telling = NAME.test(word) ? NAME_WEIGHT : 1;
      return [word, telling * Math.log(1 + found.length / (1 + seen))] as const;
    }),
  );
  const whole = [...weights.values()].reduce((sum, weight) => sum + weight, 0);
  return found
    .map(({ row, text, has }) => {
      const shared = words.filter((word) => has.has(word));
      const score = shared.reduce((sum, word) => sum + weights.get(word)!, 0) / whole;
      const rarest = shared.toSorted((a, b) => weights.get(b)! - weights.get(a)!)[0];
      return { row, score, snippet: rarest === undefined ? "" : around(text, rarest) };
    })
    .filter(({ score }) => score > 0.15)
    .toSorted((a, b) => b.score - a.score || a.row - b.row)
    .slice(0, BEST);
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

/** Everything an entry says, arguments of calls among it. */
function textOf(entry: Entry): string {
  const said = saidIn(entry);
  if (!said) return "";
  const calls = toolCalls(said).map((call) => `${call.name} ${JSON.stringify(call.arguments)}`);
  return [messageText(said), ...calls].join("\n");
}

function around(text: string, word: string): string {
  const at = Math.max(0, text.toLowerCase().indexOf(word));
  const from = Math.max(0, at - SNIPPET / 2);
  return oneLine(text.slice(from, from + SNIPPET));
}
