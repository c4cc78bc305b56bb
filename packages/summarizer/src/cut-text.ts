import { splitsPair } from "./code-points.ts";

/** Where a cut text keeps its characters: at the beginning, or half at each end. */
export type CutShape = "head" | "head-tail";

/** A text within a limit, and how many of its characters were left out (0 when it stands whole). */
export interface Cut {
  text: string;
  /** Characters (UTF-16 code units). */
  leftOut: number;
}

/** What stands in place of text that was left out. */
export const cutMark = (characters: number): string => `[… ${characters} characters left out]`;

/**
 * Keeps at most `limit` characters (UTF-16 code units) of a text and says in it how many were left out; the mark comes
 * on top of the limit. A code point is never split: a pair at the cut is left out whole.
 */
export function cut(text: string, limit: number, shape: CutShape = "head"): Cut {
  const room = Math.max(0, Math.floor(limit));
  if (text.length <= room) return { text, leftOut: 0 };
  const headRoom = shape === "head" ? room : Math.ceil(room / 2);
  const head = text.slice(0, splitsPair(text, headRoom) ? headRoom - 1 : headRoom);
  const tailStart = text.length - (room - headRoom);
  const tail = text.slice(splitsPair(text, tailStart) ? tailStart + 1 : tailStart);
  const leftOut = text.length - head.length - tail.length;
  const lines = [head, cutMark(leftOut), tail].filter((line) => line !== "");
  return { text: lines.join("\n"), leftOut };
}

/** {@link cut} without the count. */
export function cutText(text: string, limit: number, shape: CutShape = "head"): string {
  return cut(text, limit, shape).text;
}
