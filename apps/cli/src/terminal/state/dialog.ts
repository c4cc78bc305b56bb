import { agentTitle } from "@espalier/interop";
import { wrapText } from "../../markdown/markdown.ts";
import { plainLine } from "../../text.ts";
import { EMPTY, fitLine, fitLines, type Line, line, selectLine, span } from "../screen/frame.ts";
import type { Choice, Dialog, TerminalState } from "./state.ts";
import { editText, fieldLines, insertText, type TextField } from "./text-field.ts";

/** Opens a dialog. `text` returns lines for a width, or is sentences to wrap; an empty sentence has no line. */
export function openDialog(
  state: TerminalState,
  title: string,
  text: string | readonly string[] | Dialog["body"],
  choices: readonly Choice[] = [],
  rest: Partial<Dialog> = {},
): TerminalState {
  const body: Dialog["body"] =
    typeof text === "function"
      ? text
      : (columns) => [text].flat().flatMap((sentence) => paragraph(sentence, columns));
  return { ...state, dialog: { title, body, choices, scroll: 0, chosen: 0, ...rest } };
}

/** The choice that changes nothing. */
export const CANCEL: Choice = { key: "n", title: "cancel", run: (closed) => closed };

const LETTERS = "abcdefghijklmnopqrstuvwxyz";

/**
 * Makes a choice for each agent. Its key is the first letter of the agent's title that is free.
 *
 * @param others the other choices of the dialog
 */
export function agentChoices<Name extends string>(
  agents: readonly Name[],
  others: readonly Choice[],
  choiceOf: (agent: Name, title: string) => Omit<Choice, "key">,
): Choice[] {
  const taken = new Set([...others.map(({ key }) => key), ...Object.keys(STEPS)]);
  return agents.map((agent) => {
    const title = agentTitle(agent);
    const letters = [...title.toLowerCase(), ...LETTERS];
    const key = letters.find((letter) => LETTERS.includes(letter) && !taken.has(letter)) ?? "";
    taken.add(key);
    return { key, ...choiceOf(agent, title) };
  });
}

/** Wraps a sentence; empty for an empty text. */
export const paragraph = (text: string, columns: number): Line[] =>
  text === "" ? [] : wrapText(plainLine(text), columns).map((one) => line(one));

/** Opens a dialog for a text on one line. */
export const openField = (
  state: TerminalState,
  title: string,
  field: TextField,
  accept: NonNullable<Dialog["accept"]>,
): TerminalState => openDialog(state, title, "", [], { field, accept });

/** Handles a key of a dialog. An answer receives a state in which the dialog is closed. */
export function updateDialog(state: TerminalState, shown: Dialog, key: string): TerminalState {
  const closed: TerminalState = { ...state, dialog: undefined };
  if (key === "escape" || key === "ctrl-c") return shown.cancel?.(closed) ?? closed;
  if (shown.field) return updateField(closed, shown, shown.field, key);
  const choice = key === "enter" ? shown.choices[shown.chosen] : shown.choices.find((one) => one.key === key);
  if (choice) return choice.run(closed);
  if (shown.choices.length === 0 && (key === "q" || key === "enter" || key === "?")) return closed;
  return { ...state, dialog: scrollDialog(shown, key) };
}

function updateField(closed: TerminalState, shown: Dialog, field: TextField, key: string): TerminalState {
  const { hasLines = false, accept } = shown;
  if (key === (hasLines ? "ctrl-s" : "enter")) return accept?.(closed, field.text) ?? closed;
  // In a field of one line, these keys do nothing.
  const isIgnored = !hasLines && (key === "alt-enter" || key === "shift-enter");
  const changed = isIgnored ? field : key === "enter" ? insertText(field, "\n") : editText(field, key);
  return { ...closed, dialog: { ...shown, field: changed } };
}

/** Number of lines that a page key scrolls a dialog. */
const PAGE = 10;

const SCROLLS: Readonly<Record<string, number>> = {
  pageup: -PAGE,
  pagedown: PAGE,
  " ": PAGE,
  "wheel-up": -3,
  "wheel-down": 3,
  K: -1,
  J: 1,
};
const STEPS: Readonly<Record<string, number>> = { up: -1, k: -1, down: 1, j: 1, backtab: -1, tab: 1 };

function scrollDialog(shown: Dialog, key: string): Dialog {
  const { choices, chosen, scroll } = shown;
  const step = STEPS[key];
  if (step !== undefined && choices.length > 1)
    return { ...shown, chosen: (chosen + step + choices.length) % choices.length };
  const by = step ?? SCROLLS[key] ?? 0;
  return { ...shown, scroll: Math.max(0, scroll + by) };
}

/** Maximum width of a dialog in columns, since longer lines are hard to read. */
const WIDEST = 100;

/** Draws a dialog over the lower end of a body: the title, its text, the field, the choices. */
export function drawDialog(body: readonly Line[], shown: Dialog, columns: number): Line[] {
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

/** Returns the first `most` lines (at least 1); if the cursor is further down, those that end with its line. */
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
