import { customAlphabet } from "nanoid";

const ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/** Letters and digits in an id: 62^12 is 71 bits, so that no set of all ids is needed to pick a fresh one. */
export const ID_LENGTH = 12;

/** A fresh id for an entry or a session: {@link ID_LENGTH} letters and digits, random. */
export const createId: () => string = customAlphabet(ALPHABET, ID_LENGTH);

/** What a session id may look like: it becomes part of a file name. */
const SESSION_ID = /^[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?$/;

/** True when an id is safe as a part of a file name (at most 128 of `[A-Za-z0-9._-]`, no dot at either end). */
export function isSessionId(id: string): boolean {
  return id.length <= 128 && SESSION_ID.test(id);
}

/**
 * The id of an entry of an old file, whose lines carry none: the same for the same session and line every time, spread
 * over the same alphabet and length as a random one.
 */
export function deriveId(sessionId: string, lineNumber: number): string {
  let low = 0x811c9dc5;
  let high = 0x01000193;
  for (const unit of `${sessionId}:${lineNumber}`) {
    const code = unit.codePointAt(0)!;
    low = Math.imul(low ^ code, 0x01000193);
    high = Math.imul(high ^ (code + 0x9e3779b9), 0x85ebca6b) ^ (high >>> 13);
  }
  // 64 bits end after 11 characters. The line number fills what is left, and keeps lines apart.
  const rest = [mix(high), mix(low ^ high), lineNumber >>> 0];
  let id = "";
  for (let i = 0; i < ID_LENGTH; i++) id += ALPHABET[divide(rest, ALPHABET.length)];
  return id;
}

/** Divides a number of several times 32 bits, the highest first, and returns what is left over. */
function divide(words: number[], by: number): number {
  let left = 0;
  for (let at = 0; at < words.length; at++) {
    const value = left * 2 ** 32 + words[at]!;
    words[at] = Math.floor(value / by);
    left = value % by;
  }
  return left;
}

/** The finaliser of MurmurHash3: every input bit reaches every output bit. */
function mix(value: number): number {
  let hash = value >>> 0;
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return (hash ^ (hash >>> 16)) >>> 0;
}
