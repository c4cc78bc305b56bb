import { columnsOf, padToColumns } from "../text-columns.ts";
import { renderInline } from "./markdown-inline.ts";
import { type MarkdownBlock, type MarkdownLook, wrapped } from "./markdown-look.ts";

/** The fewest columns that a cell is squeezed into. */
const NARROWEST = 6;

/** Between two cells. */
const GAP = "  ";

/** A table in the columns there are: cells that are too long are broken, the longest ones first. */
export function renderTable({ blocks }: MarkdownBlock, { columns, colours }: MarkdownLook): string[] {
  const rows = blocks.flatMap((part) => part.blocks);
  const cells = rows.map((row) =>
    row.blocks.map((cell) => renderInline(cell.blocks[0]?.token.children ?? [], colours)),
  );
  const header = cells[0] ?? [];
  const widths = fitted(
    header.map((_, at) => Math.max(1, ...cells.map((row) => columnsOf(row[at] ?? "")))),
    columns - GAP.length * (header.length - 1),
  );
  const [head = [], ...body] = cells.map((row) => rowLines(row, widths));
  const rule = colours.dim(widths.map((width) => "─".repeat(width)).join(GAP));
  return [...head.map((line) => colours.bold(line)), rule, ...body.flat()];
}

/** The widths of columns, the widest made narrower until all fit. */
function fitted(natural: readonly number[], columns: number): number[] {
  const widths = [...natural];
  for (let over = sum(widths) - columns; over > 0; ) {
    const widest = Math.max(...widths);
    if (widest <= NARROWEST) break;
    const next = Math.max(NARROWEST, ...widths.filter((width) => width < widest));
    const at = widths.indexOf(widest);
    const cut = Math.max(1, Math.min(over, widest - next));
    widths[at] = widest - cut;
    over -= cut;
  }
  return widths;
}

function rowLines(row: readonly string[], widths: readonly number[]): string[] {
  const broken = widths.map((width, at) => wrapped(row[at] ?? "", width));
  const height = Math.max(1, ...broken.map(({ length }) => length));
  return Array.from({ length: height }, (_, line) =>
    broken
      .map((lines, at) => padToColumns(lines[line] ?? "", widths[at]!))
      .join(GAP)
      .trimEnd(),
  );
}

const sum = (numbers: readonly number[]): number => numbers.reduce((total, one) => total + one, 0);
