import type { ReplayStep, Session } from "@espalier/engine";
import { previewEntry } from "../entry-preview.ts";
import { formatCount } from "../numbers.ts";
import { plainLine } from "../plain-text.ts";
import type { Shell } from "../shell.ts";
import { columnsOf, cutToColumns, padToColumns } from "../text-columns.ts";

/** Columns of a step's entry and of its type; longer ones are cut. */
const ID_WIDTH = 12;
const TYPE_WIDTH = 14;

/** The fewest columns for what an entry says, also where that makes a line too long. */
const NARROWEST = 10;

/** One step of a replay on a line: which entry, what the model reads then, where the leaf is, what the entry says. */
export function viewStep(
  session: Session,
  { seq, entryId, type, leafId, contextMessages, contextTokens, verified }: ReplayStep,
  { colours, columns }: Pick<Shell, "colours" | "columns">,
): string {
  const facts = [
    formatCount(seq).padStart(6),
    cell(entryId, ID_WIDTH),
    cell(type, TYPE_WIDTH),
    `${formatCount(contextMessages).padStart(5)} messages`,
    `${formatCount(contextTokens).padStart(9)} tokens`,
  ].join(" ");
  const mark = verified === false ? " differs" : "";
  const moved = leafId === entryId ? "" : `leaf ${leafId ?? "before the first entry"}`;
  const entry = session.getEntry(entryId);
  const said = plainLine(`${moved} ${(entry && previewEntry(entry)) ?? ""}`);
  const room = columns - columnsOf(facts + mark) - 2;
  return `${facts}${colours.red(mark)}  ${colours.dim(cutToColumns(said, Math.max(NARROWEST, room)))}`;
}

/** Ids and types are those of whoever wrote the session: of any length, and of any characters. */
const cell = (text: string, columns: number): string =>
  padToColumns(cutToColumns(plainLine(text), columns), columns);
