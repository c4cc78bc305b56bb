import type { SummaryPurpose } from "../summarizer.ts";
import { SUMMARY_SECTIONS } from "../summarizer.ts";
import type { Inherited } from "./exact-string.ts";
import { eachExactString, LABELS, type StringKind } from "./exact-string.ts";
import { headingOf, oneLine, proseLines, wholeCodePoints } from "./text.ts";

/** An earlier summary, taken apart. Its lines stand without list marks, in the order they were written. */
export interface PreviousSummary {
  lines: Record<Part, string[]>;
  files: { path: string; edits: number }[];
  commands: string[];
  strings: Inherited[];
}

const LONGEST_LINE = 2_000;

/** Reads summaries, oldest first, that a model or this summarizer wrote. Anything that is no known section counts as critical context. */
export function parseSummaries(texts: readonly string[]): PreviousSummary {
  const summary: PreviousSummary = {
    lines: {
      goal: [],
      constraints: [],
      done: [],
      inProgress: [],
      blocked: [],
      decisions: [],
      nextSteps: [],
      critical: [],
    },
    files: [],
    commands: [],
    strings: [],
  };
  let part: Part = "critical";
  let isTurn = false;
  for (const rawLine of texts.flatMap(proseLines)) {
    const heading = headingOf(rawLine);
    if (heading !== undefined) {
      part = partsOf(heading)[0] ?? "critical";
      isTurn = /original request/i.test(heading);
      continue;
    }
    if (/^\s*(?:[-*_]{3,}|<\/?[a-z-]+>)\s*$/.test(rawLine)) continue;
    const checked = /^\s*[-*]\s+\[([ xX])\]/.exec(rawLine)?.[1];
    const line = oneLine(
      wholeCodePoints(rawLine, LONGEST_LINE).replace(/^\s*(?:[-*•]\s+|\d{1,3}[.)]\s+)?(?:\[[ xX]\]\s+)?/, ""),
    );
    if (line === "" || /^\(none\)$/i.test(line)) continue;
    const checkedPart =
      checked === undefined || part !== "done" ? part : checked === " " ? "inProgress" : "done";
    if (checkedPart === "critical" && readOwnLine(line, summary)) continue;
    summary.lines[checkedPart].push(isTurn && checkedPart === "goal" ? asNewest(line) : line);
    inheritStrings(line, {}, summary);
  }
  return summary;
}

/** The request of a turn that was cut is the newest of its time. */
function asNewest(line: string): string {
  const isLabelled = Object.values(LABELS).some((label) => line.startsWith(label));
  return isLabelled ? line : `${LABELS.newestRequest}${line}`;
}

/** A line of strings that this summarizer wrote is written anew; its strings are taken over, in their order. */
function readOwnLine(line: string, summary: PreviousSummary): boolean {
  const file = /^`([^`]+)`(?: \((?:created, )?changed (\d+)×\))?(?:: (?:defines )?`.*)?$/.exec(line);
  if (file !== null) {
    const path = file[1]!;
    if (file[2] !== undefined) summary.files.push({ path, edits: Number(file[2]) });
    inheritStrings(path, {}, summary);
    for (const [, label, names] of line.slice(path.length + 2).matchAll(/(defines )?`([^`]*)`/g)) {
      inheritStrings(names!, { home: path, defined: label !== undefined }, summary);
    }
    return true;
  }
  if (line.startsWith(LABELS.commands)) {
    summary.commands.push(...[...line.matchAll(/`([^`]+)`/g)].map((match) => match[1]!));
    return true;
  }
  const isList = [LABELS.otherNames, LABELS.otherPaths, LABELS.values, LABELS.links].some((label) =>
    line.startsWith(label),
  );
  if (isList) inheritStrings(line.slice(line.indexOf("`")), {}, summary);
  return isList || line.startsWith(LABELS.olderFailures);
}

function inheritStrings(
  text: string,
  { home, defined = false }: { home?: string; defined?: boolean },
  summary: PreviousSummary,
): void {
  const found: { text: string; kind: StringKind }[] = [];
  eachExactString(text, (string) => found.push(string));
  for (const [index, string] of found.entries()) {
    summary.strings.push({ ...string, home, defined, rank: index / found.length });
  }
}

/** Contents that this summarizer can write; a section of a summary consists of one or more of these. */
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

/** Contents requested by words in a heading; the first line that fits decides. */
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
function partsOf(heading: string): readonly Part[] {
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
