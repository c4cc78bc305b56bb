import { shorten } from "./quote.ts";
import { sameness } from "./sentences.ts";

/** A line that could stand in a part of the summary. */
export interface Line {
  text: string;
  /** Higher is chosen first. */
  priority: number;
  /** Lower stands first. */
  order: number;
}

/** Chooses lines for the summary's parts and sees to it that none of them stands in it twice. */
export interface LineChooser {
  /** Of `lines`, as many as fit into `room` characters by priority, in their order, as list items. */
  choose(lines: readonly Line[], room: number): string[];
}

/** A line is cut where it is longer than the room for all; what is left of one below this length says nothing. */
const SHORTEST = 24;

export function createLineChooser(): LineChooser {
  const seen = new Set<string>();

  return {
    choose(lines, room) {
      const chosen: Line[] = [];
      let left = room;
      for (const line of lines.toSorted((a, b) => b.priority - a.priority || a.order - b.order)) {
        const text = shortenLine(line.text, room - 4);
        const key = sameness(text);
        if (key === "" || seen.has(key) || text.length + 3 > left) continue;
        seen.add(key);
        left -= text.length + 3;
        chosen.push({ ...line, text });
      }
      return chosen
        .sort((a, b) => a.order - b.order || b.priority - a.priority)
        .map(({ text }) => `- ${text}`);
    },
  };
}

/** Characters of lines with the line ends. */
export function lengthOf(lines: readonly string[]): number {
  return lines.reduce((length, line) => length + line.length + 1, 0);
}

/** A line cut to a length, with the quotation closed that the cut left open. */
function shortenLine(text: string, maximum: number): string {
  if (text.length <= maximum) return text;
  if (maximum < SHORTEST) return "";
  const cut = shorten(text, maximum - 1);
  return /(?:^|[ (])"[^"]*$/.test(cut) ? `${cut}"` : cut;
}

/** Lines of an earlier summary, the later ones more worth keeping; `worth` is the priority of the last. */
export function inheritedLines(texts: readonly string[], worth: number): Line[] {
  return texts.map((text, index) => ({
    text,
    priority: (worth * (index + 1)) / (texts.length + 1),
    order: index - texts.length,
  }));
}
