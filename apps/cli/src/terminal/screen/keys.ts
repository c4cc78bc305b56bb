/** Input of the keyboard and the mouse. `key` is a character, or a name such as `up` and `ctrl-c`. */
export type TerminalInput =
  | { type: "key"; key: string }
  | { type: "paste"; text: string }
  | { type: "click"; column: number; row: number };

/** Sequences of xterm and its kin behind the escape character. */
const SEQUENCES: Readonly<Record<string, string>> = {
  "[A": "up",
  "[B": "down",
  "[C": "right",
  "[D": "left",
  OA: "up",
  OB: "down",
  OC: "right",
  OD: "left",
  "[H": "home",
  "[F": "end",
  OH: "home",
  OF: "end",
  "[1~": "home",
  "[4~": "end",
  "[7~": "home",
  "[8~": "end",
  "[3~": "delete",
  "[5~": "pageup",
  "[6~": "pagedown",
  "[Z": "backtab",
  OP: "f1",
};

const CONTROLS: Readonly<Record<string, string>> = {
  "\r": "enter",
  "\n": "enter",
  "\t": "tab",
  "\u0008": "backspace",
  "\u007f": "backspace",
};
const ESCAPE = "\u001b";

/** Mark in front of pasted text. */
export const PASTE_BEGINS = `${ESCAPE}[200~`;
const PASTE_ENDS = `${ESCAPE}[201~`;

/** A whole sequence behind an escape: `[`, parameters and a last byte, or `O` and one character. */
const SEQUENCE = /^(?:\[[0-9;<?]*[@-~]|O[A-Za-z])/;

/** A key sequence that may continue in the next read. */
const UNFINISHED = /^(?:\[[0-9;<?]*|O)?$/;

/**
 * The keys in what was read from a terminal, and what of it may be the beginning of another one: hand that back in
 * front of what is read next, or, when nothing follows soon, with `isAll`.
 */
export function readKeys(read: string, isAll = false): { inputs: TerminalInput[]; rest: string } {
  const inputs: TerminalInput[] = [];
  let at = 0;
  while (at < read.length) {
    if (read.startsWith(PASTE_BEGINS, at)) {
      const end = read.indexOf(PASTE_ENDS, at);
      if (end < 0 && !isAll) return { inputs, rest: read.slice(at) };
      const text = read.slice(at + PASTE_BEGINS.length, end < 0 ? undefined : end);
      inputs.push({ type: "paste", text });
      at = end < 0 ? read.length : end + PASTE_ENDS.length;
      continue;
    }
    if (read[at] !== ESCAPE) {
      const character = String.fromCodePoint(read.codePointAt(at)!);
      inputs.push({ type: "key", key: nameOf(character) });
      at += character.length;
      continue;
    }
    const behind = read.slice(at + 1, at + 40);
    const [sequence] = SEQUENCE.exec(behind) ?? [];
    if (sequence !== undefined) {
      inputs.push(...inputOf(sequence));
      at += 1 + sequence.length;
    } else if (UNFINISHED.test(behind) && !isAll) return { inputs, rest: read.slice(at) };
    else {
      inputs.push({ type: "key", key: "escape" });
      at += 1;
    }
  }
  return { inputs, rest: "" };
}

function nameOf(character: string): string {
  const named = CONTROLS[character];
  if (named !== undefined) return named;
  const code = character.charCodeAt(0);
  return code < 32 ? `ctrl-${String.fromCharCode(code + 96)}` : character;
}

/** Nothing for a sequence that means nothing here. */
function inputOf(sequence: string): TerminalInput[] {
  const [, button, column, row, end] = /^\[<(\d+);(\d+);(\d+)([Mm])$/.exec(sequence) ?? [];
  if (button !== undefined) return mouse(Number(button), Number(column) - 1, Number(row) - 1, end === "M");
  const key = SEQUENCES[sequence];
  return key === undefined ? [] : [{ type: "key", key }];
}

const WHEEL_UP = 64;
const WHEEL_DOWN = 65;

function mouse(button: number, column: number, row: number, isPressed: boolean): TerminalInput[] {
  if (button === WHEEL_UP) return [{ type: "key", key: "wheel-up" }];
  if (button === WHEEL_DOWN) return [{ type: "key", key: "wheel-down" }];
  return button === 0 && isPressed ? [{ type: "click", column, row }] : [];
}
