import { EMPTY, fitLine, fitLines, type Line, line, selectLine, span } from "./frame.ts";
import type { Dialog } from "./state.ts";
import { fieldLines } from "./text-field.ts";

/** Columns that a dialog has at the most: longer lines are hard to read. */
const WIDEST = 100;

/** A dialog over the lower end of a body: the title, what it says, the field, the choices. */
export function overBody(body: readonly Line[], shown: Dialog, columns: number): Line[] {
  const width = Math.min(columns, WIDEST);
  const field = shown.field ? fieldLines(shown.field) : [];
  const choices = shown.choices.map(({ key, title }, at): Line => {
    const isChosen = at === shown.chosen;
    const drawn = line(span(isChosen ? " ▸ " : "   ", "leaf"), span(key.padEnd(3), "heading"), span(title));
    return isChosen ? selectLine(drawn, columns) : drawn;
  });
  const said = shown.body(width - 2);
  const around = field.length + choices.length + (field.length > 0 ? 2 : 1);
  const room = Math.max(1, body.length - 1 - around);
  const scroll = Math.min(shown.scroll, Math.max(0, said.length - room));
  const window = said.slice(scroll, scroll + room);
  const left = said.length - scroll - window.length;
  const more = said.length > room ? ` ${scroll > 0 ? "↑" : ""}${left > 0 ? `${left} more, PgDn ↓` : ""}` : "";
  const lines: Line[] = [
    titleLine(shown.title, more, columns),
    ...window.map((one): Line => ({ spans: [span(" "), ...one.spans] })),
    ...(field.length > 0 ? [EMPTY, ...lastLines(field, room).map(inField)] : []),
    ...choices,
  ].slice(0, body.length);
  return [...body.slice(0, body.length - lines.length), ...fitLines(lines, lines.length)];
}

const inField = (one: Line): Line => ({ spans: [span(" > ", "leaf"), ...one.spans] });

/** Of a long text the lines around its end, where one mostly types. */
const lastLines = (lines: readonly Line[], most: number): readonly Line[] => {
  const at = lines.findIndex(({ spans }) => spans.some(({ style }) => style === "cursor"));
  const from = Math.max(0, Math.min(at - most + 1, lines.length - most));
  return lines.slice(from, from + Math.max(1, most));
};

function titleLine(title: string, more: string, columns: number): Line {
  const text = `── ${title} `;
  const rest = Math.max(0, columns - text.length - more.length - 1);
  return fitLine(line(span(text, "heading"), span("─".repeat(rest), "dim"), span(more, "dim")), columns);
}
