import { setImmediate } from "node:timers/promises";
import type { ByteView } from "@espalier/jsonl-stream";
import {
  type ContextMessage,
  type Entry,
  messagesOf,
  type SessionIssueKind,
  type ToolCallBlock,
  type Tree,
  toolCalls,
} from "@espalier/session-tree";

/**
 * Returns the words of a query, each once in any case, without surrounding punctuation; the query itself when no word
 * is left.
 */
export function wordsOf(query: string): string[] {
  const words = new Map<string, string>();
  for (const given of query.split(/\s+/)) {
    const word = given.replace(/^[^\p{L}\p{N}_$@#./-]+|[^\p{L}\p{N}_$#/]+$/gu, "");
    if (word !== "" && !words.has(word.toLowerCase())) words.set(word.toLowerCase(), word);
  }
  return words.size > 0 ? [...words.values()] : [query.trim() || query];
}

/** Yields for each searched block the offsets of the first possible match of a text in each line. */
export function linesWith(
  view: ByteView,
  text: string,
  isCaseSensitive: boolean,
  signal?: AbortSignal,
): AsyncGenerator<number[]> {
  // The beginning of a long text is enough to choose lines, and V8 compiles no pattern of a very long one.
  const beginning = Array.from(text).slice(0, 500).join("");
  return matchingLines(view, linePattern(beginning, isCaseSensitive), beginning.length * WIDEST_UNIT, signal);
}

/**
 * Returns the rows of entries on lines whose bytes may have a text, oldest first. Rows of an entry without the text are
 * among them; no row with it is missing.
 */
export async function rowsWith(
  tree: Tree,
  text: string,
  isCaseSensitive = false,
  signal?: AbortSignal,
): Promise<Set<number>> {
  const rows = new Set<number>();
  const rowsOf = rowFinder(tree);
  for await (const offsets of linesWith(tree.view, text, isCaseSensitive, signal))
    for (const row of offsets.flatMap(rowsOf)) rows.add(row);
  return rows;
}

/** Returns a function that finds the rows on the line of an offset. Offsets increase; each row is found once. */
export function rowFinder(tree: Tree): (offset: number) => number[] {
  const behind = offsetsBehind(tree);
  let next = 0;
  return (offset) => {
    const rows: number[] = [];
    const row = rowAt(tree, offset);
    for (next = Math.max(next, row); next < tree.length; next++) {
      // After a lost newline, one line can have several entries.
      if (next !== row && !behind.has(tree.index.offset(next))) break;
      rows.push(next);
    }
    return rows;
  };
}

/** Returns the offsets of entries that are not the first content of their line: after a lost newline, or damage. */
export const offsetsBehind = ({ issues }: Tree): ReadonlySet<number> =>
  new Set(issues.filter(({ kind }) => BEHIND.has(kind)).map(({ offset }) => offset));

const BEHIND: ReadonlySet<SessionIssueKind> = new Set(["salvaged", "glued"]);

/** Returns the last row that begins at or before an offset; -1 when there is none. Rows are in the order of the log. */
export function rowAt({ index }: Tree, place: number): number {
  let low = 0;
  for (let high = index.length; low < high; ) {
    const middle = (low + high) >>> 1;
    if (index.offset(middle) <= place) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

/**
 * Number of bytes that are searched at a time: the largest measured size that does not cause a new allocation of memory
 * from the system.
 */
const BLOCK = 64 * 1024;

/** Number of blocks between two turns of the event loop, in which an abort is noticed. */
const BREATH = 64;
const LINE_FEED = "\n";

/**
 * Finds the first match of a pattern in each line of a view; returns a list for each block with matches. Blocks are
 * searched as latin-1 text, which is copied but not decoded. Parts of a line are kept no longer than their block.
 *
 * @param pattern matches within one line, on text in which each character is one byte
 * @param longest length of the longest match in bytes
 */
async function* matchingLines(
  view: ByteView,
  pattern: RegExp,
  longest: number,
  signal?: AbortSignal,
): AsyncGenerator<number[]> {
  const block = Buffer.allocUnsafe(Math.min(Math.max(BLOCK, 2 * longest), view.size));
  // After a match, the search continues after the end of its line.
  let passed = 0;
  let isPassingLine = false;
  let blocks = 0;
  for (let offset = 0; offset < view.size; offset += block.length - longest) {
    if (blocks++ % BREATH === 0) {
      if (offset > 0) await setImmediate();
      signal?.throwIfAborted();
    }
    const length = view.readInto(offset, block);
    const text = block.toString("latin1", 0, length);
    const found: number[] = [];
    for (let at = Math.max(0, passed - offset); at < length; ) {
      if (isPassingLine) {
        const lineEnd = text.indexOf(LINE_FEED, at);
        passed = offset + (lineEnd < 0 ? length : lineEnd + 1);
        if (lineEnd < 0) break;
        at = lineEnd + 1;
        isPassingLine = false;
      }
      pattern.lastIndex = at;
      const match = pattern.exec(text);
      if (!match) break;
      found.push(offset + match.index);
      at = match.index;
      isPassingLine = true;
    }
    if (found.length > 0) yield found;
    if (offset + length >= view.size) return;
  }
}

/** Builds the pattern of a query in decoded text. Unless case counts, a letter matches in each case. */
export function textPattern(query: string, isCaseSensitive: boolean): RegExp {
  const source = Array.from(query, (letter) => (isCaseSensitive ? literal(letter) : anyCase(letter)));
  return new RegExp(source.join(""), "g");
}

/**
 * Builds the pattern of a query in the bytes of a JSON line, with one byte a character (latin-1): letters that JSON or
 * some writers escape match in each of their forms. It may match too much, and never too little, except for writers that
 * escape ASCII letters and digits.
 */
function linePattern(query: string, isCaseSensitive: boolean): RegExp {
  const source = Array.from(query, (letter) => {
    // The flag finds both cases of an ASCII letter.
    const isOneForm = isCaseSensitive || !ESCAPED_BY_SOME.test(letter);
    return oneOf((isOneForm ? [letter] : casesOf(letter)).flatMap(inLine));
  });
  return new RegExp(source.join(""), isCaseSensitive ? "g" : "gi");
}

/** Maximum number of bytes of one UTF-16 unit of a query in a line: `\u00e9`. */
const WIDEST_UNIT = 6;

/** Returns a letter in each case of the same length: `ß` has no other. */
const casesOf = (letter: string): string[] =>
  [...new Set([letter, letter.toLowerCase(), letter.toUpperCase()])].filter(
    ({ length }) => length === letter.length,
  );
const anyCase = (letter: string): string => oneOf(casesOf(letter).map(literal));
const oneOf = (patterns: readonly string[]): string =>
  patterns.length === 1 ? patterns[0]! : `(?:${patterns.join("|")})`;
const literal = (letter: string): string => letter.replace(/[\\^$.*+?()[\]{}|/-]/g, "\\$&");

/** Letters with an escape by a backslash, and the pattern of that escape. */
const SHORT_ESCAPES: Record<string, string> = {
  '"': '\\\\?"',
  "\\": "\\\\\\\\",
  "/": "\\\\?/",
  "\n": "\\\\n",
  "\r": "\\\\r",
  "\t": "\\\\t",
  "\b": "\\\\b",
  "\f": "\\\\f",
};

/** Letters that JSON, or writers of JSON for web pages, escape. */
const ESCAPED_BY_SOME = /["\\/<>&'\p{Cc}]|[^\p{ASCII}]/u;

/** Returns the patterns of a letter in a line. */
const inLine = (letter: string): string[] =>
  ESCAPED_BY_SOME.test(letter)
    ? [SHORT_ESCAPES[letter] ?? inBytes(letter), escapedUnits(letter)]
    : [literal(letter)];

/** Returns the UTF-8 bytes of a letter as latin-1 characters. */
const inBytes = (letter: string): string =>
  Array.from(new TextEncoder().encode(letter), (byte) => `\\x${hex(byte, 2)}`).join("");

/** Returns the pattern `\uXXXX` of each UTF-16 unit, with hexadecimal digits in any case. */
const escapedUnits = (letter: string): string =>
  Array.from({ length: letter.length }, (_, at) => {
    const digits = Array.from(hex(letter.charCodeAt(at), 4), anyCase).join("");
    return `\\\\u${digits}`;
  }).join("");
const hex = (code: number, digits: number): string => code.toString(16).padStart(digits, "0");

/**
 * Returns the message of an entry, before edits; undefined for an entry without one, and for a result of Espalier's own
 * tools.
 */
export function originalMessage(entry: Entry): ContextMessage | undefined {
  // A system message of a compaction is also in its own entry.
  const message = messagesOf(entry).at(-1);
  return message?.role === "toolResult" && isOwnTool(message.toolName) ? undefined : message;
}

/** Returns the calls of a message, except those of Espalier's own tools. */
export const foreignCalls = (message: ContextMessage): ToolCallBlock[] =>
  toolCalls(message).filter(({ name }) => !isOwnTool(name));

/**
 * Returns whether a name is one that agents give to the tools of `espalier mcp`: `mcp__espalier__recall`,
 * `espalier.recall`.
 */
const isOwnTool = (name: unknown): boolean =>
  typeof name === "string" && /(?:^|_)espalier(?:__|[./:])\w+$/.test(name);
