const LIST = Symbol("list");
const RECORD = Symbol("record");
const END = Symbol("end");

/**
 * What decides a value's JSON text, as primitives in order: two values with the same tokens have the same text. They stay
 * what they are when the value is changed later. What is no plain JSON gives a token that is like no other.
 */
export function jsonTokens(value: unknown): unknown[] {
  const tokens: unknown[] = [];
  addTokens(value, tokens);
  return tokens;
}

/** Whether a value has the tokens that another one had. Makes nothing, since most of what is asked about has not changed. */
export function hasTokens(value: unknown, tokens: readonly unknown[]): boolean {
  return endOf(value, tokens, 0) === tokens.length;
}

function addTokens(value: unknown, tokens: unknown[]): void {
  const shape = shapeOf(value);
  if (shape === undefined) {
    tokens.push(Symbol("no plain JSON"));
  } else if (shape === LIST) {
    tokens.push(LIST);
    for (const item of value as unknown[]) addTokens(item, tokens);
    tokens.push(END);
  } else if (shape === RECORD) {
    tokens.push(RECORD);
    for (const [key, item] of Object.entries(value as object)) {
      tokens.push(key);
      addTokens(item, tokens);
    }
    tokens.push(END);
  } else tokens.push(value);
}

/** Where the tokens of a value end that begin at `at`; -1 when those of another one stand there. */
function endOf(value: unknown, tokens: readonly unknown[], at: number): number {
  const shape = shapeOf(value);
  if (shape === undefined) return -1;
  if (shape === null) return tokens[at] === value ? at + 1 : -1;
  if (tokens[at] !== shape) return -1;
  let end = at + 1;
  if (shape === LIST) {
    for (const item of value as unknown[]) {
      end = endOf(item, tokens, end);
      if (end < 0) return -1;
    }
  } else {
    const record = value as Record<string, unknown>;
    for (const key of Object.keys(record)) {
      end = tokens[end] === key ? endOf(record[key], tokens, end + 1) : -1;
      if (end < 0) return -1;
    }
  }
  return tokens[end] === END ? end + 1 : -1;
}

/** Null for a primitive; undefined for what may have a text of its own making. */
function shapeOf(value: unknown): typeof LIST | typeof RECORD | null | undefined {
  if (typeof value === "function") return undefined;
  if (typeof value !== "object" || value === null) return null;
  if (typeof (value as { toJSON?: unknown }).toJSON === "function") return undefined;
  if (Array.isArray(value)) return LIST;
  const prototype = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null ? RECORD : undefined;
}
