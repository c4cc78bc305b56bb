import { rulesOn } from "@espalier/compaction";
import {
  addBill,
  type BilledCall,
  billedCallAt,
  CACHE_CAUSES,
  CacheReader,
  compareBranches,
  forecastNavigation,
  nothingBilled,
  statsOfCalls,
} from "@espalier/engine/reading";
import { EspalierError } from "@espalier/jsonl-stream";
import {
  branchSummary,
  compaction,
  contextEdit,
  fieldText,
  labelsInForce,
  pathRows,
  promptText,
  roleAt,
  rowOfLeaf,
  rowsOf,
  sessionName,
  spokenRow,
  type Tree,
  tipRows,
  titleOf,
} from "@espalier/session-tree";
import { compactionAt, contextViewAt, growthTo, originsOf } from "./context.ts";
import { type EntryGist, gistAt, oneLine, textOfEntry } from "./entry-gist.ts";
import { continued, longWork } from "./long-work.ts";
import { outlineOf } from "./outline.ts";

/** Reads a session from its bytes. */
export type TreeReader = ReturnType<typeof treeReader>;

/**
 * Requests of a page about a session. They are answered from the session's bytes if the page has them, else over HTTP,
 * with equal results. A method throws `unknown-entry` for a missing row; ranges of rows may go beyond the last one.
 */
export type SessionReader = Omit<TreeReader, "tree">;

/**
 * Makes the reader of a tree. For `context`, `growth` and `rules`, a row of -1 is the place before the first entry.
 *
 * @param rowsWith finds the rows that a search has to read. Default: all rows
 * @param isFinding returns whether messages without recorded rules are searched for them. Default: they are
 */
export function treeReader(tree: Tree, rowsWith?: RowFinder, isFinding = async () => true) {
  const known = (row: number): number => {
    if (Number.isInteger(row) && row >= 0 && row < tree.length) return row;
    throw new EspalierError(
      "unknown-entry",
      `This session has no row ${row}; its last is ${tree.length - 1}.`,
    );
  };
  return {
    tree,
    facts: async () => factsOf(tree),
    /** Returns the outline of the rows `[from, to)`, or of as many as exist. */
    outline: async (from: number, to: number) => outlineOf(tree, from, to),
    async gists(from: number, to: number) {
      const gists: EntryGist[] = [];
      for (let row = from; row < Math.min(to, tree.length); row++) gists.push(gistAt(tree, row));
      return gists;
    },
    /** Returns entries as they are in the log. */
    entries: async (rows: readonly number[]) => rows.map((row) => tree.entryAt(known(row))),
    /** Returns the row of an id; -1 for an unknown id. */
    rowOf: async (id: string) => tree.index.rowOf(id),
    context: async (row: number) => contextViewAt(tree, row < 0 ? -1 : known(row)),
    growth: async (row: number) => growthTo(tree, row < 0 ? -1 : known(row)),
    spending: async () => spendingOf(tree),
    /** Returns the costs by path, model and kind. */
    stats: async () => statsOfCalls(tree, (await billsOf(tree)).calls),
    /** Returns the breaks of the prompt cache, in file order. */
    breaks: async () => cacheBreaksOf(tree),
    compaction: async (row: number) => compactionAt(tree, row),
    /** Returns the user's rules that apply at a row, oldest first. */
    rules: async (row: number) =>
      row < 0
        ? []
        : rulesOn(
            rowsOfRules(tree, known(row)).map((at) => tree.entryAt(at)),
            { isFinding: await isFinding() },
          ),
    origins: async (compactionRow: number, line: string) => originsOf(tree, compactionRow, line),
    find: async (query: string, signal?: AbortSignal) => findText(tree, query, { rowsWith, signal }),
    /** Returns the ends of all branches, newest first. */
    branches: async () => branchEnds(tree),
    /** Compares two branches, given by their last rows. */
    compare: async (a: number, b: number) => compareBranches(tree, tree.idAt(known(a)), tree.idAt(known(b))),
    /** Returns the effect of a navigation from the leaf to a row on the prompt cache. */
    forecast: async (row: number) => {
      // A navigation to a prompt ends before it, so that the user can edit its text.
      const isPrompt = promptText(tree.entryAt(known(row))) !== null;
      return forecastNavigation(tree, rowOfLeaf(tree), isPrompt ? tree.index.parent(row) : row);
    },
  };
}

/**
 * Returns the rows of a path that are needed to find rules: every row except tool results and answers. Of the answers
 * before each prompt, only the last one is included, with its results, which tell a refusal from a stop.
 */
