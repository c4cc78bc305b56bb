import { splitsPair } from "../transcript.ts";

/**
 * Quoted words in a summary. All text from the messages is in quotation marks or in a code span, on one line, so that
 * no heading, tag or list item in it can become part of the summary's structure.
 */

/**
 * Quotes a text on one line, shortened to at most `maximum` UTF-16 units including the marks. Marks inside become
 * apostrophes.
 */
export function quote(text: string, maximum: number): string {
  return `"${shorten(quotable(wholeCodePoints(text, maximum * 4)), maximum - 2)}"`;
}

/** Replaces quotation marks inside a quotation, so that its end is visible. */
const quotable = (text: string) => oneLine(text).replaceAll('"', "'");

/**
 * Quotes both ends of a text on one line of at most `maximum` UTF-16 units: a request is usually at its beginning or
 * its end.
 */
export function quoteEnds(text: string, maximum: number): string {
  const line = quotable(text);
  if (line.length <= maximum - 2) return `"${line}"`;
  const head = shorten(line, Math.floor((maximum - 2) * 0.6));
  const tail = line.slice(-Math.floor((maximum - 2) * 0.4)).replace(/^\S*\s/, "");
  return `"${head} ${tail.toWellFormed().replace(/^\ufffd/, "")}"`;
}

/** Maximum length in characters of a line, in a quotation of several lines. */
const QUOTED_LINE = 560;

/**
 * Quotes both ends of a text on as many lines as needed. Each line has quotation marks, and ends after a sentence or
 * a word.
 */
export function quoteLines(text: string, maximum: number): string[] {
  const lines: string[] = [];
  let rest = quoteEnds(text, maximum).slice(1, -1);
  while (rest.length > QUOTED_LINE) {
    const line = wholeCodePoints(rest, QUOTED_LINE);
    const end = [...line.matchAll(/(?<!\d)[.!?](?=\s)|[。！？]/g)].at(-1)?.index ?? -1;
    const cut =
      end > QUOTED_LINE / 2 ? end + 1 : line.lastIndexOf(" ") > 0 ? line.lastIndexOf(" ") : line.length;
    lines.push(line.slice(0, cut));
    rest = rest.slice(cut).trimStart();
  }
  return [...lines, rest].map((line) => `"${line}"`);
}

/** Returns a code span of one line; backticks in it become apostrophes, which cannot end it. */
export function codeSpan(text: string, maximum: number): string {
  const line = oneLine(wholeCodePoints(text, maximum * 4)).replaceAll("`", "'");
  return `\`${shorten(line, maximum - 2)}\``;
}

/** Returns the first `length` UTF-16 units, one less when that would split a surrogate pair. */
export function wholeCodePoints(text: string, length: number): string {
  return text.slice(0, splitsPair(text, length) ? length - 1 : length);
}

/**
 * Tags that could read as a frame around a summary, a message or a call. Other tags are text, for example `<T>` and
 * `logs/<id>.log`.
 */
const FRAME_TAG =
  /<(?=\/?(?:(?:previous-)?summary|goal|pinned|rules|latest-user-message|(?:read|modified)-files|system|user|assistant|human|conversation|transcript|instructions|context|(?:system|tool|function)[-_]\w+)[\s/>])/gi;
const ESCAPE_SEQUENCE = /\u001b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\u0007\u001b]*\u0007?)/g;

/** Control characters, line and paragraph separators, and marks that change the direction of text. */
const CONTROLS = /[\u0000-\u001f\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069]+/g;

/**
 * Returns one line of well-formed text without control characters; the `<` of a {@link FRAME_TAG} becomes `&lt;`.
 */
export function oneLine(text: string): string {
  return text
    .replace(ESCAPE_SEQUENCE, "")
    .replace(CONTROLS, " ")
    .replace(/ {2,}/g, " ")
    .trim()
    .toWellFormed()
    .replace(FRAME_TAG, "&lt;");
}

