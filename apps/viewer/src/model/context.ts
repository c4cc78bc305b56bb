import {
  type CompactionDetails,
  proseOf,
  SUMMARIZATION_PROMPT,
  TURN_PREFIX_SUMMARIZATION_PROMPT,
  UPDATE_SUMMARIZATION_PROMPT,
} from "@espalier/compaction";
import { amount, costOf, forecastNavigation } from "@espalier/engine/reading";
import { EspalierError } from "@espalier/jsonl-stream";
import {
  type CompactionEntry,
  type ContextMessage,
  compaction,
  contentBlocks,
  contextOfPath,
  estimateTokens,
  extendContext,
  fieldText,
  IMAGE_TOKENS,
  isPicture,
  isRecord,
  movingRow,
  pathRows,
  pathWindowAt,
  projectPath,
  type SessionContext,
  type Tree,
} from "@espalier/session-tree";
import { contextWindowOf } from "@espalier/summarizer";
import { oneLine, textOfEntry } from "./entry-gist.ts";
import { continued, longWork } from "./long-work.ts";

/** One message that the model reads. */
export type ContextPiece = ReturnType<typeof contextViewAt>["pieces"][number];

/** Returns the context of the model at an entry. */
export function contextViewAt(tree: Tree, at: number) {
  const row = movingRow(tree, at);
  const context = contextAt(tree, row);
  const tokens = noTokens();
  const pieces = context.messages.map((message, index) => ({
    /** Row of the message's entry. */
    row: tree.row(context.sources[index]!),
    tokens: addTokens(tokens, message),
    message,
  }));
  const { model, thinkingLevel, tokens: total } = context;
  return {
    /** Row of the entry; -1 before the first. */
    row,
    model,
    /** Context window of the model in tokens; null if unknown. */
    window: contextWindowOf(model) ?? null,
    thinkingLevel,
    /** All tokens, estimated as characters / 4. */
    total,
    /** Tokens by kind; see `TOKEN_KINDS`. */
    tokens,
    pieces,
  };
}

/** Returns the context of the model at a row; -1 is before the first entry. */
function contextAt(tree: Tree, row: number): SessionContext {
  const window = pathWindowAt(tree, row);
  return contextOfPath(window.entries, window.before);
}

/** The context after one entry of a path. */
interface GrowthPoint {
  row: number;
  /** Position on the path, from 0. */
  at: number;
  /** Tokens by kind; see `TOKEN_KINDS`. */
  tokens: TokenCounts;
  /** True for the points directly before and after a compaction or an edit. */
  bite?: true;
}

/** Size of the context along a path, with the sizes before and after each compaction and edit. */
export interface ContextGrowth {
  /** Number of entries on the path. */
  steps: number;
  /**
   * The first and the last point, the points before and after each compaction or edit, and at most 2,000 evenly spaced
   * points.
   */
  points: GrowthPoint[];
  /** Context window of the model at the end, in tokens; null if unknown. */
  window: number | null;
}

/** Maximum number of evenly spaced points; beyond it, every other point is removed. */
const EVEN_POINTS = 2_000;

/** One walk for each tree, which is continued when the session grows. */
const walks = new WeakMap<Tree, Promise<{ walk: GrowthWalk; growth: ContextGrowth }>>();

/** Returns the estimated size of the context, in tokens, after each entry of the path that ends in a row. */
export async function growthTo(tree: Tree, row: number): Promise<ContextGrowth> {
  // Entries beside the conversation are not steps of the path.
  const path = pathRows(tree, row).filter((at) => tree.kindAt(at).movesLeaf);
  const { growth } = await continued("growth", walks, tree, async (earlier, breathe) => {
    const walk = earlier?.walk.isOn(path) ? earlier.walk : new GrowthWalk();
    while (walk.steps < path.length) {
      walk.step(tree, path[walk.steps]!);
      await breathe();
    }
    return { walk, growth: walk.growth() };
  });
  return growth;
}

class GrowthWalk {
  steps = 0;
  #row = -1;
  /** Number of entries between two kept points. */
  #stride = 1;
  /** Number of evenly spaced points. */
  #even = 0;
  #points: GrowthPoint[] = [];
  #context: SessionContext = contextOfPath([]);
  #tokens: TokenCounts = noTokens();

  /** Returns whether a path continues this one. */
  isOn(path: readonly number[]): boolean {
    return this.steps === 0 || path[this.steps - 1] === this.#row;
  }

