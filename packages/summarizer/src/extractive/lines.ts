import { gistOf, type Weigh } from "./gist.ts";
import { eachTerm, type Rarity, sameness, shorten } from "./text.ts";

/** A candidate line for a part of the summary. */
export interface Line {
  text: string;
  /** Lines with a higher priority are chosen first. */
  priority: number;
  /** Lines with a lower order come first. */
  order: number;
}

/** Fits lines into rooms, one part after the other, and stores the fitted text. */
export interface LineFitter {
  /**
   * Returns as many lines as fit by priority, in their order, as list items. If they do not all fit whole, their
   * quotations are cut to the most informative words that the summary does not have yet.
   */
  fit(lines: readonly Line[], room: number): string[];
  /** All fitted text. */
  readonly told: string;
}

/** Minimum length of a line after a cut. */
const SHORTEST = 24;

/** A line that would have to be cut to less than this is left out. */
const LEAST = 110;

/** Minimum length of a quotation after a cut. */
const LEAST_QUOTATION = 56;

/** Maximum length of a line: longer ones are hard to read. */
const LONGEST = 590;

/** Characters of list mark and line end. */
const MARK = 3;

/** Factor of an equal share that the newest lines get. */
const NEWEST = 1.4;

/** Value of a term that the summary already has, as a share of its rarity. */
const TOLD_SHARE = 0.15;

export function createLineFitter(rarity: Rarity): LineFitter {
  const seen = new Set<string>();
  const terms = new Set<string>();
  let told = "";
  const weigh: Weigh = (term) => rarity.of(term) * (terms.has(term) ? TOLD_SHARE : 1);

  return {
    get told() {
      return told;
    },
    fit(lines, room) {
      const chosen: Line[] = [];
      let free = room;
      for (const line of lines.toSorted((a, b) => b.priority - a.priority || a.order - b.order)) {
        const key = sameness(line.text);
        const length = leastOf(line.text, room) + MARK;
        if (key === "" || seen.has(key) || length > free) continue;
        seen.add(key);
        free -= length;
        chosen.push(line);
      }
      // Lines with a higher priority are cut first, while the summary still lacks most terms.
      chosen.sort((a, b) => b.priority - a.priority);
      const leasts = chosen.map(({ text }) => leastOf(text, room) + MARK);
      let left = room;
      const fitted = chosen.map((line, index) => {
        const rest = chosen.slice(index).map(({ text }) => Math.min(text.length, LONGEST) + MARK);
        const later = leasts.slice(index + 1).reduce((sum, least) => sum + least, 0);
        const level = Math.min(left - later, Math.max(levelOf(rest, left) * NEWEST, leasts[index]!));
        const most = Math.min(LONGEST, level - MARK);
        const text = cutQuotations(line.text, most, weigh);
        left -= text.length + MARK;
        told += `${text}\n`;
        eachTerm(text, (term) => terms.add(term));
        return { ...line, text };
      });
      return fitted
        .filter(({ text }) => text.length > 0)
        .sort((a, b) => a.order - b.order || b.priority - a.priority)
        .map(({ text }) => `- ${text}`);
    },
  };
}

/** Returns the limit that cuts lengths so that their sum is `room`: room that short lines leave goes to long ones. */
function levelOf(lengths: readonly number[], room: number): number {
  let left = room;
  for (const [index, length] of lengths.toSorted((a, b) => a - b).entries()) {
    const level = left / (lengths.length - index);
    if (length > level) return Math.floor(level);
    left -= length;
  }
  return Number.MAX_SAFE_INTEGER;
}

/**
 * Returns the minimum length to which a line can be cut: text outside quotations stays whole unless there is no room
 * for it at all.
 */
function leastOf(line: string, room: number): number {
  const quotations = partsOf(line).filter(isQuotation);
  const fixed = line.length - quotations.reduce((sum, { length }) => sum + length, 0);
  const said = quotations.reduce((sum, { length }) => sum + Math.min(length, LEAST_QUOTATION), 0);
  return Math.min(line.length, Math.max(LEAST, fixed + said), Math.max(SHORTEST, room - MARK));
}

const partsOf = (line: string) => line.match(/`[^`]*`|"[^"]*"|[^`"]+|[`"]/g) ?? [];

/** Returns a line whose quotations were cut so that it has at most `most` characters. */
function cutQuotations(line: string, most: number, weigh: Weigh): string {
  if (line.length <= most) return line;
  if (most < SHORTEST) return "";
  const parts = partsOf(line);
  const quotations = parts.filter(isQuotation);
  const fixed = line.length - quotations.reduce((sum, { length }) => sum + length, 0);
  const level = levelOf(
    quotations.map(({ length }) => length),
    most - fixed,
  );
  const cut = parts
    .map((part) =>
      isQuotation(part) && part.length > level
        ? `"${gistOf(part.slice(1, -1), Math.max(level - 2, 0), weigh)}"`
        : part,
    )
    .join("");
  if (cut.length <= most) return cut;
  const short = shorten(cut, most - 1);
  return /(?:^|[ (])"[^"]*$/.test(short) ? `${short}"` : short;
}

const isQuotation = (part: string) => part.length > 2 && part.startsWith('"') && part.endsWith('"');
