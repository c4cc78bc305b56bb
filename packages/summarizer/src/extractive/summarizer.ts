import { CHARS_PER_TOKEN, estimateTokens } from "@espalier/session-tree";
import {
  SUMMARY_SECTIONS,
  type Summarizer,
  type SummaryAnswer,
  type SummaryPurpose,
  type SummaryRequest,
  throwIfAborted,
} from "../summarizer.ts";
import { createDigestBuilder, type Facts, type SessionDigest } from "./digest.ts";
import { eachExactString, type Inherited, LABELS, type StringKind } from "./exact-string.ts";
import { constraintLines, criticalLines, decisionLines, nextStepLines } from "./parts.ts";
import { blockedLines, doneLines, goalLines, inProgressLines } from "./progress.ts";
import {
  createLineChooser,
  focusOn,
  headingOf,
  type Line,
  type LineChooser,
  lengthOf,
  oneLine,
  proseLines,
  wholeCodePoints,
} from "./text.ts";

/** Limits of its summaries. */
export interface ExtractiveSummarizerOptions {
  /** The most tokens of a summary, of 4 characters each. Default 2,000. */
  maxTokens?: number;
}

const DEFAULT_MAX_TOKENS = 2_000;

/** A summary of little is shorter than what it replaces: at most this share of the messages, but room for a screen. */
const LARGEST_SHARE = 0.6;
const SMALLEST_ROOM = 2_000;

/** Characters read before others get their turn on the thread and the signal is looked at: about 0.1 s. */
const CHARACTERS_AT_ONCE = 1_000_000;

/** Cost of a message without text, in characters. */
const MESSAGE_OVERHEAD = 100;

/**
 * Summarises without a model: the sections that models are asked for, written from the messages themselves. What
 * people and the agent said is quoted; what was done comes from calls and their results; exact strings are chosen by
 * who wrote them, how often and how lately. The same request gives the same bytes. It needs no network, costs nothing
 * and takes time in proportion to the messages.
 *
 * `maxTokens` and the request's `maxOutputTokens` bound the answer. When not even the headings fit, the answer is cut
 * and ends with `stopReason: "length"`.
 *
 * @throws SummaryError `aborted` when the request's signal fires
 */
export function extractiveSummarizer({
  maxTokens = DEFAULT_MAX_TOKENS,
}: ExtractiveSummarizerOptions = {}): Summarizer {
  return {
    name: "extractive",
    contextWindow: Number.POSITIVE_INFINITY,
    maxOutputTokens: maxTokens,
    summarize: (request) => summarize(request, maxTokens),
  };
}

async function summarize(request: SummaryRequest, maxTokens: number): Promise<SummaryAnswer> {
  const focus = focusOn(request.customInstructions);
  const { digest, characters } = await readMessages(request, focus);
  const earlier = [request.previousSummary ?? "", ...digest.summaries];
  const facts: Facts = {
    purpose: request.purpose,
    digest,
    previous: parseSummaries(earlier),
    branches: parseSummaries(digest.branchSummaries),
    focus,
  };
  inherit(facts);
  const most = Math.max(0, Math.floor(Math.min(maxTokens, request.maxOutputTokens) * CHARS_PER_TOKEN));
  const worthwhile = earlier.join("").length + Math.floor(characters * LARGEST_SHARE);
  const room = Math.min(most, Math.max(SMALLEST_ROOM, worthwhile));
  const text = writeSummary(facts, planSections(request.purpose, request.sections), room);
  const model = { provider: "espalier", modelId: "extractive" };
  if (text.length <= most) return { text, stopReason: "stop", model };
  return { text: wholeCodePoints(text, most), stopReason: "length", model };
}

async function readMessages(
  { messages, signal }: SummaryRequest,
  focus: Facts["focus"],
): Promise<{ digest: SessionDigest; characters: number }> {
  const builder = createDigestBuilder(messages.length, focus);
  let characters = 0;
  let pause = CHARACTERS_AT_ONCE;
  throwIfAborted(signal);
  for (const [index, message] of messages.entries()) {
    builder.add(message, index);
    characters += estimateTokens(message) * CHARS_PER_TOKEN + MESSAGE_OVERHEAD;
    if (characters < pause) continue;
    pause = characters + CHARACTERS_AT_ONCE;
    await new Promise((resolve) => setTimeout(resolve, 0));
    throwIfAborted(signal);
  }
  return { digest: builder.digest, characters };
}

