import { oneLine, wholeCodePoints } from "./quotation.ts";

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

/** Labels of lines in a summary. Written by one round and recognised by the next. */
export const LABELS = {
  firstRequest: "First request: ",
  earlierRequest: "Earlier request: ",
  newestRequest: "Newest request: ",
  newestWords: "Newest words: ",
  otherBranch: "In another branch: ",
  handles: "Handles: ",
  used: "Also used: ",
  names: "Names in use: ",
  commands: "Commands: ",
} as const;

/** An earlier summary, taken apart. Its lines stand without list marks, in the order they were written. */
export interface PreviousSummary {
  lines: Record<Part, string[]>;
  /** Quotations that end in a handle. */
  handles: string[];
  files: { path: string; edits: number; names: string[] }[];
  commands: string[];
  names: string[];
}

const LONGEST_LINE = 2_000;

/** Reads summaries, oldest first, that a model or this summarizer wrote. Anything that is no known section counts as critical context. */
export function parseSummaries(texts: readonly string[]): PreviousSummary {
  const lines: PreviousSummary["lines"] = {
    goal: [],
    constraints: [],
    done: [],
    inProgress: [],
    blocked: [],
    decisions: [],
    nextSteps: [],
    critical: [],
  };
  const summary: PreviousSummary = { lines, handles: [], files: [], commands: [], names: [] };
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
    const isUnlabelled = !Object.values(LABELS).some((label) => line.startsWith(label));
    // The request of a turn that was cut is the newest of its time.
    const isRequest = isTurn && checkedPart === "goal" && isUnlabelled;
    summary.lines[checkedPart].push(isRequest ? `${LABELS.newestRequest}${line}` : line);
  }
  return summary;
}

/** A line of files, handles or commands that this summarizer wrote is written anew. */
function readOwnLine(line: string, summary: PreviousSummary): boolean {
  const file = /^`([^`]+)` \((?:created, )?changed (\d+)×\)(?:: (.*))?$/.exec(line);
  if (file !== null) {
    const names = file[3]?.split(", ") ?? [];
    summary.files.push({ path: file[1]!, edits: Number(file[2]), names });
  } else if (line.startsWith(LABELS.used)) {
    summary.files.push(...spansOf(line).map((path) => ({ path, edits: 0, names: [] })));
  } else if (line.startsWith(LABELS.commands)) summary.commands.push(...spansOf(line));
  else if (line.startsWith(LABELS.names)) summary.names.push(...line.slice(LABELS.names.length).split(", "));
  else if (line.startsWith(LABELS.handles)) {
    summary.handles.push(...[...line.matchAll(/"([^"]+)"/g)].map((match) => match[1]!));
  } else return false;
  return true;
}

const spansOf = (line: string) => [...line.matchAll(/`([^`]+)`/g)].map((match) => match[1]!);

/** Blocks that the engine writes after a summary's prose, anew each time. */
const APPENDED_TAGS = ["goal", "pinned", "rules", "latest-user-message", "read-files", "modified-files"];

/** A summary is far shorter; what is beyond is none. */
const LONGEST_SUMMARY = 200_000;
const MOST_LINES = 1_000;

/** The lines of a summary's prose, without the blocks that stand after it. */
function proseLines(summary: string): string[] {
  const lines = summary.slice(0, LONGEST_SUMMARY).split("\n");
  const closings = new Map(APPENDED_TAGS.map((tag) => [`<${tag}>`, lines.lastIndexOf(`</${tag}>`)]));
  const prose: string[] = [];
  for (let index = 0; index < lines.length && prose.length < MOST_LINES; index++) {
    const closing = closings.get(lines[index]!.trim()) ?? -1;
    // The last closing tag ends the block: content is escaped and has none.
    if (closing > index) index = closing;
    else prose.push(lines[index]!);
  }
  return prose;
}

/** The words of a line that is a heading: `## Goal`, or `**Goal:**` alone on its line. */
function headingOf(line: string): string | undefined {
  return /^\s{0,3}#{1,6}\s+(.*)$/.exec(line)?.[1] ?? /^\s*\*\*([^*]{1,60}?):?\*\*:?\s*$/.exec(line)?.[1];
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
export function partsOf(heading: string): readonly Part[] {
  return MEANINGS.find(([words]) => words.test(heading))?.[1] ?? [];
}
