import { constraintLines } from "./constraints-part.ts";
import { criticalLines } from "./critical-part.ts";
import { decisionLines } from "./decisions-part.ts";
import type { Facts } from "./facts.ts";
import { goalLines } from "./goal-part.ts";
import { createLineChooser, type Line } from "./lines.ts";
import { nextStepLines } from "./next-steps-part.ts";
import { blockedLines, doneLines, inProgressLines } from "./progress-part.ts";
import { type Part, type Section, SHARES, SUBHEADINGS } from "./sections.ts";

const NOTHING = "(none)";

/** The parts that are lines of words; what is critical is written last, when it is known what they say. */
const writers: Record<
  Exclude<Part, "critical">,
  (facts: Facts, room: number, said: readonly string[]) => Line[]
> = {
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
  const skeleton = render(sections, new Map()).length;
  const free = Math.max(0, room - skeleton);
  const chooser = createLineChooser();
  const written = new Map<Part, string[]>();
  const parts = sections.flatMap((section) => section.parts);
  const scale = shareScale(parts);
  let left = free;
  for (const part of parts) {
    if (part === "critical") continue;
    const most = Math.floor(free * SHARES[part] * scale);
    const lines = chooser.choose(writers[part](facts, most, [...written.values()].flat()), most);
    left -= lines.reduce((length, line) => length + line.length + 1, 0);
    written.set(part, lines);
  }
  if (parts.includes("critical")) {
    const said = [...written.values()].flat().join("\n");
    written.set("critical", criticalLines(facts, said, left, chooser));
  }
  return render(sections, written);
}

/** Where there are no exact strings to write, or few parts, the words get more. */
function shareScale(parts: readonly Part[]): number {
  const words = parts.reduce((sum, part) => sum + (part === "critical" ? 0 : SHARES[part]), 0);
  const most = parts.includes("critical") ? 0.43 : 1;
  return words === 0 ? 0 : Math.max(1, Math.min(most / words, 4));
}

function render(sections: readonly Section[], written: ReadonlyMap<Part, readonly string[]>): string {
  const blocks = sections.map((section) => {
    if (!section.subheadings) {
      const lines = section.parts.flatMap((part) => written.get(part) ?? []);
      return [`## ${section.heading}`, ...(lines.length === 0 ? [NOTHING] : lines)].join("\n");
    }
    const subsections = section.parts.map((part) => {
      const lines = written.get(part) ?? [];
      return [`### ${SUBHEADINGS[part]}`, ...(lines.length === 0 ? [NOTHING] : lines)].join("\n");
    });
    return [`## ${section.heading}`, ...subsections].join("\n");
  });
  return blocks.join("\n\n");
}