  step(tree: Tree, row: number): void {
    const before = this.#here(true);
    const said = this.#context.messages.length;
    this.#row = row;
    this.steps++;
    const goesOn = extendContext(this.#context, tree.entryAt(row));
    if (!goesOn) this.#context = contextAt(tree, row);
    this.#tokens = goesOn ? [...this.#tokens] : noTokens();
    for (const message of this.#context.messages.slice(goesOn ? said : 0)) addTokens(this.#tokens, message);
    const here = this.#here(!goesOn);
    if (!goesOn && here.at > 0) {
      if (this.#points.at(-1)?.at === before.at && !this.#points.pop()?.bite) this.#even--;
      this.#points.push(before);
    }
    const isEven = goesOn && here.at % this.#stride === 0;
    if (!goesOn || isEven) this.#points.push(here);
    if (!isEven || ++this.#even <= EVEN_POINTS) return;
    this.#stride *= 2;
    this.#points = this.#points.filter(({ at, bite }) => bite || at % this.#stride === 0);
    this.#even = this.#points.filter(({ bite }) => !bite).length;
  }

  growth(): ContextGrowth {
    const here = this.#here(false);
    const isTold = here.at < 0 || this.#points.at(-1)?.at === here.at;
    return {
      window: contextWindowOf(this.#context.model) ?? null,
      steps: this.steps,
      points: isTold ? [...this.#points] : [...this.#points, here],
    };
  }

  #here(bite: boolean): GrowthPoint {
    return { row: this.#row, at: this.steps - 1, tokens: this.#tokens, ...(bite ? { bite } : {}) };
  }
}

/** Kinds of tokens in a context, in the order of the bars. */
export const TOKEN_KINDS = [
  "summary",
  "system",
  "user",
  "answer",
  "thinking",
  "call",
  "result",
  "image",
] as const;

export type TokenKind = (typeof TOKEN_KINDS)[number];

/** Estimated tokens of each kind, in the order of {@link TOKEN_KINDS}. */
export type TokenCounts = number[];

const noTokens = (): TokenCounts => TOKEN_KINDS.map(() => 0);

/** Returns the estimated tokens of messages by kind, in the order of {@link TOKEN_KINDS}. */
export function tokensOf(messages: readonly ContextMessage[]): TokenCounts {
  const tokens = noTokens();
  for (const message of messages) addTokens(tokens, message);
  return tokens;
}

export const sumTokens = (counts: TokenCounts): number => counts.reduce((sum, count) => sum + count, 0);

/** Kind of a message's text, by role; `user` for all other roles. */
const OF_ROLES = new Map(
  Object.entries<TokenKind>({
    compactionSummary: "summary",
    branchSummary: "summary",
    system: "system",
    assistant: "answer",
    toolResult: "result",
    bashExecution: "result",
  }),
);

/**
 * Adds the estimated tokens of a message to the counts, divided by kind, and returns the estimate. The parts add up to
 * the estimate, because the rounding error is counted as the message's own text.
 */
function addTokens(counts: TokenCounts, message: ContextMessage): number {
  const total = estimateTokens(message);
  let rest = total;
  const take = (kind: TokenKind, tokens: number) => {
    const taken = Math.min(tokens, rest);
    rest -= taken;
    counts[TOKEN_KINDS.indexOf(kind)]! += taken;
  };
  for (const block of contentBlocks(message)) {
    if (isPicture(block)) take("image", IMAGE_TOKENS);
    else if (block.type === "thinking") take("thinking", Math.floor(fieldText(block.thinking).length / 4));
    else if (block.type === "toolCall") take("call", estimateTokens({ ...EMPTY, content: [block] }));
  }
  take(OF_ROLES.get(message.role) ?? "user", rest);
  return total;
}

const EMPTY = { role: "assistant", provider: "", model: "", stopReason: "stop", timestamp: 0 } as const;

/** Details of a compaction. */
export type CompactionView = ReturnType<typeof compactionAt>;

/**
 * Returns the compaction of a row.
 * @throws EspalierError `unknown-entry` if the row is not a compaction
 */
export function compactionAt(tree: Tree, row: number) {
  const entry = row >= 0 && row < tree.length ? tree.entryAt(row) : undefined;
  if (!entry || !compaction.is(entry))
    throw new EspalierError("unknown-entry", `Row ${row} of this session is not a compaction.`);
  const before = spanBefore(tree, row);
  const keptFrom = before.rows.findIndex((at) => tree.idAt(at) === entry.firstKeptEntryId);
  const cut = keptFrom < 0 ? before.rows.length : keptFrom;
  const { usage } = entry;
  return {
    row,
    id: entry.id,
    timestamp: entry.timestamp,
    /** Whole text that the model reads. */
    summary: entry.summary,
    /** Text of the summarizer, without the blocks that the engine adds. */
    prose: proseOf(entry.summary),
    /** Tokens of the context before, by kind; see `TOKEN_KINDS`. */
    before: before.tokens,
    /** Tokens of the context after, by kind. */
    after: tokensOf(contextAt(tree, row).messages),
    /** Rows of the entries that the summary replaces. */
    covered: before.rows.slice(0, cut),
    /** Rows of the entries that the compaction keeps. */
    kept: before.rows.slice(cut),
    /** Row of the compaction whose summary this one updates; -1 for the first on its path. */
    previousRow: before.previousRow,
    /**
     * Built-in prompts for a model; sent prompts are not recorded. Null if the engine asked no model: the summary is from
     * an extension, was extracted from the messages, or was made by another program.
     */
    prompts: promptsOf(entry, before.previousRow >= 0),
    /** US dollars; null if the cost is 0 or not recorded. */
    cost: costOf(usage) || null,
    /** Effect on the provider's prompt cache. */
    cache: forecastNavigation(tree, tree.index.parent(row), row),
    /** Billed tokens of the summary; null if nothing was billed. */
    usage: isRecord(usage) ? { input: amount(usage.input), output: amount(usage.output) } : null,
    /** Recorded details; other programs record fewer than the engine, or none. */
    details: detailsOf(entry),
  };
}

/**
 * Returns facts about the context of the model before a compaction: its tokens by kind, the rows of its entries without
 * compactions, and the row of the compaction in it (-1 if there is none).
 */
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

/** Writers of summaries that use no prompt: an extension, and the extractive summarizer. */
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

/** Maximum number of origins. */
const BEST = 5;
/** Score above which an entry is an origin. */
const LEAST = 0.15;

/** Minimum length of a word. Shorter words are in nearly every text. */
const SHORTEST_WORD = 3;

/** Matches paths, numbers and names of code, which are more specific than ordinary words. */
const NAME = /[\d_./$-]/;
const NAME_WEIGHT = 3;

/** Maximum number of characters of a snippet: half of them before a word, half from its beginning on. */
const SNIPPET = 160;

/**
 * Returns the entries from which a line of a compaction's summary most likely comes, best first. Candidates are the
 * covered entries that share words with the line; rare words, and names of code and files, count more. If the summary
 * updates an older one, the entries of the older one are candidates too. Returns at most 5 entries, each with a score above
 * 0.15; none for a line without words of at least 3 characters.
 *
 * @throws EspalierError `unknown-entry` if the row is not a compaction
 */
export async function originsOf(tree: Tree, compactionRow: number, line: string) {
  const words = [...new Set(wordsOf(line))];
  if (words.length === 0) return [];
  const found: { row: number; text: string; shared: string[] }[] = [];
  /** Number of entries with a word. */
  const counts = new Map(words.map((word) => [word, 0]));
  await longWork("search", async (breathe) => {
    for (const row of coveredRows(tree, compactionRow)) {
      const text = textOfEntry(tree.entryAt(row));
      const has = new Set(wordsOf(text));
      const shared = words.filter((word) => has.has(word));
      for (const word of shared) counts.set(word, counts.get(word)! + 1);
      found.push({ row, text, shared });
      await breathe();
    }
  });
  /** Weight of a word: the rarer among the entries, the higher; three times as high for a {@link NAME}. */
  const weightOf = (word: string) =>
    (NAME.test(word) ? NAME_WEIGHT : 1) * Math.log(1 + found.length / (1 + counts.get(word)!));
  const weights = new Map(words.map((word) => [word, weightOf(word)]));
  const weigh = (some: readonly string[]) => some.reduce((sum, word) => sum + weights.get(word)!, 0);
  const whole = weigh(words);
  return found
    .map(({ row, text, shared }) => {
      const rarest = shared.toSorted((a, b) => weights.get(b)! - weights.get(a)!)[0];
      return {
        row,
        /** Share of the line's words that the entry contains, weighted by rarity, from 0 to 1. */
        score: weigh(shared) / whole,
        /** Part of the entry, about 160 characters around the shared word with the highest weight; one line. */
        snippet: rarest === undefined ? "" : around(text, rarest),
      };
    })
    .filter(({ score }) => score > LEAST)
    .toSorted((a, b) => b.score - a.score || a.row - b.row)
    .slice(0, BEST);
}

function* coveredRows(tree: Tree, compactionRow: number): Generator<number> {
  for (let at = compactionRow; at >= 0; ) {
    const { covered, previousRow } = compactionAt(tree, at);
    yield* covered;
    at = previousRow;
  }
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