/**
 * Cuts a text to at most `maximum` UTF-16 units: after a sentence that ends in the second half, else after a word, else
 * between two code points. A cut text ends in an ellipsis; it is empty when `maximum` is 2 or less.
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

/** Closes a code span that a cut left open, so that it does not include the following text. */
function closeCodeSpan(text: string): string {
  return (text.match(/`/g)?.length ?? 0) % 2 === 1 ? `${text}\`` : text;
}

/** Returns the letters of a sentence without case, marks and spaces, to compare sentences. */
export function sameness(text: string): string {
  return text
    .toLowerCase()
    .replace(/[^\p{L}\p{N}]+/gu, " ")
    .trim();
}

/**
 * Calls `found` for each term of a text: words in small letters without their commonest endings, numbers, and pairs of
 * characters in scripts without spaces (Chinese, Japanese, Korean).
 */
export function eachTerm(text: string, found: (term: string) => void): void {
  for (const [word] of text.matchAll(WORDS)) {
    if (!RUN_TOGETHER.test(word)) found(stem(word));
    else if (word.length <= 2) found(word);
    else for (let at = 0; at < word.length - 1; at++) found(word.slice(at, at + 2));
  }
}

/** Adds the terms of a text to known ones. Returns whether at least a third of them are new. */
export function addsTerms(text: string, known: Set<string>): boolean {
  const terms = new Set<string>();
  eachTerm(text, (term) => terms.add(term));
  const added = [...terms].filter((term) => !known.has(term));
  for (const term of added) known.add(term);
  return added.length * 3 >= terms.size;
}

const WORDS =
  /[A-Za-z_\u00c0-\u052f][\w\u00c0-\u052f'’-]*[\w\u00c0-\u052f]|\d[\d.,:]*\d|[\u0530-\u1fff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+/g;
const RUN_TOGETHER = /^[\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]/;
const stem = (word: string) => word.toLowerCase().replace(/(?:ing|ed|es|s)$/, "");

/** Maximum length of a run of words that is kept or left out as one piece. */
const LONGEST_PIECE = 70;
const SHORTEST_PIECE = 14;

/** Maximum number of characters of a text that are searched: a quotation is never taken from further down. */
const LONGEST_TEXT = 2_000;

/** Cost of a piece in addition to its letters: the ellipsis before it. */
const GAP = 3;

const ELLIPSIS = " … ";

/**
 * Returns the most informative pieces of a text, in their order and with their words, with an ellipsis for each
 * omission: at most `room` characters. Known terms do not count. A piece ends at the end of a sentence or a clause, or before a word like "and".
 */
export function gistOf(text: string, room: number, known: ReadonlySet<string>): string {
  if (text.length <= room) return text;
  const pieces = piecesOf(text.slice(0, LONGEST_TEXT));
  const taken = new Set<Piece>();
  const told = new Set(known);
  let left = room - 1;
  for (;;) {
    const best = bestPiece(pieces, taken, told, left);
    if (best === undefined) break;
    for (const piece of best) {
      taken.add(piece);
      for (const term of piece.terms) told.add(term);
      left -= piece.end - piece.start + GAP;
    }
  }
  // Words outside their sentences have little information.
  if (left > room / 2) return shorten(text, room);
  return joinPieces(
    text,
    pieces.filter((piece) => taken.has(piece)),
    room,
  );
}

interface Piece {
  start: number;
  end: number;
  terms: Set<string>;
  /** Piece before it that ends with a negation: without that piece, this one would say the opposite. */
  negatedBy: Piece | undefined;
}

function bestPiece(
  pieces: readonly Piece[],
  taken: ReadonlySet<Piece>,
  told: ReadonlySet<string>,
  room: number,
): Piece[] | undefined {
  let best: { pieces: Piece[]; worth: number } | undefined;
  for (const [index, piece] of pieces.entries()) {
    if (taken.has(piece)) continue;
    const together = [piece];
    for (let at = piece.negatedBy; at && !taken.has(at); at = at.negatedBy) together.push(at);
    const length = together.reduce((sum, { start, end }) => sum + end - start + GAP, 0);
    if (length - GAP > room) continue;
    let sum = 0;
    for (const { terms } of together)
      for (const term of terms) if (!told.has(term)) sum += Math.log(term.length + 1);
    // Of two pieces with the same value, the earlier one is preferred: pieces of known words are taken in order.
    const worth = (sum / length) * (1.2 - (0.2 * index) / pieces.length);
    if (worth > (best?.worth ?? -1)) best = { pieces: together, worth };
  }
  return best?.pieces;
}

const BORDERS =
  /[.!?:;,](?=\s)|[。！？；，、：…]|\s[–—-](?=\s)|\)(?=\s)|\s(?=\()|\s(?=(?:and|or|but|so|which|that|because|since|instead|when|where|with|for|from|to|in|into|und|weil)\s)/g;

const NEGATION =
  "(?:(?:^|[^\\p{L}])(?:not|never|no|none|nor|cannot|without|nicht|nie|kein\\p{L}{0,2})(?!\\p{L})|n['’]t(?!\\p{L})|(?<!\\p{L})(?:do|does|did|is|are|was|were|has|have|had|should|would|could|must|ca|wo)nt(?!\\p{L})|[不没无無未非別别勿]|않|없|(?:^|\\s)안\\s)";
const NEGATED = new RegExp(NEGATION, "iu");
/** A negation at the end of a piece, with at most two words after it. */
const ENDS_NEGATED = new RegExp(`${NEGATION}(?:[\\s*_]+\\S+){0,2}$`, "iu");

/** Returns whether a text negates something. */
export const isNegated = (text: string): boolean => NEGATED.test(text);

/** Returns whether a text ends where its sentence ends. */
export const endsSentence = (text: string): boolean => /[.!?。！？]['"”’)\]`*]*$/u.test(text);

function piecesOf(text: string): Piece[] {
  const pieces: Piece[] = [];
  let start = 0;
  const close = (end: number) => {
    const piece = text.slice(start, end);
    const lead = piece.length - piece.trimStart().length;
    const trimmed = piece.trim();
    if (trimmed !== "") {
      const terms = new Set<string>();
      eachTerm(trimmed, (term) => terms.add(term));
      const before = pieces.at(-1);
      const words = before ? text.slice(before.start, before.end) : "";
      const negatedBy = ENDS_NEGATED.test(words) && !endsSentence(words) ? before : undefined;
      pieces.push({ start: start + lead, end: start + lead + trimmed.length, terms, negatedBy });
    }
    start = end;
  };
  for (const match of text.matchAll(BORDERS)) {
    const end = match.index + match[0].length;
    while (end - start > LONGEST_PIECE) close(wordEnd(text, start + LONGEST_PIECE, start));
    if (end - start >= SHORTEST_PIECE) close(end);
  }
  while (text.length - start > LONGEST_PIECE) close(wordEnd(text, start + LONGEST_PIECE, start));
  close(text.length);
  return pieces;
}

/** Returns the end of the last word before an index; the index itself inside a long word. */
function wordEnd(text: string, place: number, from: number): number {
  const space = text.lastIndexOf(" ", place);
  if (space > from) return space;
  return /[\udc00-\udfff]/.test(text[place] ?? "") ? place - 1 : place;
}

function joinPieces(text: string, pieces: readonly Piece[], room: number): string {
  let joined = "";
  let end = 0;
  for (const piece of pieces) {
    const between = text.slice(end, piece.start);
    const gap = joined === "" ? (piece.start > 0 ? "…" : "") : between.trim() === "" ? between : ELLIPSIS;
    joined += gap + text.slice(piece.start, piece.end);
    end = piece.end;
  }
  if (end < text.trimEnd().length) joined += "…";
  const whole = joined.replace(/[…\s]*…[…\s]*…/g, ELLIPSIS).replace(/,…/g, "…");
  return shorten((whole.match(/`/g)?.length ?? 0) % 2 === 1 ? whole.replaceAll("`", "'") : whole, room);
}

/** Joins texts to lines of at most 380 characters and `most` texts. */
export function chunked(texts: readonly string[], separator: string, most = 5): string[] {
  const chunks: string[][] = [];
  for (const text of texts) {
    const chunk = chunks.at(-1);
    const length = chunk?.reduce((sum, { length: each }) => sum + each + separator.length, 0) ?? 0;
    if (chunk === undefined || chunk.length >= most || length + text.length > 380) chunks.push([text]);
    else chunk.push(text);
  }
  return chunks.map((chunk) => chunk.join(separator));
}

/**
 * Returns the texts that fit into `room` characters, in order, each with two characters more; a text that does not fit
 * is skipped.
 */
export function fitting(texts: readonly string[], room: number): string[] {
  let left = room;
  return texts.filter(({ length }) => {
    const fits = length + 2 <= left;
    if (fits) left -= length + 2;
    return fits;
  });
}

/**
 * Names as programs spell them (camelCase, PascalCase, snake_case, SCREAMING_CASE), and flags. Hosts and single words
 * in capitals are left out: most are common to all projects.
 */
const NAMES =
  /(?<![\w./-])(?:[a-z][a-z0-9]*[A-Z]\w*|[A-Z][a-z0-9]+[A-Z]\w*|[A-Za-z0-9]+_\w+|--[a-z][a-z-]{2,})(?![\w/])/g;

/** Calls `found` for each name in a text that has to be spelled exactly. */
export function eachName(text: string, found: (name: string) => void): void {
  for (const [name] of text.matchAll(NAMES)) {
    if (name.length >= 5 && name.length <= 60 && /[A-Za-z]/.test(name) && !isEncoded(name)) found(name);
  }
}

/** Returns whether a name is Base64 or a hash: letters and digits alternate often. */
function isEncoded(name: string): boolean {
  const changes = name.match(/\d[A-Za-z]|[A-Za-z]\d|[A-Z]{2}[a-z]/g)?.length ?? 0;
  return name.length >= 12 && changes / name.length > 0.3;
}

/** A name that cannot be derived and must be copied exactly, with the words before it. */
export interface Handle {
  text: string;
  words: string;
}

/** Addresses, hosts with a port, UUIDs, commits, numbers of issues and pull requests, tickets. */
const HANDLES =
  /https?:\/\/[^\s)`"'<>\]|]+[^\s)`"'<>\]|.,:;!?*]|(?<![\w#&`'"])#\d{1,6}\b|(?<![\\/])\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b|(?<![\\/-])\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,40}\b|\b\d{1,3}(?:\.\d{1,3}){3}(?::\d{2,5})?\b|\blocalhost:\d{2,5}\b|\b[A-Z]{2,5}-\d{2,5}\b/g;

/** Color with a letter in a text: `#303030` in the same text is then a color too, and no number of an issue. */
const COLOR = /#(?=\d*[a-f])[0-9a-f]{6}\b/i;

/** Lines of data, not of prose: JSON, and lines of 1,000 characters or more. */
const DATA = /^\s*[{[].*$|^.{1000,}$/gm;

/** Names of branches after a word for it: `branch feature/rows`, "the branch `x`", 分支, 브랜치. */
const BRANCHES = /(?:\bbranch|分支|브랜치)[:\s`'"“]{1,4}([\w.-]+(?:\/[\w.-]+)*[\w-])/gi;
const WORDS_BEFORE = 40;
const LONGEST_HANDLE = 200;

/** Returns the handles in the prose of a text, in order. */
export function handlesIn(given: string): Handle[] {
  const text = given.replace(DATA, "");
  const found: { text: string; at: number }[] = [];
  const hasColors = COLOR.test(text);
  for (const match of text.matchAll(HANDLES)) {
    if (!hasColors || !/^#\d{6}$/.test(match[0])) found.push({ text: match[0], at: match.index });
  }
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

/** Returns the end of the line before an index, from the beginning of a word, without marks of lists, code and links. */
function wordsBefore(text: string, at: number): string {
  const line = text
    .slice(Math.max(0, at - 400), at)
    .split("\n")
    .at(-1)!;
  const near = line.slice(-WORDS_BEFORE);
  // Of a line that is cut, neither the end of a sentence nor the end of a word is kept; "Mr." ends none.
  const cut = /^.*(?:(?<!\b\p{L}{1,2})[.!?]\s+|[。！？]\s*)(?=\S*\p{L})|^[\w'’-]+\W+/u;
  const words = near.length === line.length ? near : near.replace(cut, "");
  const bare = words.replace(/^\s*(?:[-*+•]\s+)?/, "").replace(/[`*]+/g, "");
  return bare.replace(/\[?([^[\]]*)\]\($/, "$1: ");
}

/** Returns the last part of a path. */
export const basename = (path: string) => path.slice(path.lastIndexOf("/") + 1) || path;