function rowsOfRules(tree: Tree, row: number): number[] {
  const rows: number[] = [];
  let answer: number[] = [];
  for (const at of pathRows(tree, row)) {
    const role = roleAt(tree, at);
    if (role === "assistant") answer = [at];
    else if (role === "toolResult") answer.push(at);
    else if (role === "user") rows.push(...answer.splice(0), at);
    else rows.push(at);
  }
  return rows;
}

/** Facts about a session that are shown with its tree. */
export type SessionFacts = ReturnType<typeof factsOf>;

export function factsOf(tree: Tree) {
  const { header, index } = tree;
  const leafRow = rowOfLeaf(tree);
  return {
    id: header?.id ?? "",
    name: sessionName(tree) ?? null,
    /** The name, else the first prompt, else `No prompt yet`. */
    title: titleOf(tree) ?? "No prompt yet",
    cwd: header?.cwd ?? "",
    /** ISO 8601; empty without a header. */
    created: header?.timestamp ?? "",
    version: header?.version ?? 0,
    /** Number of entries. */
    length: tree.length,
    /** Leaf of the session; -1 before the first entry. */
    leafRow,
    leafId: leafRow < 0 ? null : tree.idAt(leafRow),
    labels: [...labelsInForce(tree)].flatMap(([id, { label }]) => {
      const row = index.rowOf(id);
      return row < 0 ? [] : [{ row, label }];
    }),
    compactions: [...rowsOf(tree, compaction)].map(([row, { id, firstKeptEntryId, tokensBefore }]) => {
      const kept = index.rowAbove(firstKeptEntryId, row);
      return {
        row,
        id,
        /** Row of the first entry that the compaction keeps; its own row if it keeps none, or if that entry is missing. */
        firstKeptRow: kept < 0 ? row : kept,
        /** Tokens of the context before; 0 if another program recorded no number. */
        tokensBefore: Number.isFinite(tokensBefore) ? tokensBefore : 0,
      };
    }),
    /** Changes of an entry's content for the model, from `row` on. `hides`: the edit leaves the entry out. */
    edits: [...rowsOf(tree, contextEdit)].flatMap(([row, { targetId, replacement }]) => {
      const targetRow = index.rowAbove(targetId, row);
      return targetRow < 0 ? [] : [{ row, targetRow, hides: replacement === null }];
    }),
    /** Branch summaries, and the last row of the branch that each summarizes. */
    summaries: [...rowsOf(tree, branchSummary)].flatMap(([row, { fromId }]) => {
      const fromRow = index.rowAbove(fieldText(fromId), row);
      return fromRow < 0 ? [] : [{ row, fromRow }];
    }),
    /** Number of damaged or doubtful lines. */
    issues: tree.issues.length,
    bytes: tree.view.size,
  };
}

/** A hit of a search in a session. */
interface FoundText {
  row: number;
  snippet: string;
}

/** All hits of a search in a session. */
export interface FoundTexts {
  /** Rows of all entries that contain the text, oldest first. */
  rows: number[];
  /** The newest hits with a part of their text, newest first; at most 200. */
  newest: FoundText[];
}

/** Maximum number of hits with a part of their text. */
const MOST = 200;

/** Number of characters of a snippet before the hit, and from its beginning on. */
const BEFORE = 40;
const AFTER = 160;

/**
 * Finds the rows of a log whose lines may have a text, in any case, without parsing them. The text has only ASCII letters,
 * digits, `_`, `.` and `-`.
 */
export type RowFinder = (tree: Tree, text: string, signal?: AbortSignal) => Promise<Iterable<number>>;

export interface FindOptions {
  /** Finds the rows to read. Default: all rows are read. */
  rowsWith?: RowFinder | undefined;
  /** Aborts the search, which throws the signal's reason. */
  signal?: AbortSignal | undefined;
}

/** Finds entries of the conversation that contain a text, ignoring case and surrounding space; none for an empty text. */
export async function findText(
  tree: Tree,
  query: string,
  { rowsWith, signal }: FindOptions = {},
): Promise<FoundTexts> {
  const wanted = query.toLowerCase().trim();
  const word = longestWord(wanted);
  const rows: number[] = [];
  const newest: FoundText[] = [];
  if (wanted === "") return { rows, newest };
  await longWork("search", async (breathe) => {
    const isFiltered = rowsWith !== undefined && word.length >= SHORTEST;
    const read = isFiltered
      ? [...(await rowsWith(tree, word, signal))]
      : Array.from({ length: tree.length }, (_, row) => row);
    for (const row of read.reverse()) {
      signal?.throwIfAborted();
      if (!tree.kindAt(row).toMessages) continue;
      const text = textOfEntry(tree.entryAt(row));
      const at = text.toLowerCase().indexOf(wanted);
      if (at >= 0) {
        rows.push(row);
        if (newest.length < MOST)
          newest.push({ row, snippet: oneLine(text.slice(Math.max(0, at - BEFORE), at + AFTER)) });
      }
      await breathe();
    }
  });
  return { rows: rows.reverse(), newest };
}

