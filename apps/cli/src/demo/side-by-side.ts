import { cutToColumns, padToColumns } from "../text-columns.ts";

const GAP = " │ ";

/** Two texts beside one another, each under its title. */
export function* sideBySide(
  left: { title: string; lines: readonly string[] },
  right: { title: string; lines: readonly string[] },
  columns: number,
): Generator<string> {
  const width = columnWidth(columns);
  const height = Math.max(left.lines.length, right.lines.length);
  yield row(left.title, right.title, width);
  yield `${"─".repeat(width)}─┼─${"─".repeat(width)}`;
  for (let at = 0; at < height; at++) yield row(left.lines[at] ?? "", right.lines[at] ?? "", width);
}

/** What one of the two has. */
export function columnWidth(columns: number): number {
  return Math.max(16, Math.floor((Math.min(columns - 1, 140) - GAP.length) / 2));
}

function row(left: string, right: string, width: number): string {
  return `${padToColumns(cutToColumns(left, width), width)}${GAP}${cutToColumns(right, width)}`.trimEnd();
}
