import { SessionTreeError } from "../session-tree-error.ts";

/** One entry of a tree as it was written down. */
export interface Sprout {
  /** The entry's id; its first letter tells the kind. */
  name: string;
  /** What stands in parentheses: words, and texts in quotes. */
  words: string[];
  /** The name before it in its chain; null for a root. */
  parent: string | null;
}

/** A tree as it was written down. */
export interface WrittenTree {
  /** In the order in which they were first named. */
  sprouts: Sprout[];
  /** The name with a `*`. */
  leaf: string | undefined;
}

const TOKEN = /[^\S\n]+|(>)|([;\n])|([A-Za-z][\w-]*)|(\()|(\*)/y;
const WORD = /\s*(?:"((?:[^"\\]|\\.)*)"|([^\s()"]+))/y;

/**
 * Reads `u1 > a1 > u2; a1 > u3*`: chains of names, `;` or a new line between them. The first name of a chain may stand
 * elsewhere already, then the chain goes on from there; every other name is a new entry under the one before it.
 * `k1(u2 "text")`: words for an entry. `*`: the leaf.
 *
 * @throws SessionTreeError `invalid-entry`, saying where the text cannot be read
 */
export function readTreeLanguage(text: string): WrittenTree {
  const sprouts = new Map<string, Sprout>();
  let leaf: string | undefined;
  let parent: string | null = null;
  let last: Sprout | undefined;
  let joined = false;
  for (let at = 0; at < text.length; ) {
    TOKEN.lastIndex = at;
    const token = TOKEN.exec(text);
    if (!token) throw unreadable(text, at, "a name, `>`, `;`, `*` or words in parentheses should stand here");
    const [whole, arrow, end, name, words, star] = token;
    if (arrow !== undefined) joined = true;
    if (end !== undefined) {
      parent = null;
      joined = false;
    }
    if (name !== undefined) {
      if (parent !== null && !joined) throw unreadable(text, at, "a `>` or `;` is missing before it");
      if (parent !== null && sprouts.has(name)) throw unreadable(text, at, `${name} has its place already`);
      last = sprouts.get(name) ?? { name, words: [], parent };
      sprouts.set(name, last);
      parent = name;
      joined = false;
    }
    at += whole.length;
    if (words !== undefined) at = readWords(text, at, last?.words ?? []);
    if (star !== undefined) leaf = last?.name;
  }
  return { sprouts: [...sprouts.values()], leaf };
}

/** Reads words up to the closing parenthesis; returns the position behind it. */
function readWords(text: string, from: number, words: string[]): number {
  let at = from;
  for (;;) {
    WORD.lastIndex = at;
    const word = WORD.exec(text);
    if (!word) break;
    words.push(word[2] ?? (JSON.parse(`"${word[1]!.replaceAll("\n", "\\n")}"`) as string));
    at += word[0].length;
  }
  const end = /\s*\)/y;
  end.lastIndex = at;
  const closing = end.exec(text);
  if (!closing) throw unreadable(text, at, "the words have no closing parenthesis");
  return at + closing[0].length;
}

function unreadable(text: string, at: number, problem: string): SessionTreeError {
  const rest = text.slice(at, at + 20);
  return new SessionTreeError(
    "invalid-entry",
    `The tree cannot be read at ${JSON.stringify(rest)}: ${problem}.`,
  );
}
