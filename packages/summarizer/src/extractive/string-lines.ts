import type { Facts } from "./facts.ts";
import { lengthOf } from "./lines.ts";
import { groupStrings } from "./string-groups.ts";
import type { IndexedString } from "./string-index.ts";
import { stringValue } from "./string-value.ts";
import type { FileWork } from "./work-log.ts";

/** Of the room for strings, for the paths of files that were changed, whatever their names weigh. */
const CHANGED_FILES_SHARE = 0.2;
/** Strings considered; no room holds more. */
const MOST_STRINGS = 4_000;
/** A file changed this many messages later outranks one changed e times as often. */
const MESSAGES_PER_FACTOR = 200;

/** Scratch files: changed, but nothing that anyone comes back to. */
const TEMPORARY = /^(?:\/private)?\/(?:var\/)?tmp\//;

/** After this many names of one file the next counts half: an index of all files serves better than one file's. */
const NAMES_TO_HALF = 120;

interface Valued {
  string: IndexedString;
  value: number;
}

/** As many exact strings as fit into `room` characters, the most valuable first, without those that `said` holds. */
export function stringLines(facts: Facts, said: string, room: number): string[] {
  const files = new Map(facts.digest.work.files().map((file) => [file.path, file]));
  const changed = changedFiles([...files.values()], Math.floor(room * CHANGED_FILES_SHARE));
  const ranked = rankStrings(facts, said);
  // The most strings whose lines fit: length grows with their number, so halving finds it.
  let fits = 0;
  let tooMany = ranked.length + 1;
  while (tooMany - fits > 1) {
    const middle = (fits + tooMany) >> 1;
    if (lengthOf(groupStrings(ranked.slice(0, middle), changed, files)) <= room) fits = middle;
    else tooMany = middle;
  }
  const lines = groupStrings(ranked.slice(0, fits), changed, files);
  return lengthOf(lines) <= room ? lines : [];
}

/** Hyphenated words and values that only a tool wrote are mostly licences, logs and clock times. */
function isCandidate({ kind, spoken, messages, prior }: IndexedString): boolean {
  if (spoken || prior > 0) return true;
  return kind !== "value" && (kind !== "word" || messages > 1);
}

function rankStrings({ digest, focus }: Facts, said: string): IndexedString[] {
  const valued: Valued[] = [...digest.strings.entries()].filter(isCandidate).map((string) => ({
    string,
    value: stringValue(string, digest.messageCount, focus),
  }));
  return spread(valued)
    .slice(0, MOST_STRINGS)
    .map(({ string }) => string)
    .filter((string) => !said.includes(string.text));
}

/** Sorted by worth, after every further name of the same file has lost a little. */
function spread(strings: readonly Valued[]): Valued[] {
  const byWorth = (a: Valued, b: Valued) => b.value - a.value || a.string.order - b.string.order;
  const counts = new Map<string, number>();
  return strings
    .toSorted(byWorth)
    .map(({ string, value }) => {
      const before = counts.get(string.home ?? "") ?? 0;
      if (string.home !== undefined) counts.set(string.home, before + 1);
      return { string, value: value / (1 + before / NAMES_TO_HALF) };
    })
    .sort(byWorth);
}

/** The files changed most and last, until their paths fill the room. */
function changedFiles(files: readonly FileWork[], room: number): string[] {
  const worth = ({ edits, last }: FileWork) => Math.log1p(edits) + last / MESSAGES_PER_FACTOR;
  const byWorth = files
    .filter((file) => file.edits > 0 && !TEMPORARY.test(file.path))
    .sort((a, b) => worth(b) - worth(a) || (a.path < b.path ? -1 : 1));
  let left = room;
  return byWorth.flatMap(({ path }) => {
    left -= path.length + 20;
    return left >= 0 ? [path] : [];
  });
}
