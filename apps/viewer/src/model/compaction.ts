import {
  type CompactionDetails,
  proseOf,
  SUMMARIZATION_PROMPT,
  TURN_PREFIX_SUMMARIZATION_PROMPT,
  UPDATE_SUMMARIZATION_PROMPT,
} from "@espalier/compaction";
import { type CacheForecast, forecastNavigation } from "@espalier/engine/reading";
import { EspalierError } from "@espalier/jsonl-stream";
import {
  type CompactionEntry,
  compaction,
  contextOfPath,
  pathWindowAt,
  projectPath,
  type Tree,
} from "@espalier/session-tree";
import { addTokens, Breath, noTokens, type TokenCounts } from "./context.ts";
import { billOf, oneLine, textOfEntry } from "./entry-gist.ts";

/** All there is to know of a compaction. */
export interface CompactionView {
  row: number;
  id: string;
  timestamp: string;
  /** The whole text that the model reads. */
  summary: string;
  /** Text of the summarizer: without the blocks that the engine adds. */
  prose: string;
  /** Tokens by kind before and after; see `TOKEN_KINDS`. */
  before: TokenCounts;
  after: TokenCounts;
  /** Rows of the entries that the summary replaces, and of those that stayed. */
  covered: number[];
  kept: number[];
  /** The compaction whose summary this one updates; -1 when it is the first on its path. */
  previousRow: number;
  /**
   * Prompts that a model is asked with by default: entries do not record what was sent. Null where no model of
   * the engine was asked: an extension wrote the summary, it was made from the messages, or another program made it.
   */
  prompts: string[] | null;
  /** US dollars; null when the cost is not recorded. */
  cost: number | null;
  /** Effect on the provider's prompt cache. */
  cache: CacheForecast;
  /** Tokens; null where nothing was billed. */
  usage: { input: number; output: number } | null;
  /** Details that it recorded; programs other than the engine record fewer, or none. */
  details: Partial<CompactionDetails>;
}

/** @throws EspalierError `unknown-entry` when the row holds no compaction */
export function compactionAt(tree: Tree, row: number): CompactionView {
  const entry = row >= 0 && row < tree.length ? tree.entryAt(row) : undefined;
  if (!entry || !compaction.is(entry))
    throw new EspalierError("unknown-entry", `Row ${row} of this session is not a compaction.`);
  const before = spanBefore(tree, row);
  const keptFrom = before.rows.findIndex((at) => tree.idAt(at) === entry.firstKeptEntryId);
  const cut = keptFrom < 0 ? before.rows.length : keptFrom;
  const bill = billOf(entry);
  return {
    row,
    id: entry.id,
    timestamp: entry.timestamp,
    summary: entry.summary,
    prose: proseOf(entry.summary),
    before: before.tokens,
    after: tokensAt(tree, row),
    covered: before.rows.slice(0, cut),
    kept: before.rows.slice(cut),
    previousRow: before.previousRow,
    prompts: promptsOf(entry, before.previousRow >= 0),
    cost: bill?.cost || null,
    cache: forecastNavigation(tree, tree.index.parent(row), row),
    usage: bill ? { input: bill.input, output: bill.output } : null,
    details: detailsOf(entry),
  };
}

/** Context of the model when the compaction was made. */
function spanBefore(tree: Tree, row: number) {
  const window = pathWindowAt(tree, tree.index.parent(row));
  const tokens = noTokens();
  const rows: number[] = [];
  let previousRow = -1;
  for (const { entry, messages } of projectPath(window.entries)) {
    for (const message of messages) addTokens(tokens, message);
    if (compaction.is(entry)) {
      if (messages.length > 0) previousRow = tree.row(entry.id);
    } else rows.push(tree.row(entry.id));
  }
  return { tokens, rows, previousRow };
}

function tokensAt(tree: Tree, row: number): TokenCounts {
  const window = pathWindowAt(tree, row);
  const tokens = noTokens();
  for (const message of contextOfPath(window.entries, window.before).messages) addTokens(tokens, message);
  return tokens;
}

/** Writers of summaries without a prompt: an extension, and the summarizer that takes them from the messages. */
const UNASKED: ReadonlySet<string> = new Set(["extension", "extractive"]);

function promptsOf(entry: CompactionEntry, hasPrevious: boolean): string[] | null {
  const { source, isSplitTurn } = detailsOf(entry);
  if (entry.fromHook || source === undefined || UNASKED.has(source)) return null;
  const history = hasPrevious ? UPDATE_SUMMARIZATION_PROMPT : SUMMARIZATION_PROMPT;
  return isSplitTurn ? [history, TURN_PREFIX_SUMMARIZATION_PROMPT] : [history];
}

function detailsOf({ details }: CompactionEntry): Partial<CompactionDetails> {
  return typeof details === "object" && details !== null ? (details as Partial<CompactionDetails>) : {};
}

/** An entry that a line of a summary may have come from. */
export interface SummaryOrigin {
  row: number;
  /** 0 to 1: the share of the line's words, rare ones counting more, that the entry has too. */
  score: number;
  /** Part of the entry that has most of these words. */
  snippet: string;
}

/** Origins that are told at the most, and the score below which none is. */
const BEST = 5;
const LEAST = 0.15;

/** Words that nearly every text contains; they are ignored. */
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
  await Breath.during("search", async (breath) => {
    for (const row of rows) {
      const text = textOfEntry(tree.entryAt(row));
      const has = new Set(wordsOf(text));
      sharers.push({ row, text, shared: words.filter((word) => has.has(word)) });
      await breath.take();
    }
  });
  return sharers;
}

/** Weight of each word: the rarer it is among the entries, the higher. */
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
