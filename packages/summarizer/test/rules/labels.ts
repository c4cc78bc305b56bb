import { existsSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

/** A range of a turn: a rule, or (`maybe`) one where two readers may differ, which counts neither way. */
interface Label {
  start: number;
  end: number;
  maybe?: boolean;
}

export interface LabelledTurn {
  text: string;
  labels: Label[];
}

const folder = (name: string) => fileURLToPath(new URL(name, import.meta.url));

/** Turns of a set of `written.txt`, such as `held ko`. */
export function writtenTurns(set: string): LabelledTurn[] {
  const [, turns = ""] = readFileSync(folder("written.txt"), "utf8").split(`\n=== ${set}\n`);
  return turns
    .split("\n=== ")[0]!
    .split(/\n---\n/)
    .map((marked) => readMarks(marked.trimEnd()));
}

/** The text without its marks, and where they were. */
function readMarks(marked: string): LabelledTurn {
  const labels: Label[] = [];
  let text = "";
  let start = 0;
  for (const part of marked.split(/(\[\[|\]\]|\(\(|\)\))/)) {
    if (part === "[[" || part === "((") start = text.length;
    else if (part === "]]") labels.push({ start, end: text.length });
    else if (part === "))") labels.push({ start, end: text.length, maybe: true });
    else text += part;
  }
  return { text, labels };
}

/** Labels of one reader for sessions by file: entry ids and offsets, without a word of their texts. */
type SessionLabels = Record<string, { labels: (Label & { entryId: string })[] }>;

const readLabels = (name: string) => JSON.parse(readFileSync(folder(name), "utf8")) as SessionLabels;

/** Labels of recorded sessions by who wrote the detector, and by a reader who had not seen it or what it finds. */
export const corpusLabels = { own: readLabels("corpus-labels.json"), blind: readLabels("blind-labels.json") };

/**
 * Labels of the requests that the long sessions have beyond the short ones, by a reader who had not seen the detector. A
 * rule that is taken back is `maybe`. At first the detector had a precision of 0.62 and a recall of 0.60 on them; it was
 * corrected by them since.
 */
export const longLabels = readLabels("long-labels.json");

/** Folder of the recorded sessions; undefined where this machine has none. */
export const corpus = [folder("../../../../../shared/corpus")].find((path) => existsSync(path));

/** Counts of a detector's answers against the labels. */
export interface Tally {
  right: number;
  wrong: string[];
  missed: string[];
}

/** Compares ranges that were found in a turn with its labels: one that covers half of the shorter is the same. */
export function tally(
  into: Tally,
  { text, labels }: LabelledTurn,
  found: readonly { range: readonly [number, number] }[],
): void {
  const isSame = ({ start, end }: Label, [from, to]: readonly [number, number]) =>
    Math.min(end, to) - Math.max(start, from) >= Math.min(end - start, to - from) / 2;
  for (const { range } of found) {
    const hit = labels.filter((label) => isSame(label, range));
    if (hit.some(({ maybe }) => !maybe)) into.right++;
    else if (hit.length === 0) into.wrong.push(text.slice(...range));
  }
  for (const label of labels) {
    if (!label.maybe && !found.some(({ range }) => isSame(label, range)))
      into.missed.push(text.slice(label.start, label.end));
  }
}