/** Minimum length of a word by which rows are chosen: shorter ones are in most lines. */
const SHORTEST = 3;

/** Returns the longest part of a text that every JSON writer leaves unchanged; empty without one. */
const longestWord = (text: string): string =>
  (text.match(/[\w.-]+/g) ?? []).reduce((best, word) => (word.length > best.length ? word : best), "");

/** An end of the tree: a branch that a user can choose. */
export type BranchEnd = ReturnType<typeof branchEnds>[number];

/** Returns the ends of all branches, newest first. */
function branchEnds(tree: Tree) {
  const labels = labelsInForce(tree);
  return tipRows(tree)
    .map((row) => {
      // The last message of the branch.
      const { text, timestamp } = gistAt(tree, Math.max(0, spokenRow(tree, row)));
      const id = tree.idAt(row);
      return { row, id, label: labels.get(id)?.label ?? "", text, timestamp };
    })
    .reverse();
}

/** Totals after a billed entry. */
export interface SpendingPoint {
  row: number;
  timestamp: string;
  /** US dollars so far. */
  cost: number;
  /** Tokens so far that were not read from the cache, with those written to it. */
  input: number;
  /** Tokens so far that were read from the cache. */
  cached: number;
  /** Output tokens so far. */
  output: number;
}

/** Cost of a session over time, all branches, in file order. */
export interface Spending {
  /** At most about 800 points; the last one has the totals. */
  points: SpendingPoint[];
  /** Entries with a cost: [row, dollars]. */
  costs: [number, number][];
}

const POINTS = 800;

/** Billed calls of the first rows of a tree, and their totals. */
const noBills = () => ({
  length: 0,
  calls: new Map<number, BilledCall>(),
  points: [] as SpendingPoint[],
  costs: [] as [number, number][],
  sums: nothingBilled(),
});

const bills = new WeakMap<Tree, Promise<ReturnType<typeof noBills>>>();
const caches = new WeakMap<Tree, Promise<CacheReader>>();

const billsOf = (tree: Tree) =>
  continued("bills", bills, tree, async (kept = noBills(), breathe) => {
    for (; kept.length < tree.length; kept.length++) {
      addCall(tree, kept.length, kept);
      await breathe();
    }
    return kept;
  });

function addCall(tree: Tree, row: number, { calls, points, costs, sums }: ReturnType<typeof noBills>): void {
  const call = billedCallAt(tree, row);
  if (!call) return;
  calls.set(row, call);
  const before = sums.cost;
  addBill(sums, call.usage, call);
  if (sums.cost > before) costs.push([row, sums.cost - before]);
  const { cost, input, cacheWrite, cacheRead: cached, output } = sums;
  const { timestamp } = tree.entryAt(row);
  points.push({ row, timestamp, cost, input: input + cacheWrite, cached, output });
}

export async function spendingOf(tree: Tree): Promise<Spending> {
  const { points, costs } = await billsOf(tree);
  const stride = Math.ceil(points.length / POINTS);
  return {
    points: points.filter((_, at) => at % stride === 0 || at === points.length - 1),
    costs: [...costs],
  };
}

/** A call for which the provider's prompt cache missed earlier content. */
export type CacheBreakPoint = Awaited<ReturnType<typeof cacheBreaksOf>>[number];

/** Breaks of the prompt cache, in file order. */
async function cacheBreaksOf(tree: Tree) {
  const reader = await continued("breaks", caches, tree, async (kept = new CacheReader(tree), breathe) => {
    while (kept.step()) await breathe();
    return kept;
  });
  return reader.ledger.breaks.map(({ call, entryId, tokens, cost, cause }) => ({
    /** Row of the call. */
    row: tree.row(call),
    /** Row of the entry that changed the prefix. */
    brokenBy: tree.row(entryId),
    /** Tokens that were paid again. */
    tokens,
    /** Cost in US dollars. */
    cost,
    /** Cause in words, for people. */
    cause: CACHE_CAUSES[cause],
  }));
}

/**
 * Returns the attributes of the script that holds the lines of a session inside a page.
 *
 * @param leftOut number of entries of the session that are not in the lines
 */
export function sessionAttributes(id: string, leftOut: number): string {
  const note = ` data-of="${encodeURIComponent(id.toWellFormed())}" data-left-out="${leftOut}"`;
  return `type="application/octet-stream" id="session"${leftOut > 0 ? note : ""}`;
}
