import { createHash } from "node:crypto";

/**
 * Simulates a provider's cache: the longest prefix of tools, system and messages that an earlier request with a cache
 * marker had too, to the byte. A cache knows one model, and is of no use once thinking or the choice of tools differ.
 */
export class PromptCache {
  readonly #prefixes = new Set<string>();

  /** Tokens read and written for one request, which is remembered. */
  use(body: RequestBody, count: CountTokens): { read: number; written: number } {
    const messages = Array.isArray(body["messages"]) ? body["messages"] : [];
    const prefixes = hashPrefixes(body, messages);
    const known = prefixes.findLastIndex((prefix) => this.#prefixes.has(prefix));
    const read = known < 0 ? 0 : count({ ...body, messages: messages.slice(0, known) });
    if (!JSON.stringify(body).includes('"cache_control"')) return { read, written: 0 };
    for (const prefix of prefixes) this.#prefixes.add(prefix);
    return { read, written: count(body) - read };
  }
}

/** The body of a request to the Messages API. */
export type RequestBody = Readonly<Record<string, unknown>>;

/** Tokens of a request, as far as this server is concerned. */
export type CountTokens = (body: RequestBody) => number;

/** Bytes of the parts that a model reads / 4. */
export const quarterOfBytes: CountTokens = (body) =>
  Math.ceil(Buffer.byteLength(JSON.stringify([body["system"], body["tools"], body["messages"]])) / 4);

/** A hash for the request without messages, with the first, with the first two, and so on. */
function hashPrefixes(body: RequestBody, messages: readonly unknown[]): string[] {
  const { model, tools, system, thinking, tool_choice } = body;
  const hashes = [hash("", [model, tools, system, thinking, tool_choice])];
  for (const message of messages) hashes.push(hash(hashes.at(-1)!, message));
  return hashes;
}

/** Markers of the cache are no part of what is cached. */
function hash(before: string, value: unknown): string {
  const text = JSON.stringify(value, (key, inner) => (key === "cache_control" ? undefined : inner));
  return createHash("sha256").update(before).update(text).digest("base64");
}
