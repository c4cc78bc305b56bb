import { wrapText } from "../../markdown/markdown.ts";
import { plainLine } from "../../text.ts";
import type { TerminalState } from "../state/state.ts";

/** Minimum width in columns for tree and preview side by side. */
const WIDE = 110;

/** Share of the tree's height when the preview is below it. */
const TREE_SHARE = 0.5;

/** Number of lines around the body: the heading above, the keys below. */
const AROUND = 2;

/** Number of lines of a frame. */
export const frameHeight = ({ size }: Pick<TerminalState, "size">): number => Math.max(4, size.rows);
export const bodyHeight = (state: Pick<TerminalState, "size">): number => frameHeight(state) - AROUND;

/**
 * Divides a tree's screen, in columns and lines. The preview is `whole` while the user reads in it, else `beside` the
 * tree from 110 columns on, else `below` it.
 */
export function treeLayout(state: Pick<TerminalState, "size">, isReading: boolean) {
  const { columns } = state.size;
  const height = bodyHeight(state);
  if (columns >= WIDE && !isReading) {
    const treeColumns = Math.floor(columns * 0.52);
    return {
      preview: "beside" as const,
      treeColumns,
      treeHeight: height,
      previewColumns: columns - treeColumns - 1,
      // The first line has the tabs.
      previewHeight: height - 1,
    };
  }
  const treeHeight = columns >= WIDE ? height : Math.min(height, Math.max(3, Math.ceil(height * TREE_SHARE)));
  return {
    preview: isReading ? ("whole" as const) : ("below" as const),
    treeColumns: columns,
    treeHeight,
    previewColumns: columns - 1,
    previewHeight: Math.max(0, isReading ? height - 1 : height - treeHeight - 1),
  };
}

/** Maximum number of lines of a notice. */
const NOTICE_LINES = 4;

/**
 * Returns the lines of the notice at the end of the screen, from its wrapped text: at most 4, so that the row of the
 * cursor stays visible; the last line has the rest of the text. Empty without a notice, in a dialog, and while the
 * query of a search is typed.
 */
export function noticeTexts(state: TerminalState): string[] {
  const { notice, dialog, tree, size } = state;
  if (!notice || dialog || tree?.search) return [];
  const lines = wrapText(plainLine(notice.text), size.columns - 1);
  const height = bodyHeight(state);
  const layout = tree && treeLayout(state, tree.isReading);
  const room = layout?.preview === "below" ? height - layout.treeHeight : Math.floor(height / 2);
  const most = Math.min(NOTICE_LINES, 1 + room);
  return lines.length > most ? [...lines.slice(0, most - 1), lines.slice(most - 1).join(" ")] : lines;
}
