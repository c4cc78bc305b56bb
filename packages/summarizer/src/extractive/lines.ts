import { gistOf, type Weigh } from "./gist.ts";
import { eachTerm, type Rarity, sameness, shorten } from "./text.ts";

/** A candidate line of a part of the summary. */
export interface Line {
  text: string;
  /** Higher is chosen first. */
  priority: number;
  /** Lower stands first. */
  order: number;
}

/** Fits lines into rooms, one part after the other, and remembers what they told. */
export interface LineFitter {
  /**
   * Of `lines`, as many as fit by priority, in their order, as list items. Where they do not all fit whole, quotations in
   * them are cut to what says most, and to what the summary does not tell yet.
   */
  fit(lines: readonly Line[], room: number): string[];
  /** Everything that was fitted. */
  readonly told: string;
}

/** What is left of a line below this length says nothing. */
const SHORTEST = 24;

/** A line that has to be cut is left out rather than cut below this. */
const LEAST = 110;

/** A quotation that has to be cut is left this much. */
const LEAST_QUOTATION = 56;

/** No line is longer: a reader loses its beginning. */
const LONGEST = 590;

/** List mark and line end. */
const MARK = 3;

/** The newest lines get this much of an equal share. */
const NEWEST = 1.4;

/** Worth of a term that the summary tells already, as a share of its rarity. */
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
      // The first is cut while most of what there is to say is untold.
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

/** The limit that cuts lengths so that their sum is `room`: what short ones leave, long ones get. */
function levelOf(lengths: readonly number[], room: number): number {
  let left = room;
  for (const [index, length] of lengths.toSorted((a, b) => a - b).entries()) {
    const level = left / (lengths.length - index);
    if (length > level) return Math.floor(level);
    left -= length;
  }
  return Number.MAX_SAFE_INTEGER;
}

/** The shortest that a line can be cut to: what is no quotation stays whole unless there is no room for it at all. */
function leastOf(line: string, room: number): number {
  const quotations = partsOf(line).filter(isQuotation);
  const fixed = line.length - quotations.reduce((sum, { length }) => sum + length, 0);
  const said = quotations.reduce((sum, { length }) => sum + Math.min(length, LEAST_QUOTATION), 0);
  return Math.min(line.length, Math.max(LEAST, fixed + said), Math.max(SHORTEST, room - MARK));
}

const partsOf = (line: string) => line.match(/`[^`]*`|"[^"]*"|[^`"]+|[`"]/g) ?? [];

/** A line whose quotations were cut so that it has at most `most` characters. */
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
