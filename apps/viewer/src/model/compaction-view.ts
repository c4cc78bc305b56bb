import {
  type CompactionDetails,
  proseOf,
  SUMMARIZATION_PROMPT,
  TURN_PREFIX_SUMMARIZATION_PROMPT,
  UPDATE_SUMMARIZATION_PROMPT,
} from "@espalier/compaction";
import {
  type CompactionEntry,
  compaction,
  contextOfPath,
  pathWindowAt,
  projectPath,
  SessionTreeError,
  type Tree,
} from "@espalier/session-tree";
import { billOf } from "./entry-bill.ts";
import { addTokens, noTokens, type TokenCounts } from "./token-kinds.ts";

/** All there is to know of a compaction. */
export interface CompactionView {
  row: number;
  id: string;
  timestamp: string;
  /** The whole text that the model reads. */
  summary: string;
  /** What of it was written by a summarizer: without the blocks that the engine adds. */
  prose: string;
  /** Tokens by kind before and after; see `TOKEN_KINDS`. */
  before: TokenCounts;
  after: TokenCounts;
  /** Rows of the entries that the summary stands for, and of those that stayed. */
  covered: number[];
  kept: number[];
  /** The compaction whose summary this one goes on from; -1 when it is the first on its path. */
  previousRow: number;
  /**
   * What a model is asked with where nobody says otherwise: entries do not record what was sent. Null where no model of
   * the engine was asked: an extension wrote the summary, it was made from the messages, or another program made it.
   */
  prompts: string[] | null;
  /** US dollars; null where nobody said what it cost. */
  cost: number | null;
  /** Tokens; null where nothing was billed. */
  usage: { input: number; output: number } | null;
  /** What it recorded of itself; programs other than the engine record less, or nothing. */
  details: Partial<CompactionDetails>;
}

/** @throws SessionTreeError `unknown-entry` when the row holds no compaction */
export function compactionAt(tree: Tree, row: number): CompactionView {
  const entry = row >= 0 && row < tree.length ? tree.entryAt(row) : undefined;
  if (!entry || !compaction.is(entry))
    throw new SessionTreeError("unknown-entry", `Row ${row} of this session is no compaction.`);
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
    usage: bill ? { input: bill.input, output: bill.output } : null,
    details: detailsOf(entry),
  };
}

/** What the model read when the compaction was made. */
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

/** Who writes summaries without a prompt: an extension, and the summarizer that takes them from the messages. */
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
