import { branchSummary, compaction, type Entry, isMessage, type Tree } from "@espalier/session-tree";
import { previewEntry } from "../entry-preview.ts";
import { formatCount } from "../numbers.ts";
import { fieldText, plainLine } from "../plain-text.ts";

/** What a row says of its entry, wherever it stands on a screen. */
export interface RowGist {
  /** The type of its entry, and `shell` for a run of a shell. */
  type: string;
  /** One line, safe for a terminal. */
  text: string;
  /** Epoch milliseconds; NaN where the entry does not say. */
  time: number;
}

/** How many are kept: more than any screen shows, so that a key reads no more than what it brings onto the screen. */
const KEPT = 2_000;

/** What the rows of a tree say: their entries are read once, and kept while one stays near. */
export class RowGists {
  readonly #tree: Tree;
  readonly #known = new Map<number, RowGist>();

  constructor(tree: Tree) {
    this.#tree = tree;
  }

  of(row: number): RowGist {
    const known = this.#known.get(row);
    if (known) return known;
    if (this.#known.size >= KEPT) this.#known.clear();
    const found = gistOf(this.#tree.entryAt(row));
    this.#known.set(row, found);
    return found;
  }
}

function gistOf(entry: Entry): RowGist {
  return {
    type: isMessage(entry, "bashExecution") ? "shell" : entry.type,
    text: plainLine(textOf(entry)),
    time: Date.parse(entry.timestamp),
  };
}

function textOf(entry: Entry): string {
  const text = previewEntry(entry) ?? "";
  if (compaction.is(entry)) return `compaction of ${formatCount(tokensOf(entry))} tokens  ${text}`;
  if (branchSummary.is(entry))
    return `summary of ${plainLine(fieldText(entry.fromId)).slice(0, 12) || "a branch"}  ${text}`;
  return text || entry.type;
}

const tokensOf = ({ tokensBefore }: { tokensBefore: unknown }): number =>
  typeof tokensBefore === "number" ? tokensBefore : 0;
