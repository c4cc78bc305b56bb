import { isRecord, type ToolCallBlock } from "@espalier/session-tree";

/** Name of the call that carries a program instead of arguments, in any case. */
const CODE_TOOL = "exec";
/** Fields that the program can be in. */
const CODE_FIELDS = ["input", "code"];
/** A call of a tool inside a program, up to its first argument: `await tools.exec_command(`, `tools["apply_patch"](`. */
const NESTED_CALL = /\btools\s*(?:\.\s*([A-Za-z_$][\w$]*)|\[\s*["'`]([^"'`\]]{1,100})["'`]\s*\])\s*\(\s*/g;
/** A name that a value is given to: `const patch = `. */
const NAMED_VALUE = /\b(?:const|let|var)\s+([A-Za-z_$][\w$]*)\s*=\s*/g;
/** Values inside each other; a program that has more is not read further. */
const DEEPEST = 12;
/** Calls read of one program. */
const MOST_CALLS = 200;

/**
 * The calls that a call stands for. One of `exec` whose text is JavaScript stands for the tools that it calls
 * (`await tools.exec_command({"cmd": "make"})`), with arguments as they are written: literals, and names of literals.
 * Nothing is run. Any other call stands for itself.
 */
export function callsWithin(call: ToolCallBlock): readonly ToolCallBlock[] {
  const program = programOf(call);
  if (program === undefined) return [call];
  const values = new Map<string, unknown>();
  for (const match of program.matchAll(NAMED_VALUE)) {
    const value = new LiteralReader(program, match.index + match[0].length, values).read();
    if (value !== undefined) values.set(match[1]!, value);
  }
  const nested: ToolCallBlock[] = [];
  for (const match of program.matchAll(NESTED_CALL)) {
    const given = new LiteralReader(program, match.index + match[0].length, values).read();
    const input = isRecord(given) ? given : typeof given === "string" ? { input: given } : {};
    nested.push({ type: "toolCall", id: call.id, name: match[1] ?? match[2]!, arguments: input });
    if (nested.length === MOST_CALLS) break;
  }
  return nested.length === 0 ? [call] : nested;
}

function programOf({ name, arguments: given }: ToolCallBlock): string | undefined {
  if (typeof name !== "string" || name.toLowerCase() !== CODE_TOOL) return undefined;
  const texts: unknown[] = isRecord(given) ? CODE_FIELDS.map((field) => given[field]) : [given];
  return texts.find((text): text is string => typeof text === "string" && text.includes("tools"));
}

const ESCAPED: Readonly<Record<string, string>> = {
  n: "\n",
  t: "\t",
  r: "\r",
  b: "\b",
  f: "\f",
  v: "\v",
  0: "\0",
};

/** Reads one literal of JavaScript; undefined for everything else that can stand there. */
class LiteralReader {
  readonly #code: string;
  readonly #values: ReadonlyMap<string, unknown>;
  #at: number;
  #depth = 0;

  constructor(code: string, at: number, values: ReadonlyMap<string, unknown>) {
    this.#code = code;
    this.#at = at;
    this.#values = values;
  }

  read(): unknown {
    this.#skip(/(?:\s|\/\/[^\n]*\n|\/\*[^*]*\*\/)*/y);
    const next = this.#code[this.#at];
    if (next === '"' || next === "'" || next === "`") return this.#text(next);
    if (this.#depth >= DEEPEST) return undefined;
    this.#depth++;
    try {
      if (next === "{") return this.#object();
      if (next === "[") return this.#array();
    } finally {
      this.#depth--;
    }
    const word = this.#skip(/String\.raw(?=`)|-?\d+(?:\.\d+)?|[A-Za-z_$][\w$]*/y);
    if (word === "String.raw") return this.#text("`", true);
    if (word === "" || word === "null") return undefined;
    if (/^-?\d/.test(word)) return Number(word);
    return word === "true" ? true : word === "false" ? false : this.#values.get(word);
  }

  #skip(pattern: RegExp): string {
    pattern.lastIndex = this.#at;
    const found = pattern.exec(this.#code)?.[0] ?? "";
    this.#at += found.length;
    return found;
  }

  /** A text; pieces that are joined by `+` as one. Of a template the places of values stay as they are written. */
  #text(quote: string, isRaw = false): string {
    let text = "";
    const { length } = this.#code;
    for (this.#at++; this.#at < length && this.#code[this.#at] !== quote; this.#at++) {
      const character = this.#code[this.#at]!;
      text += character === "\\" && !isRaw ? this.#escaped() : character;
    }
    this.#at++;
    if (this.#skip(/\s*\+\s*(?=["'`])/y) !== "") text += this.#text(this.#code[this.#at]!);
    return text;
  }

  #escaped(): string {
    this.#at++;
    const hex = this.#peek(/u\{[0-9a-fA-F]{1,6}\}|u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}/y);
    if (hex === "") {
      const character = this.#code[this.#at] ?? "";
      return character === "\n" ? "" : (ESCAPED[character] ?? character);
    }
    this.#at += hex.length - 1;
    const code = Number.parseInt(hex.replace(/[ux{}]/g, ""), 16);
    return code <= 0x10ffff ? String.fromCodePoint(code) : "";
  }

  #peek(pattern: RegExp): string {
    pattern.lastIndex = this.#at;
    return pattern.exec(this.#code)?.[0] ?? "";
  }

  #object(): Record<string, unknown> {
    const members: [string, unknown][] = [];
    this.#at++;
    for (;;) {
      this.#skip(/[\s,]*/y);
      const next = this.#code[this.#at];
      if (next === undefined || next === "}") break;
      const name = next === '"' || next === "'" ? this.#text(next) : this.#skip(/[A-Za-z_$][\w$]*|\d+/y);
      if (name === "") break;
      const isShort = this.#skip(/\s*:\s*/y) === "";
      members.push([name, isShort ? this.#values.get(name) : this.read()]);
      this.#toNext("}");
    }
    this.#at++;
    return Object.fromEntries(members);
  }

  #array(): unknown[] {
    const items: unknown[] = [];
    this.#at++;
    for (;;) {
      this.#skip(/[\s,]*/y);
      const next = this.#code[this.#at];
      if (next === undefined || next === "]") break;
      items.push(this.read());
      this.#toNext("]");
    }
    this.#at++;
    return items;
  }

  /** Past what is left of a value that is no literal: to the next comma, or to the end of what it is in. */
  #toNext(end: "}" | "]"): void {
    while (this.#at < this.#code.length && this.#code[this.#at] !== "," && this.#code[this.#at] !== end)
      this.#at++;
  }
}
