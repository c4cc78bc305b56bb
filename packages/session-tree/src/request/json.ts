import { isPlainObject, joinBytes, wellFormedJson } from "@espalier/jsonl-stream";

/**
 * Returns the same JSON value with lone surrogates replaced by U+FFFD, in keys too; nearly always the value itself when
 * it has none. Undefined for a value that is nested too deeply for `JSON.stringify`: a line of that depth can be read,
 * but not sent in a request.
 */
export function wellFormed<Value>(value: Value): Value | undefined {
  if (isWellFormed(value, NEAR)) return value;
  let json: string;
  try {
    json = JSON.stringify(value);
  } catch (error) {
    // The engine's stack overflows at a depth of about 4,000.
    if (!(error instanceof RangeError)) throw error;
    return undefined;
  }
  return JSON.parse(wellFormedJson(json));
}

/** Depth to which a value is checked without writing it. Arguments of tools are less deep. */
const NEAR = 100;

/**
 * Returns whether every text of a value is well-formed, keys too; false when it is not certain. Takes a third of the
 * time of writing the value.
 */
function isWellFormed(value: unknown, depth: number): boolean {
  if (typeof value === "string") return value.isWellFormed();
  if (typeof value !== "object" || value === null) return true;
  if (depth === 0 || typeof (value as { toJSON?: unknown }).toJSON === "function") return false;
  if (Array.isArray(value)) return value.every((item) => isWellFormed(item, depth - 1));
  for (const key of Object.keys(value))
    if (!key.isWellFormed() || !isWellFormed((value as Record<string, unknown>)[key], depth - 1))
      return false;
  return true;
}

const LIST = Symbol("list");
const RECORD = Symbol("record");
const END = Symbol("end");

/**
 * Adds the primitives that decide a value's JSON text, in order: two values with the same tokens have the same text. A
 * later change of the value does not change its tokens. A part that is not plain JSON gets a unique token.
 */
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

/**
 * Returns the end of a value's tokens that begin at `at`; -1 when the tokens there belong to another value. Does not
 * allocate memory, because most values are unchanged.
 */
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

/** Returns the kind of a value: list, record, or null for a primitive. Undefined for a value with a JSON text of its own. */
function shapeOf(value: unknown): typeof LIST | typeof RECORD | null | undefined {
  if (typeof value === "function") return undefined;
  if (typeof value !== "object" || value === null) return null;
  if (typeof (value as { toJSON?: unknown }).toJSON === "function") return undefined;
  if (Array.isArray(value)) return LIST;
  return isPlainObject(value) ? RECORD : undefined;
}

/** Tokens and bytes of one list element, as last written. */
interface Written {
  tokens: unknown[];
  bytes: Uint8Array;
}

const encoder = new TextEncoder();
const OPEN = /* @__PURE__ */ encoder.encode("{");
const COMMA = /* @__PURE__ */ encoder.encode(",");
const CLOSE_LIST = /* @__PURE__ */ encoder.encode("]");
const CLOSE = /* @__PURE__ */ encoder.encode("}");

/**
 * Writes requests as JSON in UTF-8, with the same bytes as `JSON.stringify`. Items of a list (messages, tools) that
 * equal those of the previous request are reused, so a growing conversation costs only the time for its new items. The
 * bytes of the last request are kept, for any conversation; this affects only speed.
 */
export class RequestWriter {
  #lists = new Map<string, Written[]>();

  /** Returns the request in UTF-8, ready as the body for `fetch` or a provider's client. */
  write(request: object): Uint8Array<ArrayBuffer> {
    const before = this.#lists;
    const lists = new Map<string, Written[]>();
    const parts: Uint8Array[] = [OPEN];
    for (const [key, value] of Object.entries(request)) {
      const list = Array.isArray(value)
        ? Array.from(value, (item, at) => written(item, before.get(key)?.[at]))
        : undefined;
      const text = list ? "[" : JSON.stringify(value);
      if (text === undefined) continue;
      if (parts.length > 1) parts.push(COMMA);
      parts.push(encoder.encode(`${JSON.stringify(key)}:${text}`));
      if (!list) continue;
      lists.set(key, list);
      for (const [at, { bytes }] of list.entries()) {
        if (at > 0) parts.push(COMMA);
        parts.push(bytes);
      }
      parts.push(CLOSE_LIST);
    }
    parts.push(CLOSE);
    this.#lists = lists;
    return joinBytes(parts);
  }
}

function written(item: unknown, before: Written | undefined): Written {
  if (before && endOf(item, before.tokens, 0) === before.tokens.length) return before;
  const tokens: unknown[] = [];
  addTokens(item, tokens);
  // In a list, JSON writes null for a value without a JSON text.
  return { tokens, bytes: encoder.encode(JSON.stringify(item) ?? "null") };
}
