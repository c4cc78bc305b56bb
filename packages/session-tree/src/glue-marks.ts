import { EntryScan, scanEntry } from "./entry-scan.ts";
import { type Mark, MarkSearch } from "./mark-search.ts";

const encoder = new TextEncoder();
const QUOTE = 34;
const TIMESTAMP = encoder.encode('"timestamp":"');
const PARENT = encoder.encode('"parent');

/** How far the end of a time stands behind its key: as `toISOString` writes it, it has 24 characters. */
const DISTANCE = TIMESTAMP.length + "2026-01-05T09:00:00.000".length;

/** `"timestamp":"…Z"`, by its Z: the rarest byte in what is said, so that most lines are covered in one go. */
const time: Mark = {
  sought: encoder.encode("Z"),
  endsAt: (bytes, at) =>
    bytes[at] === 90 && bytes[at + 1] === QUOTE && stands(TIMESTAMP, bytes, at - DISTANCE),
};

/** `"parentId":`, by its capital: quotes are everywhere, and this is found five times as fast as from its beginning. */
const parent: Mark = {
  sought: encoder.encode('Id":'),
  endsAt: (bytes, at) => bytes[at + 1] === 100 && stands(PARENT, bytes, at - PARENT.length),
};

/** Where the time of the usual line ends, behind the comma after its three keys. */
const OWN_TIME = 1 + DISTANCE;

/**
 * Finds lines on which a second entry may stand: a write that was cut, and the next one glued to it. Every entry has one
 * `"parentId":` (inside a text its quotes are escaped, so it reads otherwise); a second one on the same line means that
 * the line has to be parsed to know. Where the line has its time as all programs write it that are known, the next one's
 * time is looked for instead: that takes a third.
 */
export class GlueMarks {
  readonly #times = new MarkSearch(time);
  readonly #parents = new MarkSearch(parent);

  /**
   * True when a second entry may stand in `block[from, end)`, where `from` is behind the three keys of the first.
   * `base` is the offset of the block's first byte in the log.
   */
  between(block: Uint8Array, base: number, from: number, end: number): boolean {
    const ownTime = from + OWN_TIME;
    return time.endsAt(block, ownTime)
      ? this.#times.between(block, base, ownTime + 1, end)
      : this.#parents.between(block, base, from, end);
  }
}

/**
 * Whether readers that do not parse look for the second entry of a line, which begins at `start`: only then it counts, so
 * that all readers see the same entries.
 */
export function isLookedFor(line: Uint8Array, start: number): boolean {
  if (!new MarkSearch(parent).between(line, 0, start, line.length)) return false;
  const scan = new EntryScan();
  const isSure = scanEntry(line, 0, line.length, scan);
  return !isSure || new GlueMarks().between(line, 0, scan.stop, line.length);
}

function stands(word: Uint8Array, bytes: Uint8Array, at: number): boolean {
  for (let i = 0; i < word.length; i++) if (bytes[at + i] !== word[i]) return false;
  return true;
}
