import { splitsPair } from "../transcript.ts";

/**
 * Foreign words in a summary. Everything that this summarizer did not say itself stands between quotation marks or in a
 * code span, on one line, so that no heading, tag or list item inside it can become part of the summary's structure.
 */

/** The words as they were said, on one line between quotation marks, at most `maximum` units with the marks. */
export function quote(text: string, maximum: number): string {
  return `"${shorten(quotable(wholeCodePoints(text, maximum * 4)), maximum - 2)}"`;
}

/** A quotation has no quotation marks inside, so that its end can be seen. */
const quotable = (text: string) => oneLine(text).replaceAll('"', "'");

/** A quotation of both ends of what was said: what is asked stands first or last. */
export function quoteEnds(text: string, maximum: number): string {
  const line = quotable(text);
  if (line.length <= maximum - 2) return `"${line}"`;
  const head = shorten(line, Math.floor((maximum - 2) * 0.6));
  const tail = line.slice(-Math.floor((maximum - 2) * 0.4)).replace(/^\S*\s/, "");
  return `"${head} ${tail.toWellFormed().replace(/^\ufffd/, "")}"`;
}

/** A code span of one line; backticks inside become apostrophes, which cannot end it. */
export function codeSpan(text: string, maximum: number): string {
  const line = oneLine(wholeCodePoints(text, maximum * 4)).replaceAll("`", "'");
  return `\`${shorten(line, maximum - 2)}\``;
}

/** The first `length` UTF-16 units, one fewer where that would cut a surrogate pair. */
export function wholeCodePoints(text: string, length: number): string {
  return text.slice(0, splitsPair(text, length) ? length - 1 : length);
}

/** Tag names that mean something around a summary; escaped wherever they stand, even glued to a word. */
const STRUCTURAL_TAGS = new Set(
  "summary goal pinned rules system user assistant human conversation transcript instructions context".split(
    " ",
  ),
);
const ESCAPE_SEQUENCE = /\u001b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\u0007\u001b]*\u0007?)/g;

/** Controls, line and paragraph separators, and marks that change the direction of what follows. */
const CONTROLS = /[\u0000-\u001f\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069]+/g;

/** One line of well-formed text without controls; `<tag>` that could be taken for structure becomes `&lt;tag>`. */
export function oneLine(text: string): string {
  const line = text
    .replace(ESCAPE_SEQUENCE, "")
    .replace(CONTROLS, " ")
    .replace(/ {2,}/g, " ")
    .trim()
    .toWellFormed();
  return escapeTags(line);
}

/** Leaves generics such as `Map<string>` alone: they follow a word, and their names mean nothing here. */
function escapeTags(text: string): string {
  return text.replace(
    /<(\/?)(?=([A-Za-z][\w:-]*)[\s/>])/g,
    (tag, slash: string, name: string, offset: number) => {
      const afterWord = offset > 0 && /\w/.test(text[offset - 1]!);
      const isPlainGeneric =
        afterWord && slash === "" && !/[-_]/.test(name) && !STRUCTURAL_TAGS.has(name.toLowerCase());
      return isPlainGeneric ? tag : `&lt;${slash}`;
    },
  );
}

/**
 * At most `maximum` UTF-16 units: cut after a sentence where one ends in the second half, else after a word, else
 * between two code points. What was cut ends in an ellipsis.
 */
export function shorten(text: string, maximum: number): string {
  if (text.length <= maximum) return text;
  if (maximum <= 2) return "";
  const room = wholeCodePoints(text, maximum - 2);
  let end = -1;
  for (const match of room.matchAll(/[.!?](?=\s)|[。！？]/g)) end = match.index + 1;
  if (end < maximum / 2) end = room.search(/\s\S*$/);
  const cut = (end >= maximum / 2 ? room.slice(0, end) : room).trimEnd();
  return `${closeCodeSpan(cut)}…`;
}

