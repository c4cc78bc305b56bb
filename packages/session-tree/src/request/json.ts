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
 * Gives `take` the primitives that decide a value's JSON text, in order, until it returns false: two values with the
 * same tokens have the same text. A later change of the value does not change its tokens. A part that is not plain JSON
 * has a unique token. Returns false when `take` did.
 */
function everyToken(value: unknown, take: (token: unknown) => boolean): boolean {
  if (typeof value === "function" || (typeof value === "object" && value !== null && !isPlain(value)))
    return take(Symbol("no plain JSON"));
  if (typeof value !== "object" || value === null) return take(value);
  if (!take(Array.isArray(value) ? LIST : RECORD)) return false;
  if (Array.isArray(value)) {
    for (const item of value) if (!everyToken(item, take)) return false;
  } else {
    for (const key of Object.keys(value))
      if (!take(key) || !everyToken((value as Record<string, unknown>)[key], take)) return false;
  }
  return take(END);
}

/** Returns whether a value is a list or a record without a JSON text of its own. */
const isPlain = (value: object): boolean =>
  typeof (value as { toJSON?: unknown }).toJSON !== "function" &&
  (Array.isArray(value) || isPlainObject(value));

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
  let at = 0;
  if (before && everyToken(item, (token) => before.tokens[at++] === token) && at === before.tokens.length)
    return before;
  const tokens: unknown[] = [];
  everyToken(item, (token) => tokens.push(token) > 0);
  // In a list, JSON writes null for a value without a JSON text.
  return { tokens, bytes: encoder.encode(JSON.stringify(item) ?? "null") };
}
