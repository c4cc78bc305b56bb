import { plainText } from "../../text.ts";
import { type Line, type Span, span } from "../screen/frame.ts";

/** A text that a person edits. `at` is the cursor as an offset in code units: the next character is inserted there. */
export interface TextField {
  text: string;
  at: number;
}

export const textField = (text = ""): TextField => ({ text, at: text.length });

/** Inserts characters into the text. Characters that a terminal cannot show are removed; a tab becomes two spaces. */
export function insertText({ text, at }: TextField, inserted: string): TextField {
  const plain = plainText(inserted).replaceAll("\t", "  ");
  return { text: text.slice(0, at) + plain + text.slice(at), at: at + plain.length };
}

const moveTo = (text: string, at: number): TextField => ({
  text,
  at: Math.min(Math.max(at, 0), text.length),
});
const lineStart = ({ text, at }: TextField): number => text.lastIndexOf("\n", at - 1) + 1;

function lineEnd({ text, at }: TextField): number {
  const end = text.indexOf("\n", at);
  return end < 0 ? text.length : end;
}

function upOrDown(field: TextField, step: -1 | 1): TextField {
  const { text, at } = field;
  const column = at - lineStart(field);
  const start = step < 0 ? lineStart({ text, at: lineStart(field) - 1 }) : lineEnd(field) + 1;
  if (start > text.length || (step < 0 && lineStart(field) === 0)) return field;
  return moveTo(text, Math.min(start + column, lineEnd({ text, at: start })));
}

/** Offset before the previous character, and after the next one; a surrogate pair is one character. */
const before = ({ text, at }: TextField): number => at - (isTrailing(text, at - 1) ? 2 : 1);
const behind = ({ text, at }: TextField): number => at + (isTrailing(text, at + 1) ? 2 : 1);

function isTrailing(text: string, at: number): boolean {
  const code = text.charCodeAt(at);
  return code >= 0xdc00 && code <= 0xdfff;
}

const EDITS: Readonly<Record<string, (field: TextField) => TextField>> = {
  left: (field) => moveTo(field.text, before(field)),
  right: (field) => moveTo(field.text, behind(field)),
  up: (field) => upOrDown(field, -1),
  down: (field) => upOrDown(field, 1),
  home: (field) => moveTo(field.text, lineStart(field)),
  end: (field) => moveTo(field.text, lineEnd(field)),
  "ctrl-a": (field) => moveTo(field.text, lineStart(field)),
  "ctrl-e": (field) => moveTo(field.text, lineEnd(field)),
  backspace: (field) => without(field, before(field), field.at),
  "ctrl-h": (field) => without(field, before(field), field.at),
  delete: (field) => without(field, field.at, behind(field)),
  "ctrl-u": (field) => without(field, lineStart(field), field.at),
  "ctrl-k": (field) => without(field, field.at, lineEnd(field)),
  "ctrl-w": (field) => without(field, field.text.slice(0, field.at).search(/\S*\s*$/), field.at),
  "ctrl-left": (field) => moveTo(field.text, wordStart(field)),
  "ctrl-right": (field) => moveTo(field.text, wordEnd(field)),
  "alt-b": (field) => moveTo(field.text, wordStart(field)),
  "alt-f": (field) => moveTo(field.text, wordEnd(field)),
  "alt-d": (field) => without(field, field.at, wordEnd(field)),
  "alt-backspace": (field) => without(field, wordStart(field), field.at),
  "alt-enter": (field) => insertText(field, "\n"),
  "shift-enter": (field) => insertText(field, "\n"),
};

const wordStart = ({ text, at }: TextField): number =>
  text.slice(0, at).search(/[\p{L}\p{N}_]*[^\p{L}\p{N}_]*$/u);

const wordEnd = ({ text, at }: TextField): number =>
  at + (/^[^\p{L}\p{N}_]*[\p{L}\p{N}_]*/u.exec(text.slice(at))?.[0].length ?? 0);

function without({ text }: TextField, from: number, to: number): TextField {
  const start = Math.max(0, from);
  return { text: text.slice(0, start) + text.slice(to), at: start };
}

/** Returns the field after a key; the same object if the key does not edit text. */
export function editText(field: TextField, key: string): TextField {
  const edit = EDITS[key];
  if (edit) return edit(field);
  return [...key].length === 1 ? insertText(field, key) : field;
}

/** Returns the lines of a field, with the cursor. */
export function fieldLines({ text, at }: TextField): Line[] {
  let offset = 0;
  return text.split("\n").map((content) => {
    const here = at - offset;
    offset += content.length + 1;
    if (here < 0 || here > content.length) return { spans: [span(content)] };
    const end = here + (isTrailing(content, here + 1) ? 2 : 1);
    const spans: Span[] = [
      span(content.slice(0, here)),
      span(content.slice(here, end) || " ", "cursor"),
      span(content.slice(end)),
    ];
    return { spans };
  });
}
