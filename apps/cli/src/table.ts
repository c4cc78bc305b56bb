import type { Colours } from "./shell.ts";
import { columnsOf, padToColumns } from "./text.ts";

/** Draws a table for people: the first column is aligned left, the others, which are numbers, right. */
export function* viewTable(
  headings: readonly string[],
  rows: readonly (readonly string[])[],
  colours: Colours,
): Generator<string> {
  const widths = headings.map((heading, column) =>
    Math.max(columnsOf(heading), ...rows.map((cells) => columnsOf(cells[column] ?? ""))),
  );
  const line = (cells: readonly string[]) =>
    cells
      .map((cell, column) =>
        column === 0
          ? padToColumns(cell, widths[column]!)
          : " ".repeat(Math.max(0, widths[column]! - columnsOf(cell))) + cell,
      )
      .join("  ")
      .trimEnd();
  yield colours.dim(line(headings));
  for (const cells of rows) yield line(cells);
}
