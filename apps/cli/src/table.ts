import type { Shell } from "./shell.ts";
import { columnsOf, cutToColumns, padToColumns } from "./text.ts";

/** Minimum width of the first column when a table is wider than the terminal. */
const NARROWEST = 12;

/**
 * Draws a table. The first column is left-aligned; in a table wider than the terminal its cells are cut, but not below
 * 12 columns. The others are right-aligned numbers.
 */
export function* viewTable(
  headings: readonly string[],
  rows: readonly (readonly string[])[],
  { colours, columns = Number.POSITIVE_INFINITY }: Pick<Shell, "colours"> & Partial<Pick<Shell, "columns">>,
): Generator<string> {
  const widths = headings.map((heading, column) =>
    Math.max(columnsOf(heading), ...rows.map((cells) => columnsOf(cells[column] ?? ""))),
  );
  const [first = 0, ...others] = widths;
  const room = columns - others.reduce((sum, width) => sum + width + 2, 0);
  widths[0] = Math.min(first, Math.max(NARROWEST, room));
  const line = (cells: readonly string[]) =>
    cells
      .map((cell, column) =>
        column === 0
          ? padToColumns(cutToColumns(cell, widths[0]!), widths[0]!)
          : " ".repeat(Math.max(0, widths[column]! - columnsOf(cell))) + cell,
      )
      .join("  ")
      .trimEnd();
  yield colours.dim(line(headings));
  for (const cells of rows) yield line(cells);
}
