import type { ReadStream } from "node:tty";

/** Input of the keyboard and the mouse. `key` is a character, or a name such as `up` and `ctrl-c`. Rows count from 0. */
export type TerminalInput =
  | { type: "key"; key: string }
  | { type: "paste"; text: string }
  | { type: "click"; row: number };

/** Sequences of xterm and similar terminals, without the escape character. */
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
  "[1;5C": "ctrl-right",
  "[1;5D": "ctrl-left",
  "[1;3C": "ctrl-right",
  "[1;3D": "ctrl-left",
};

const CONTROLS: Readonly<Record<string, string>> = {
  "\r": "enter",
  "\n": "enter",
  "\t": "tab",
  "\u0008": "backspace",
  "\u007f": "backspace",
};
const ESCAPE = "\u001b";

/** Sequence before pasted text. */
const PASTE_BEGINS = `${ESCAPE}[200~`;
const PASTE_ENDS = `${ESCAPE}[201~`;

/** Matches a whole sequence after an escape: `[`, parameters and a last byte, or `O` and one character. */
const SEQUENCE = /^(?:\[[0-9;:<?]*[@-~]|O[A-Za-z])/;

/** Matches a key sequence that may continue in the next read. */
const UNFINISHED = /^(?:\[[0-9;:<?]*|O)?$/;

/** Matches a character that forms one key with the escape before it: Alt-Enter on every terminal. */
const ALT_ENTER = /^[\r\n]/;

/** The same for letters and Backspace; used only where Escape alone closes nothing. */
const ALT = /^[a-zA-Z\u007f]/;

interface ReadOptions {
  /** True: no more bytes follow soon, so that a lone escape is the Escape key. */
  isAll?: boolean;
  /** True: escape and a letter are one key, such as `alt-b`. */
  hasAlt?: boolean;
}

/**
 * Parses the keys in bytes that were read from a terminal. `rest` may be the beginning of a key: pass it before the
 * next bytes, or with `isAll` when no more bytes follow.
 */
export function readKeys(
  read: string,
  { isAll = false, hasAlt = false }: ReadOptions = {},
): { inputs: TerminalInput[]; rest: string } {
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
      inputs.push(...keyed(nameOf(character)));
      // Some terminals send both characters for one Enter.
      at += read.startsWith("\r\n", at) ? 2 : character.length;
      continue;
    }
    const behind = read.slice(at + 1, at + 40);
    const [sequence] = SEQUENCE.exec(behind) ?? [];
    if (sequence !== undefined) {
      inputs.push(...inputOf(sequence));
      at += 1 + sequence.length;
    } else if (ALT_ENTER.test(behind) || (hasAlt && ALT.test(behind))) {
      inputs.push(...keyed(`alt-${nameOf(behind[0]!)}`));
      at += 2;
    } else if (UNFINISHED.test(behind) && !isAll) return { inputs, rest: read.slice(at) };
    else {
      inputs.push(...keyed("escape"));
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

const keyed = (key: string): TerminalInput[] => [{ type: "key", key }];

/** Returns the input of a sequence; empty for an unknown sequence. */
function inputOf(sequence: string): TerminalInput[] {
  const [, button, row, end] = /^\[<(\d+);\d+;(\d+)([Mm])$/.exec(sequence) ?? [];
  if (button !== undefined) return mouse(Number(button), Number(row) - 1, end === "M");
  const [, xtermModifiers, xtermCode, code, modifiers] = MODIFIED.exec(sequence) ?? [];
  if (xtermCode !== undefined) return modifiedKey(Number(xtermCode), Number(xtermModifiers));
  if (code !== undefined) return modifiedKey(Number(code), Number(modifiers || 1));
  const key = SEQUENCES[sequence];
  return key === undefined ? [] : keyed(key);
}

/**
 * Matches a key with its modifiers, if a terminal sends them: `[13;2u` (keyboard protocol of kitty) and `[27;2;13~`
 * (modifyOtherKeys of xterm) are Shift-Enter.
 */
const MODIFIED = /^\[(?:27;(\d+);(\d+)~|(\d+)(?::\d+)*(?:;(\d*)(?::\d+)?)?u)$/;

/** Codes of keys without a character, such as CapsLock, in kitty's protocol. */
const PRIVATE = { first: 0xe000, last: 0xf8ff } as const;

const SHIFT = 1;
const ALT_KEY = 2;
const CONTROL = 4;

/** @param modifiers a sum of {@link SHIFT}, {@link ALT_KEY} and {@link CONTROL}, plus 1 */
function modifiedKey(code: number, modifiers: number): TerminalInput[] {
  const held = modifiers - 1;
  if (code === 27) return keyed("escape");
  const isText = code >= 32 && code <= 0x10ffff && !(code >= PRIVATE.first && code <= PRIVATE.last);
  if (!isText && CONTROLS[String.fromCharCode(code)] === undefined) return [];
  const character = String.fromCodePoint(code);
  const name = nameOf(character);
  if (name === "tab" && held & SHIFT) return keyed("backtab");
  if (held & CONTROL) return keyed(`ctrl-${name}`);
  if (held & ALT_KEY) return keyed(`alt-${name}`);
  if (!(held & SHIFT)) return keyed(name);
  return keyed(name === "enter" ? "shift-enter" : name === character ? character.toUpperCase() : name);
}

const WHEEL_UP = 64;
const WHEEL_DOWN = 65;

function mouse(button: number, row: number, isPressed: boolean): TerminalInput[] {
  if (button === WHEEL_UP) return keyed("wheel-up");
  if (button === WHEEL_DOWN) return keyed("wheel-down");
  return button === 0 && isPressed ? [{ type: "click", row }] : [];
}

/** Milliseconds after which an escape counts as the Escape key, and not as the beginning of a sequence. */
const ESCAPE_TIME = 40;

/** Milliseconds to wait for the rest of a paste; until then its characters are not keys. */
const PASTE_TIME = 5_000;

/** Dispatches all typed keys, pastes and clicks until `end`. */
export function readInput(
  input: ReadStream,
  dispatch: (event: TerminalInput) => void,
  { hasAlt = false }: Pick<ReadOptions, "hasAlt"> = {},
): { end: () => void } {
  let waiting = "";
  let timer: NodeJS.Timeout | undefined;
  const decode = (bytes: string, isAll: boolean) => {
    const { inputs, rest } = readKeys(waiting + bytes, { isAll, hasAlt });
    waiting = rest;
    for (const one of inputs) dispatch(one);
    const patience = rest.startsWith(PASTE_BEGINS) ? PASTE_TIME : ESCAPE_TIME;
    if (rest !== "") timer = setTimeout(decode, patience, "", true);
  };
  const decoder = new TextDecoder();
  const read = (bytes: Uint8Array) => {
    clearTimeout(timer);
    decode(decoder.decode(bytes, { stream: true }), false);
  };
  input.on("data", read);
  return {
    end() {
      clearTimeout(timer);
      input.off("data", read);
    },
  };
}
