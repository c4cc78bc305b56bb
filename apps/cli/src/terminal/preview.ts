import type { Entry } from "@espalier/session-tree";
import { type EntryLook, entriesLines } from "./entry-lines.ts";
import { type Line, line, span } from "./frame.ts";
import { treeLayout } from "./layout.ts";
import { usageLines } from "./path-usage.ts";
import { contextLines } from "./read-context.ts";
import type { PreviewTab, TerminalState, TreeState } from "./state.ts";
import { cursorPosition } from "./tree-cursor.ts";
import type { TreeModel } from "./tree-model.ts";
import { rowAt, runEnd, standsOut } from "./tree-rows.ts";

export const TABS: readonly { name: PreviewTab; title: string }[] = [
  { name: "entry", title: "what was said" },
  { name: "context", title: "what the model reads here" },
  { name: "usage", title: "usage and cost" },
];

/** Entries of a folded run that are laid out; a longer one is read by unfolding it. */
const RUN_SHOWN = 40;

type Looked = Pick<TerminalState, "size"> & { readonly isColoured: boolean };

/** All lines of the preview, of which a screen shows a part. */
export function previewLines(state: Looked, tree: TreeState): readonly Line[] {
  if (tree.cursor < 0) return [line(span("There is nothing in this session yet.", "dim"))];
  const columns = treeLayout(state, tree.isReading).previewColumns;
  return LINES[tree.tab](tree, columns, state.isColoured);
}

const WAITING: readonly Line[] = [line(span("…", "dim"))];

const LINES: Readonly<
  Record<PreviewTab, (tree: TreeState, columns: number, isColoured: boolean) => readonly Line[]>
> = {
  entry: runLines,
  context: ({ context, cursor }, columns) =>
    context?.row === cursor ? contextLines(context.value, columns) : WAITING,
  usage: ({ usage, cursor }, columns) => (usage?.row === cursor ? usageLines(usage.value, columns) : WAITING),
};

/** What was laid out last: a key that only scrolls asks for the same again. */
let laidOut: { model: TreeModel; key: string; lines: readonly Line[] } | undefined;

function runLines(tree: TreeState, columns: number, isColoured: boolean): readonly Line[] {
  const { view, cursor, isDetailed } = tree;
  const { model } = view;
  const position = cursorPosition(tree);
  const isFolded = view.filter === "turns" && standsOut(model, position) && !view.unfolded.has(cursor);
  const end = isFolded ? runEnd(model, position, RUN_SHOWN) : position + 1;
  const key = [cursor, end, columns, isDetailed, isColoured].join(" ");
  if (laidOut?.model === model && laidOut.key === key) return laidOut.lines;
  const look: EntryLook = { columns, isDetailed, isColoured };
  const entries: { entry: Entry; label: string | undefined }[] = [];
  for (let at = position; at < end; at++) {
    const row = rowAt(model, at);
    if (at === position || model.kinds.of(row) !== "beside")
      entries.push({ entry: model.tree.entryAt(row), label: model.labels.get(row) });
  }
  const lines = entriesLines(entries, look);
  if (isFolded && end - position >= RUN_SHOWN)
    lines.push(line(span("… and so on; unfold the turn to read further", "dim")));
  laidOut = { model, key, lines };
  return lines;
}

/** Where a preview can be scrolled to at most. */
export function lastScroll(state: Looked, tree: TreeState): number {
  const { previewHeight } = treeLayout(state, tree.isReading);
  return Math.max(0, previewLines(state, tree).length - previewHeight);
}