/** A cut inside a code span leaves it open, which would take in what follows. */
function closeCodeSpan(text: string): string {
  return (text.match(/`/g)?.length ?? 0) % 2 === 1 ? `${text}\`` : text;
}

/** Letters of a sentence without case, marks and spaces, to see whether two say the same. */
export function sameness(text: string): string {
  return text
    .toLowerCase()
    .replace(/[^\p{L}\p{N}]+/gu, " ")
    .trim();
}

/**
 * Calls `found` for each term of a text: words in small letters without their commonest endings, numbers, and, where words
 * run together (Chinese, Japanese, Korean), pairs of characters.
 */
export function eachTerm(text: string, found: (term: string) => void): void {
  for (const [word] of text.matchAll(WORDS)) {
    if (!RUN_TOGETHER.test(word)) found(stem(word));
    else if (word.length <= 2) found(word);
    else for (let at = 0; at < word.length - 1; at++) found(word.slice(at, at + 2));
  }
}

const WORDS =
  /[A-Za-z_\u00c0-\u052f][\w\u00c0-\u052f'’-]*[\w\u00c0-\u052f]|\d[\d.,:]*\d|[\u0530-\u1fff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+/g;
const RUN_TOGETHER = /^[\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]/;
const stem = (word: string) => word.toLowerCase().replace(/(?:ing|ed|es|s)$/, "");

/** Degree to which a term tells one text from the others: the fewer messages have it, the more. */
export interface Rarity {
  /** Counts the terms of one message. */
  read(text: string): void;
  /** From 0, in every message, to about 7, in one of a thousand. */
  of(term: string): number;
}

/** Characters of a message that are counted: what is rare stands at the beginning of a long one as well. */
const COUNTED = 4_000;

/** Terms remembered; beyond them, those that stood in a single message are forgotten: they stay rare. */
const REMEMBERED = 100_000;

export function createRarity(): Rarity {
  const counts = new Map<string, { messages: number; last: number }>();
  let messages = 0;
  return {
    read(text) {
      messages++;
      if (counts.size > REMEMBERED) {
        for (const [term, count] of counts) if (count.messages === 1) counts.delete(term);
      }
      eachTerm(text.slice(0, COUNTED), (term) => {
        const count = counts.get(term);
        if (count === undefined) counts.set(term, { messages: 1, last: messages });
        else if (count.last !== messages) {
          count.messages++;
          count.last = messages;
        }
      });
    },
    of: (term) =>
      term.length < 2 ? 0 : Math.max(0, Math.log((messages + 1) / (1 + (counts.get(term)?.messages ?? 0)))),
  };
}

/** Names as programs spell them (camelCase, PascalCase, snake_case, SCREAMING_CASE), and flags. */
const NAMES =
  /(?<![\w./-])(?:[a-z][a-z0-9]*[A-Z]\w*|[A-Z][a-z0-9]+[A-Z]\w*|[A-Za-z0-9]+_\w+|[A-Z][A-Z0-9_]{4,}|--[a-z][a-z-]{2,}|[a-z0-9-]+(?:\.[a-z0-9-]+)*\.(?:com|org|net|io|dev|ai|local))(?![\w/])/g;

/** Calls `found` for each name in a text that somebody would have to spell exactly. */
export function eachName(text: string, found: (name: string) => void): void {
  for (const [name] of text.matchAll(NAMES)) {
    if (name.length >= 5 && name.length <= 60 && !isEncoded(name)) found(name);
  }
}

/** Base64 and hashes: letters and digits change places often. */
function isEncoded(name: string): boolean {
  const changes = name.match(/\d[A-Za-z]|[A-Za-z]\d|[A-Z]{2}[a-z]/g)?.length ?? 0;
  return name.length >= 12 && changes / name.length > 0.3;
}

/** A name that nothing but its own letters brings back, with the words that stood before it. */
export interface Handle {
  text: string;
  words: string;
}

/** Addresses, hosts with a port, commits, numbers of issues and pull requests, tickets. */
const HANDLES =
  /https?:\/\/[^\s)`"'<>\]|]+[^\s)`"'<>\]|.,:;!?*]|(?<![\w#&])#\d{1,6}\b|\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,40}\b|\b\d{1,3}(?:\.\d{1,3}){3}(?::\d{2,5})?\b|\blocalhost:\d{2,5}\b|\b[A-Z]{2,5}-\d{2,5}\b/g;

/** A branch is named as one: `branch feature/rows`, "the branch `x`", 分支, 브랜치. */
const BRANCHES = /(?:\bbranch|分支|브랜치)[:\s`'"“]{1,4}([\w.-]+(?:\/[\w.-]+)*[\w-])/gi;
const WORDS_BEFORE = 40;
const LONGEST_HANDLE = 200;

/** The handles in a text, in order. */
export function handlesIn(text: string): Handle[] {
  const found: { text: string; at: number }[] = [];
  for (const match of text.matchAll(HANDLES)) found.push({ text: match[0], at: match.index });
  for (const match of text.matchAll(BRANCHES)) {
    const [whole, name] = match as unknown as [string, string];
    if (/[\d/_-]|^(?:main|master|dev)/.test(name))
      found.push({ text: name, at: match.index + whole.length - name.length });
  }
  return found
    .filter(({ text: { length } }) => length <= LONGEST_HANDLE)
    .sort((a, b) => a.at - b.at)
    .map(({ text: handle, at }) => ({ text: handle, words: wordsBefore(text, at) }));
}

/** The end of the line before a place, from the beginning of a word. */
function wordsBefore(text: string, at: number): string {
  const line = text
    .slice(Math.max(0, at - 400), at)
    .split("\n")
    .at(-1)!;
  const near = line.slice(-WORDS_BEFORE);
  return near.length === line.length ? near : near.replace(/^[\w'’-]+\W+/, "");
}
