import { type EntryLook, entryLines } from "./entry-lines.ts";
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

/** The lines of a preview, as far as they were laid out. */
interface Laid {
  lines: readonly Line[];
  /** False when there are more. */
  isWhole: boolean;
}

/** Lines of the preview, of which a screen shows a part: at least `needed`, or all there are. */
export function previewLines(state: Looked, tree: TreeState, needed: number): Laid {
  if (tree.cursor < 0) return whole([line(span("There is nothing in this session yet.", "dim"))]);
  const columns = treeLayout(state, tree.isReading).previewColumns;
  return LAID[tree.tab](tree, { columns, isDetailed: tree.isDetailed, isColoured: state.isColoured }, needed);
}

const whole = (lines: readonly Line[]): Laid => ({ lines, isWhole: true });

const WAITING = whole([line(span("…", "dim"))]);

const LAID: Readonly<Record<PreviewTab, (tree: TreeState, look: EntryLook, needed: number) => Laid>> = {
  entry: layRun,
  context: ({ context, cursor }, { columns }) =>
    context?.row === cursor ? whole(contextLines(context.value, columns)) : WAITING,
  usage: ({ usage, cursor }, { columns }) =>
    usage?.row === cursor ? whole(usageLines(usage.value, columns)) : WAITING,
};

/** What was laid out last, and how far: a key that only scrolls asks for the same again, or for a little more. */
let laid: { model: TreeModel; key: string; lines: Line[]; next: number } | undefined;

function layRun(tree: TreeState, look: EntryLook, needed: number): Laid {
  const { view, cursor } = tree;
  const { model } = view;
  const position = cursorPosition(tree);
  const isFolded = view.filter === "turns" && standsOut(model, position) && !view.unfolded.has(cursor);
  const end = isFolded ? runEnd(model, position, RUN_SHOWN) : position + 1;
  const key = JSON.stringify([cursor, end, look]);
  if (laid?.model !== model || laid.key !== key) laid = { model, key, lines: [], next: position };
  while (laid.next < end && laid.lines.length < needed) {
    const row = rowAt(model, laid.next++);
    if (row !== cursor && model.kinds.of(row) === "beside") continue;
    const marks = { label: model.labels.get(row), isHidden: model.hiddenRows.has(row) };
    laid.lines.push(...entryLines(model.tree.entryAt(row), marks, look, row !== cursor));
    if (laid.next === end && end - position >= RUN_SHOWN)
      laid.lines.push(line(span("… and so on; unfold the turn to read further", "dim")));
  }
  return { lines: laid.lines, isWhole: laid.next >= end };
}

/** How far a preview can be scrolled, if it can be so far as wanted. */
export function furthestScroll(state: Looked, tree: TreeState, wanted: number): number {
  const { previewHeight } = treeLayout(state, tree.isReading);
  const { lines } = previewLines(state, tree, wanted + previewHeight);
  return Math.max(0, Math.min(wanted, lines.length - previewHeight));
}