/** Lets the strings and files of earlier summaries compete with those of the messages. */
function inherit({ digest, previous, branches }: Facts): void {
  for (const summary of [previous, branches]) {
    for (const string of summary.strings) digest.strings.inherit(string);
    for (const { path, edits } of summary.files) digest.work.inherit(path, edits);
  }
}

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
function writeSummary(facts: Facts, sections: readonly Section[], room: number): string {
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

/** The parts that are made of words; what is critical is made of strings and takes what they leave. */
type WordPart = Exclude<Part, "critical">;

/** Shares of the room for words where all parts have more to say than fits. */
const WEIGHTS: Record<WordPart, number> = {
  goal: 9,
  constraints: 7,
  done: 11,
  inProgress: 5,
  blocked: 4,
  decisions: 5,
  nextSteps: 3,
};

/**
 * Of a summary's room, what words may take. Strings are found again almost in proportion to the room they get, while
 * words do their work in little more than one screen: in the longer summaries they get this share, in shorter ones
 * what that work takes, up to the larger share.
 */
const SHARE = 0.31;
const LARGEST_PART_SHARE = 0.65;
const ENOUGH = 2_200;

/** The goal comes first: this much of it is told, in at most this share of the room, before the others get any. */
const GOAL_FIRST = 320;
const GOAL_SHARE = 0.6;

/** The room for words beside exact strings. */
function roomForWords(room: number): number {
  return Math.floor(Math.max(room * SHARE, Math.min(room * LARGEST_PART_SHARE, ENOUGH)));
}

/**
 * Divides `room` among parts by weight. A part that needs less than its share gets what it needs, and the others divide
 * what it leaves; the beginning of the goal comes before all.
 */
function allot(needs: ReadonlyMap<WordPart, number>, room: number): Map<WordPart, number> {
  const first = Math.min(needs.get("goal") ?? 0, GOAL_FIRST, Math.floor(room * GOAL_SHARE));
  const rooms = new Map<WordPart, number>([["goal", first]]);
  const need = (part: WordPart) => needs.get(part)! - (rooms.get(part) ?? 0);
  let waiting = [...needs.keys()];
  let left = room - first;
  while (waiting.length > 0) {
    const unit = left / waiting.reduce((sum, part) => sum + WEIGHTS[part], 0);
    const content = waiting.filter((part) => need(part) <= unit * WEIGHTS[part]);
    for (const part of content.length > 0 ? content : waiting) {
      const given = content.length > 0 ? need(part) : Math.floor(unit * WEIGHTS[part]);
      rooms.set(part, (rooms.get(part) ?? 0) + given);
      left -= given;
    }
    waiting = content.length > 0 ? waiting.filter((part) => !content.includes(part)) : [];
  }
  return rooms;
}

/** An earlier summary, taken apart. Its lines stand without list marks, in the order they were written. */
export interface PreviousSummary {
  lines: Record<Part, string[]>;
  files: { path: string; edits: number }[];
  commands: string[];
  strings: Inherited[];
}

const LONGEST_LINE = 2_000;

/** Reads summaries, oldest first, that a model or this summarizer wrote. Anything that is no known section counts as critical context. */
function parseSummaries(texts: readonly string[]): PreviousSummary {
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
type Part =
  | "goal"
  | "constraints"
  | "done"
  | "inProgress"
  | "blocked"
  | "decisions"
  | "nextSteps"
  | "critical";

interface Section {
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

const SUBHEADINGS: Partial<Record<Part, string>> = {
  done: "Done",
  inProgress: "In Progress",
  blocked: "Blocked",
};

/** The sections of a summary: those the request lists, else those of its purpose. No part is given to two of them. */
function planSections(purpose: SummaryPurpose, requested: readonly string[]): Section[] {
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
