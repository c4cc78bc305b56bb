import type { Facts } from "./digest.ts";
import { LABELS } from "./exact-string.ts";
import { type IndexedString, stringValue } from "./strings.ts";
import { codeSpan, lengthOf } from "./text.ts";
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

/** A file gets a line of its own when it was changed, or when this many chosen names belong to it. */
const NAMES_FOR_OWN_LINE = 3;

/**
 * Strings as list items: each file with the names that it defines and those that stand in it, then the rest by kind.
 * Names stand in one code span a group, a space between them.
 */
function groupStrings(
  strings: readonly IndexedString[],
  changed: readonly string[],
  files: ReadonlyMap<string, FileWork>,
): string[] {
  const byHome = new Map<string, IndexedString[]>();
  for (const path of ownLines(strings, changed, files)) byHome.set(path, []);
  const paths = [...byHome.keys()];
  const rest: Record<"paths" | "names" | "values" | "links", string[]> = {
    paths: [],
    names: [],
    values: [],
    links: [],
  };
  for (const string of strings) {
    const { text, kind, home } = string;
    if (paths.some((path) => path === text || path.endsWith(`/${text}`))) continue;
    const atHome = home === undefined ? undefined : byHome.get(home);
    if (kind === "url") rest.links.push(text);
    else if (kind === "path" || kind === "file") rest.paths.push(text);
    else if (atHome !== undefined) atHome.push(string);
    else if (kind === "value" || kind === "flag") rest.values.push(text);
    else rest.names.push(text);
  }
  return [
    ...[...byHome].map(([path, names]) => fileLine(path, names, files.get(path))),
    ...listLine(LABELS.otherPaths, rest.paths),
    ...listLine(LABELS.otherNames, rest.names),
    ...listLine(LABELS.values, rest.values),
    ...listLine(LABELS.links, rest.links),
  ];
}

/** The files with a line of their own: changed ones, homes of several names, and files whose path was chosen. */
function ownLines(
  strings: readonly IndexedString[],
  changed: readonly string[],
  files: ReadonlyMap<string, FileWork>,
): Set<string> {
  const names = new Map<string, number>();
  for (const { home, kind } of strings) {
    if (home !== undefined && kind !== "path") names.set(home, (names.get(home) ?? 0) + 1);
  }
  const homes = [...names].filter(([, count]) => count >= NAMES_FOR_OWN_LINE).map(([home]) => home);
  const chosen = strings.map(({ text }) => text).filter((text) => files.has(text));
  return new Set([...changed, ...homes, ...chosen]);
}

function fileLine(path: string, strings: readonly IndexedString[], work: FileWork | undefined): string {
  const defined = strings.filter((string) => string.defined).map(({ text }) => text);
  const others = strings.filter((string) => !string.defined).map(({ text }) => text);
  const groups: string[] = [];
  if (defined.length > 0) groups.push(`${LABELS.defines}\`${defined.join(" ")}\``);
  if (others.length > 0) groups.push(`\`${others.join(" ")}\``);
  return `- ${codeSpan(path, 300)}${changesOf(work)}${groups.length === 0 ? "" : `: ${groups.join("; ")}`}`;
}

function changesOf(work: FileWork | undefined): string {
  if (work === undefined || work.edits === 0) return "";
  return ` (${work.created ? "created, " : ""}changed ${work.edits}×)`;
}

function listLine(label: string, texts: readonly string[]): string[] {
  return texts.length === 0 ? [] : [`- ${label}\`${texts.join(" ")}\``];
}
