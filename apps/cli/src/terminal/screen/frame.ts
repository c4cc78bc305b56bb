import { columnsOf, cutToColumns } from "../../text.ts";

/** Meaning of a part of a line, from which the painter chooses its colour. */
export type Style =
  | "plain"
  | "dim"
  | "strong"
  | "heading"
  | "user"
  | "model"
  | "tool"
  | "summary"
  | "label"
  | "leaf"
  | "code"
  | "match"
  | "error"
  | "cursor";

export interface Span {
  text: string;
  style: Style;
  /** True for the row that keys act on. */
  isSelected?: boolean;
}

export interface Line {
  spans: readonly Span[];
  /** Width in columns, if known, so that a fitted line is not measured again. */
  columns?: number;
}

/** A screen, with as many lines as it is high. */
export type Frame = readonly Line[];

export const span = (text: string, style: Style = "plain"): Span => ({ text, style });

export const line = (...parts: readonly (Span | string)[]): Line => ({
  spans: parts.map((part) => (typeof part === "string" ? span(part) : part)),
});
export const EMPTY: Line = { spans: [] };
const lineText = ({ spans }: Line): string => spans.map(({ text }) => text).join("");

export const lineWidth = ({ spans }: Line): number =>
  spans.reduce((width, { text }) => width + columnsOf(text), 0);

/** Returns the line as the selected line, over its whole width. */
export function selectLine(given: Line, columns: number): Line {
  const { spans } = fitLine(given, columns);
  return { spans: spans.map((one) => ({ ...one, isSelected: true })), columns };
}

/** Returns a frame as plain text, as a terminal without colours shows it. */
export const frameText = (frame: Frame): string => frame.map((one) => lineText(one).trimEnd()).join("\n");

/** Returns the line with exactly this width: cut with `…`, or filled with spaces. */
export function fitLine(given: Line, columns: number): Line {
  if (given.columns === columns) return given;
  const spans: Span[] = [];
  let left = Math.max(0, columns);
  for (const one of given.spans) {
    if (left === 0) break;
    const { text } = one;
    const width = columnsOf(text);
    const fitting = width <= left ? text : cutToColumns(text, left);
    spans.push({ ...one, text: fitting });
    left -= width <= left ? width : columnsOf(fitting);
    if (width > columnsOf(fitting)) break;
  }
  if (left > 0) spans.push(span(" ".repeat(left)));
  return { spans, columns: Math.max(0, columns) };
}

/** Returns exactly this many lines: cut, or filled with empty lines. */
export function fitLines(lines: readonly Line[], height: number): Line[] {
  const fitting = lines.slice(0, Math.max(0, height));
  while (fitting.length < height) fitting.push(EMPTY);
  return fitting;
}

/** Joins two columns of lines, with `between` between them. The result has as many lines as `left`. */
export function beside(left: readonly Line[], leftColumns: number, between: Span, right: readonly Line[]) {
  return left.map((one, at) => ({
    spans: [...fitLine(one, leftColumns).spans, between, ...(right[at]?.spans ?? [])],
  }));
}

/** Returns a line of this width with two parts at its ends. If they do not fit, it is wider: one space is between. */
export function alignEnds(left: readonly Span[], right: readonly Span[], columns: number): Line {
  const gap = columns - lineWidth({ spans: left }) - lineWidth({ spans: right });
  return { spans: [...left, span(" ".repeat(Math.max(1, gap))), ...right] };
}
