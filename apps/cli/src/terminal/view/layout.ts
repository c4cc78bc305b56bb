import type { TerminalState } from "../state/state.ts";

/** Division of a tree's screen, in columns and lines. */
interface TreeLayout {
  /** Position of the preview: `whole` while the user reads in it. */
  preview: "beside" | "below" | "whole";
  treeColumns: number;
  treeHeight: number;
  previewColumns: number;
  previewHeight: number;
}

/** Minimum width in columns for tree and preview side by side. */
const WIDE = 110;

/** Share of the tree's height when the preview is below it. */
const TREE_SHARE = 0.5;

/** Number of lines around the body: the heading above, the keys below. */
const AROUND = 2;

/** Number of lines of a frame. */
export const frameHeight = ({ size }: Pick<TerminalState, "size">): number => Math.max(4, size.rows);
export const bodyHeight = (state: Pick<TerminalState, "size">): number => frameHeight(state) - AROUND;

export function treeLayout(state: Pick<TerminalState, "size">, isReading: boolean): TreeLayout {
  const { columns } = state.size;
  const height = bodyHeight(state);
  if (columns >= WIDE && !isReading) {
    const treeColumns = Math.floor(columns * 0.52);
    return {
      preview: "beside",
      treeColumns,
      treeHeight: height,
      previewColumns: columns - treeColumns - 1,
      // The first line has the tabs.
      previewHeight: height - 1,
    };
  }
  const treeHeight = columns >= WIDE ? height : Math.min(height, Math.max(3, Math.ceil(height * TREE_SHARE)));
  return {
    preview: isReading ? "whole" : "below",
    treeColumns: columns,
    treeHeight,
    previewColumns: columns - 1,
    previewHeight: Math.max(0, isReading ? height - 1 : height - treeHeight - 1),
  };
}
