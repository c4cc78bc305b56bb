import { hasTokens, jsonTokens } from "./json-tokens.ts";

/** One element of a list as it was written. */
interface Written {
  tokens: unknown[];
  bytes: Uint8Array;
}

const encoder = new TextEncoder();
const OPEN = encoder.encode("{");
const COMMA = encoder.encode(",");
const CLOSE_LIST = encoder.encode("]");
const CLOSE = encoder.encode("}");

/**
 * Writes requests as JSON, byte for byte what `JSON.stringify` and UTF-8 make of them. What stands in a list (messages,
 * tools) where the same stood in the request before is compared and not made again: a growing conversation costs what
 * was added to it. The bytes of the last request are kept; whose request that was makes no difference but for speed.
 */
export class RequestWriter {
  #lists = new Map<string, Written[]>();

  /** The request in UTF-8: a body that `fetch`, and a provider's client, take as it is. */
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
    return joined(parts);
  }
}

function written(item: unknown, before: Written | undefined): Written {
  if (before && hasTokens(item, before.tokens)) return before;
  // In a list, what JSON has no text for is null.
  const bytes = encoder.encode(JSON.stringify(item) ?? "null");
  return { tokens: jsonTokens(item), bytes };
}

function joined(parts: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  const whole = new Uint8Array(parts.reduce((length, part) => length + part.length, 0));
  let end = 0;
  for (const part of parts) {
    whole.set(part, end);
    end += part.length;
  }
  return whole;
}
