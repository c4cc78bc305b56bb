import {
  branchSummary,
  compaction,
  contextEdit,
  fieldText,
  labelsInForce,
  rowOfLeaf,
  rowsOf,
  sessionName,
  spokenRow,
  type Tree,
  tipRows,
  titleOf,
} from "@espalier/session-tree";

import { gistAt, oneLine, textOfEntry } from "./entry-gist.ts";
import { longWork } from "./long-work.ts";

/** A compaction in the tree. */
export interface CompactionMark {
  row: number;
  id: string;
  /** Row of the first entry that it keeps; its own row if it keeps none, or none that exists. */
  firstKeptRow: number;
  tokensBefore: number;
}

/** A change of an entry's content for the model, from the position of the change on. */
export interface EditMark {
  row: number;
  targetRow: number;
  /** True for an edit that leaves the entry out; false for one that replaces its content. */
  hides: boolean;
}

/** Facts about a session that are shown with its tree. */
export interface SessionFacts {
  id: string;
  name: string | null;
  /** The name, else the first prompt, else the id. */
  title: string;
  cwd: string;
  /** ISO 8601; empty without a header. */
  created: string;
  version: number;
  /** Number of entries. */
  length: number;
  /** Leaf of the session; -1 before the first entry. */
  leafRow: number;
  leafId: string | null;
  labels: { row: number; label: string }[];
  compactions: CompactionMark[];
  edits: EditMark[];
  /** Branch summaries, and the last row of the branch that each summarizes. */
  summaries: { row: number; fromRow: number }[];
  /** Number of damaged or doubtful lines. */
  issues: number;
  bytes: number;
}

export function factsOf(tree: Tree): SessionFacts {
  const { header, index } = tree;
  const leafRow = rowOfLeaf(tree);
  return {
    id: header?.id ?? "",
    name: sessionName(tree) ?? null,
    title: titleOf(tree) ?? "No prompt yet",
    cwd: header?.cwd ?? "",
    created: header?.timestamp ?? "",
    version: header?.version ?? 0,
    length: tree.length,
    leafRow,
    leafId: leafRow < 0 ? null : tree.idAt(leafRow),
    labels: [...labelsInForce(tree)].flatMap(([id, { label }]) => {
      const row = index.rowOf(id);
      return row < 0 ? [] : [{ row, label }];
    }),
    compactions: [...compactionMarks(tree)],
    edits: [...editMarks(tree)],
    summaries: [...rowsOf(tree, branchSummary.type)].flatMap(([row, entry]) => {
      const fromRow = branchSummary.is(entry) ? index.rowAbove(fieldText(entry.fromId), row) : -1;
      return fromRow < 0 ? [] : [{ row, fromRow }];
    }),
    issues: tree.issues.length,
    bytes: tree.view.size,
  };
}

function* compactionMarks(tree: Tree): Generator<CompactionMark> {
  for (const [row, entry] of rowsOf(tree, compaction.type)) {
    if (!compaction.is(entry)) continue;
    const kept = tree.index.rowAbove(entry.firstKeptEntryId, row);
    // Other programs may write a compaction without this number, or with another value.
    const tokensBefore = Number.isFinite(entry.tokensBefore) ? entry.tokensBefore : 0;
    yield { row, id: entry.id, firstKeptRow: kept < 0 ? row : kept, tokensBefore };
  }
}

function* editMarks(tree: Tree): Generator<EditMark> {
  for (const [row, entry] of rowsOf(tree, contextEdit.type)) {
    if (!contextEdit.is(entry)) continue;
    const targetRow = tree.index.rowAbove(entry.targetId, row);
    if (targetRow >= 0) yield { row, targetRow, hides: entry.replacement === null };
  }
}

/** A hit of a search in a session. */
export interface FoundText {
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

/** Finds the rows of a log whose lines may have a text of ASCII letters, in any case, without parsing them. */
export type RowFinder = (tree: Tree, text: string, signal?: AbortSignal) => Promise<Iterable<number>>;

export interface FindOptions {
  /** Finds the rows to read. Default: all rows are read. */
  rowsWith?: RowFinder;
  /** Aborts the search, which throws the signal's reason. */
  signal?: AbortSignal;
}

/** Finds entries of the conversation that contain a text, ignoring case. */
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

/** Letters of a word by which lines are chosen: shorter ones are in most lines. */
const SHORTEST = 3;

/** The longest part of a text that every JSON writer leaves as it is; empty where there is none. */
const longestWord = (text: string): string =>
  (text.match(/[\w.-]+/g) ?? []).reduce((best, word) => (word.length > best.length ? word : best), "");

/** An end of the tree: a branch that a user can choose. */
export interface BranchEnd {
  row: number;
  id: string;
  /** Label of the last entry; empty without one. */
  label: string;
  /** Text of its last message, on one line. */
  text: string;
  timestamp: string;
}

/** Returns the ends of all branches, newest first. */
export function branchEnds(tree: Tree): BranchEnd[] {
  const labels = labelsInForce(tree);
  return tipRows(tree)
    .map((row) => {
      const spoken = gistAt(tree, Math.max(0, spokenRow(tree, row)));
      const id = tree.idAt(row);
      return { row, id, label: labels.get(id)?.label ?? "", text: spoken.text, timestamp: spoken.timestamp };
    })
    .reverse();
}
