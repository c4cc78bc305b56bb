import { type Frame, fitLine, type Line, type Style } from "./frame.ts";

/** How a terminal is told of a style: what begins it. */
type Palette = Readonly<Record<Style, string>>;

const RESET = "\u001b[0m";
const SELECTED = "\u001b[7m";

const COLOURED: Palette = {
  plain: "",
  dim: "\u001b[2m",
  strong: "\u001b[1m",
  heading: "\u001b[1;36m",
  user: "\u001b[36m",
  model: "\u001b[32m",
  tool: "\u001b[34m",
  summary: "\u001b[35m",
  label: "\u001b[33m",
  leaf: "\u001b[1;32m",
  code: "\u001b[36m",
  match: "\u001b[30;43m",
  error: "\u001b[31m",
  cursor: "\u001b[7m",
};

/** https://no-color.org: weight is no colour. */
const COLOURLESS: Palette = {
  ...COLOURED,
  heading: "\u001b[1m",
  user: "\u001b[1m",
  model: "",
  tool: "",
  summary: "",
  label: "",
  leaf: "\u001b[1m",
  code: "",
  match: "\u001b[4m",
  error: "\u001b[1m",
};

/** The characters that a drawing uses, and what stands for them on a terminal that has no others than ASCII. */
const ASCII: Readonly<Record<string, string>> = {
  "│": "|",
  "├": "+",
  "└": "+",
  "─": "-",
  "…": "~",
  "▸": ">",
  "▾": "v",
  "●": "*",
  "○": "o",
  "◆": "#",
  "█": "#",
  "▓": "=",
  "░": ".",
  "▐": "|",
  "·": "-",
  "→": ">",
  "←": "<",
  "↑": "^",
  "↓": "v",
  "•": "-",
  "≡": "=",
  "⇠": "<",
  "✓": "+",
  "✗": "x",
  "—": "-",
  "×": "x",
};

export interface PaintOptions {
  /** False: no colours. */
  colours: boolean;
  /** True: nothing but ASCII. */
  ascii: boolean;
}

/** A frame as a terminal takes it: one line a line, each as wide as the screen. */
export function paintFrame(frame: Frame, columns: number, options: PaintOptions): string {
  return frame.map((one) => paintLine(one, columns, options)).join("\n");
}

function paintLine(given: Line, columns: number, { colours, ascii }: PaintOptions): string {
  const palette = colours ? COLOURED : COLOURLESS;
  const painted = fitLine(given, columns).spans.map(({ text, style, isSelected = false }) => {
    const begun = (isSelected ? SELECTED : "") + palette[style];
    const shown = ascii ? asciiText(text) : text;
    return begun === "" ? shown : `${begun}${shown}${RESET}`;
  });
  return painted.join("");
}

/** Every character that is not ASCII by one that is, as many columns as before. */
function asciiText(text: string): string {
  return text.replace(/[^\n -~]/gu, (character) => ASCII[character] ?? "?");
}
