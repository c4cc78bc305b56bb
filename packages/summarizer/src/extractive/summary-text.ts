import { allot, roomForWords, type WordPart } from "./allotment.ts";
import { constraintLines } from "./constraints-part.ts";
import { criticalLines } from "./critical-part.ts";
import { decisionLines } from "./decisions-part.ts";
import type { Facts } from "./facts.ts";
import { goalLines } from "./goal-part.ts";
import { createLineChooser, type Line, type LineChooser, lengthOf } from "./lines.ts";
import { nextStepLines } from "./next-steps-part.ts";
import { blockedLines, doneLines, inProgressLines } from "./progress-part.ts";
import { type Part, type Section, SUBHEADINGS } from "./sections.ts";

const NOTHING = "(none)";

const WRITERS: Record<WordPart, (facts: Facts, room: number, said: readonly string[]) => Line[]> = {
  goal: goalLines,
  constraints: constraintLines,
  done: doneLines,
  inProgress: inProgressLines,
  blocked: blockedLines,
  decisions: decisionLines,
  nextSteps: nextStepLines,
};

/** The whole summary: every heading, in at most `room` characters unless the headings alone take more. */
export function writeSummary(facts: Facts, sections: readonly Section[], room: number): string {
  const free = Math.max(0, room - render(sections, new Map()).length);
  const parts = sections.flatMap((section) => section.parts);
  const hasStrings = parts.includes("critical");
  const chooser = createLineChooser();
  const written = writeWords(facts, parts, hasStrings ? roomForWords(free) : free, chooser);
  if (hasStrings) {
    const said = [...written.values()].flat();
    const left = free - lengthOf(said);
    // Last, when it is known which strings the words hold already.
    written.set("critical", criticalLines(facts, said.join("\n"), left, chooser));
  }
  return render(sections, written);
}

function writeWords(
  facts: Facts,
  parts: readonly Part[],
  room: number,
  chooser: LineChooser,
): Map<Part, readonly string[]> {
  const words = parts.filter((part) => part !== "critical");
  const rooms = allot(new Map(words.map((part) => [part, needOf(WRITERS[part](facts, room, []))])), room);
  const written = new Map<Part, readonly string[]>();
  for (const part of words) {
    const given = rooms.get(part)!;
    const said = [...written.values()].flat();
    const whole = WRITERS[part](facts, room, said);
    // Quotations are cut to the room a part has, but only where it has not enough.
    const lines = needOf(whole) <= given ? whole : WRITERS[part](facts, given, said);
    written.set(part, chooser.choose(lines, given));
  }
  return written;
}

/** Characters of lines as list items. */
function needOf(lines: readonly Line[]): number {
  return lines.reduce((sum, line) => sum + line.text.length + 4, 0);
}

function render(sections: readonly Section[], written: ReadonlyMap<Part, readonly string[]>): string {
  const content = (parts: readonly Part[]) => {
    const lines = parts.flatMap((part) => written.get(part) ?? []);
    return lines.length === 0 ? [NOTHING] : lines;
  };
  const blocks = sections.map(({ heading, parts, subheadings }) => {
    const body = subheadings
      ? parts.flatMap((part) => [`### ${SUBHEADINGS[part]}`, ...content([part])])
      : content(parts);
    return [`## ${heading}`, ...body].join("\n");
  });
  return blocks.join("\n\n");
}
