import { isCommonName, isShout } from "./common-names.ts";

const SHORTEST = 5;

/** What a word is by its spelling; undefined for a word of prose and for encoded data. */
export function nameKind(word: string): "name" | "word" | "common" | undefined {
  if (word.length < SHORTEST || looksEncoded(word) || isShout(word)) return undefined;
  if (isCommonName(word)) return "common";
  if (/^[A-Z]+$/.test(word) || /^[a-z][a-z0-9]*(?:-[a-z0-9]+)+$/.test(word)) return "word";
  return isSpeltByPrograms(word) ? "name" : undefined;
}

/** camelCase, PascalCase, snake_case, SCREAMING_CASE. */
function isSpeltByPrograms(word: string): boolean {
  if (!/^[\w$À-ɏ]+$/.test(word)) return false;
  if (/^[a-z$_][a-z0-9]*[A-Z]\w*$/.test(word)) return true;
  if (/^[A-Z][a-z0-9]+(?:[A-Z][a-z0-9]*)+\w*$/.test(word)) return true;
  if (/[A-Za-z0-9]_[A-Za-z0-9]/.test(word)) return !/^\d+(?:_\d+)*$/.test(word);
  return /^[A-Z][A-Z0-9]{4,}$/.test(word);
}

/** Base64, hashes inside names, minified code: many changes between digits, small and capital letters. */
function looksEncoded(word: string): boolean {
  if (word.length > 60) return true;
  if (word.length < 12) return false;
  const digits = word.match(/\d/g)?.length ?? 0;
  const changes = word.match(/[a-z][A-Z]|[A-Z]{2}[a-z]|\d[A-Za-z]|[A-Za-z]\d/g)?.length ?? 0;
  return digits / word.length > 0.3 || changes / word.length > 0.35;
}
