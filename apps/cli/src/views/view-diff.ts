import type { BranchComparison, BranchSide, Session } from "@espalier/engine";
import { message } from "@espalier/session-tree";
import { previewEntry } from "../entry-preview.ts";
import { formatCost, formatCount } from "../numbers.ts";
import { plainLine } from "../plain-text.ts";
import type { Shell } from "../shell.ts";
import { cutToColumns } from "../text-columns.ts";
import { viewTable } from "./view-table.ts";

/** Columns of an entry's line where no terminal says how many there are. */
const WIDE = 120;

/** Two branches for people: where they part, what each comes to, and what was said on each. */
export function* viewDiff(
  session: Session,
  { commonAncestorId, a, b }: BranchComparison,
  { colours, columns }: Pick<Shell, "colours" | "columns">,
): Generator<string> {
  const width = Math.min(columns, WIDE);
  yield colours.bold(
    commonAncestorId === null ? "They have no entry in common." : "The last entry they have in common:",
  );
  if (commonAncestorId !== null) yield entryLine(session, commonAncestorId, width);
  yield "";
  const row = (name: string, cell: (side: BranchSide) => string) => [name, cell(a), cell(b)];
  yield* viewTable(
    ["", ...[a, b].map(({ leafId }) => plainLine(leafId ?? "start"))],
    [
      row("entries", ({ entryIds }) => formatCount(entryIds.length)),
      row("messages", ({ messages }) => formatCount(messages)),
      row("tokens", ({ tokens }) => formatCount(tokens)),
      row("cost", ({ cost }) => formatCost(cost)),
      row("files", ({ files }) => formatCount(files.length)),
    ],
    colours,
  );
  for (const side of [a, b]) yield* sideLines(session, side, colours, width);
}

function* sideLines(
  session: Session,
  { leafId, entryIds, files }: BranchSide,
  colours: Shell["colours"],
  width: number,
): Generator<string> {
  yield "";
  yield colours.bold(`Only on the branch of ${plainLine(leafId ?? "start")}:`);
  if (entryIds.length === 0) yield "  nothing";
  for (const id of entryIds) yield `  ${entryLine(session, id, width - 2)}`;
  for (const file of files) yield colours.cyan(cutToColumns(`  file ${plainLine(file)}`, width));
}

function entryLine(session: Session, id: string, width: number): string {
  const entry = session.getEntry(id)!;
  const role = message.is(entry) ? entry.message.role : entry.type;
  return cutToColumns(`${plainLine(`${id} ${role}`)}  ${previewEntry(entry) ?? ""}`, width);
}
