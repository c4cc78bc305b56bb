import type { SummaryPurpose } from "../summarizer.ts";
import { SUMMARY_SECTIONS } from "../summary-sections.ts";

/** What this summarizer can say; a section of a summary consists of one or more of these. */
export type Part =
  | "goal"
  | "constraints"
  | "done"
  | "inProgress"
  | "blocked"
  | "decisions"
  | "nextSteps"
  | "critical";

export interface Section {
  heading: string;
  /** In order; each in a sub-section of its own where `subheadings` says so. */
  parts: Part[];
  subheadings: boolean;
}

/** Which words in a heading ask for what; the first line that fits decides. */
const MEANINGS: [RegExp, Part[]][] = [
  [/constraint|preference|rules?\b|requirement/i, ["constraints"]],
  [/in progress|current(?:ly| work| state)/i, ["inProgress"]],
  [/block|fail|error|problem|issue|dead end/i, ["blocked"]],
  [/decision|learn|finding|insight|conclusion|outcome|discover/i, ["decisions"]],
  [/next|todo|to do|remaining|pending|open/i, ["nextSteps"]],
  [/progress|attempt|work|history|what happened/i, ["done", "inProgress", "blocked"]],
  [/^done|complete|accomplish/i, ["done"]],
  [/suffix/i, ["decisions", "nextSteps", "critical"]],
  [/context|file|identifier|string|reference|detail|artifact/i, ["critical"]],
  [/goal|request|objective|task|intent|summary|overview/i, ["goal", "constraints"]],
];

/** The parts that a heading asks for; none when it says nothing this summarizer knows. */
export function partsOf(heading: string): readonly Part[] {
  return MEANINGS.find(([words]) => words.test(heading))?.[1] ?? [];
}

export const SUBHEADINGS: Partial<Record<Part, string>> = {
  done: "Done",
  inProgress: "In Progress",
  blocked: "Blocked",
};

/** The sections of a summary: those the request lists, else those of its purpose. No part is given to two of them. */
export function planSections(purpose: SummaryPurpose, requested: readonly string[]): Section[] {
  const headings = requested
    .map((heading) => heading.replace(/^[#\s]+/, "").trim())
    .filter((heading) => heading !== "");
  const used = new Set<Part>();
  const asked = headings.length > 0 ? [...new Set(headings)] : SUMMARY_SECTIONS[purpose];
  const sections = asked.map((heading) => ({
    heading,
    parts: [...partsOf(heading)],
    subheadings: heading === "Progress",
  }));
  // A heading that asks for one thing gets it before one that asks for several.
  for (const section of sections.toSorted((a, b) => a.parts.length - b.parts.length)) {
    section.parts = section.parts.filter((part) => !used.has(part));
    for (const part of section.parts) used.add(part);
  }
  // Listed beside "Progress", its sub-sections stand below it and not a second time.
  const progress = sections.find((section) => section.subheadings);
  if (progress === undefined) return sections;
  const names = Object.values(SUBHEADINGS);
  progress.parts = ["done", "inProgress", "blocked"];
  return sections.filter((section) => section === progress || !names.includes(section.heading));
}
