import { commonLimit } from "../transcript.ts";
import type { SessionRecord } from "./session.ts";
import { eachTerm, gistOf, oneLine, quote, sameness, shorten, wholeCodePoints } from "./text.ts";

/** Lines of a summary: their labels, those of an earlier summary, and candidates that are fitted into a room. */

/** Contents that this summarizer can write; a section of a summary consists of one or more of these. */
export type Part = (typeof PARTS)[number];
const PARTS = [
  "goal",
  "constraints",
  "done",
  "inProgress",
  "blocked",
  "decisions",
  "nextSteps",
  "critical",
] as const;

/** Labels of lines in a summary. The summarizer recognizes them when it updates a summary. */
export const LABELS = {
  firstRequest: "First request: ",
  earlierRequest: "Earlier request: ",
  newestRequest: "Newest request: ",
  newestWords: "Newest words: ",
  goesOn: "It goes on: ",
  question: "The agent had asked: ",
  otherBranch: "In another branch: ",
  called: "Called: ",
  taskDoing: "Task under way: ",
  taskDone: "Task done: ",
  taskOpen: "Task open: ",
  notTicked: "Not ticked: ",
  handles: "Handles: ",
  changed: "Also changed: ",
  used: "Also used: ",
  unread: "Not read yet: ",
  names: "Names in use: ",
  commands: "Commands: ",
} as const;

/** An earlier summary, divided into parts. Its lines have no list marks, and are in their original order. */
export type PreviousSummary = ReturnType<typeof emptySummary>;

const emptySummary = () => ({
  lines: Object.fromEntries(PARTS.map((part) => [part, []])) as unknown as Record<Part, string[]>,
  /** Quotations that end in a handle. */
  handles: [] as string[],
  files: [] as { path: string; edits: number; names: string[] }[],
  /** Documents of the project that the session never read. */
  documents: [] as string[],
  commands: [] as string[],
  names: [] as string[],
});

const LONGEST_LINE = 2_000;

/**
 * Parses summaries, oldest first, by a model or this summarizer. Text outside known sections counts as critical
 * context.
 */
export function parseSummaries(texts: readonly string[]): PreviousSummary {
  const summary = emptySummary();
  let part: Part = "critical";
  let heading = "";
  for (const rawLine of texts.flatMap(proseLines)) {
    const opened = headingOf(rawLine);
    if (opened !== undefined) {
      heading = opened;
      part = partsOf(heading)[0] ?? "critical";
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
    if (readOwnLine(line, heading, summary)) continue;
    const isUnlabelled = !Object.values(LABELS).some((label) => line.startsWith(label));
    // The request of a turn that was cut is the newest one of its summary.
    const isRequest = /original request/i.test(heading) && checkedPart === "goal" && isUnlabelled;
    summary.lines[checkedPart].push(isRequest ? `${LABELS.newestRequest}${line}` : line);
  }
  return summary;
}

/**
 * Parses a line that this summarizer wrote, of files, handles, commands, calls, tasks or next steps, below any heading:
 * such lines are made again. The summary of the beginning of a turn has one heading for all its work.
 */
function readOwnLine(line: string, heading: string, summary: PreviousSummary): boolean {
  const { lines } = summary;
  if (line.startsWith(LABELS.called) || line.startsWith(LABELS.taskDoing)) lines.inProgress.push(line);
  else if (OWN_STEP.test(line) || line.startsWith(LABELS.taskOpen) || line.startsWith(LABELS.notTicked))
    lines.nextSteps.push(line);
  else if (/^early progress$/i.test(heading) && UNFINISHED.test(line)) lines.inProgress.push(line);
  else if (/^early progress$/i.test(heading) && FAILURE.test(line)) lines.blocked.push(line);
  else return readFactLine(line, summary);
  return true;
}

/** End of a turn's line when the turn goes on. */
const UNFINISHED = /[;→] not finished yet$/;

const FAILURE = /^(?:`[^`]+` (?:had )?failed\b|Changing `[^`]+` failed\b)/;

/** Next steps that are outdated as soon as work continues. */
export const OWN_STEP =
  /^(?:Go on with the newest request|The (?:agent was at|newest request was answered|user refused the newest call)\b)/;

function readFactLine(line: string, summary: PreviousSummary): boolean {
  const file = /^`([^`]+)` \((?:created, )?changed (\d+)×\)(?:: (.*))?$/.exec(line);
  if (file !== null) {
    const names = file[3]?.split(", ") ?? [];
    summary.files.push({ path: file[1]!, edits: Number(file[2]), names });
  } else if (line.startsWith(LABELS.changed)) {
    summary.files.push(...spansOf(line).map((path) => ({ path, edits: 1, names: [] })));
  } else if (line.startsWith(LABELS.used)) {
    summary.files.push(...spansOf(line).map((path) => ({ path, edits: 0, names: [] })));
  } else if (line.startsWith(LABELS.unread)) summary.documents.push(...spansOf(line));
  else if (line.startsWith(LABELS.commands)) summary.commands.push(...spansOf(line));
  else if (line.startsWith(LABELS.names)) summary.names.push(...line.slice(LABELS.names.length).split(", "));
  else if (line.startsWith(LABELS.handles)) {
    summary.handles.push(...[...line.matchAll(/"([^"]+)"/g)].map((match) => match[1]!));
  } else return false;
  return true;
}

const spansOf = (line: string) => [...line.matchAll(/`([^`]+)`/g)].map((match) => match[1]!);

/** Blocks that the engine adds after a summary's prose, new each time. */
const APPENDED_TAGS = ["goal", "pinned", "rules", "latest-user-message", "read-files", "modified-files"];

/** Maximum length of a summary in characters; real ones are far shorter. */
const LONGEST_SUMMARY = 200_000;
const MOST_LINES = 1_000;

/** Returns the lines of a summary's prose, without the blocks after it. */
function proseLines(summary: string): readonly string[] {
  const lines = summary.slice(0, LONGEST_SUMMARY).split("\n");
  const closings = new Map(APPENDED_TAGS.map((tag) => [`<${tag}>`, lines.lastIndexOf(`</${tag}>`)]));
  const prose: string[] = [];
  for (let index = 0; index < lines.length && prose.length < MOST_LINES; index++) {
    const closing = closings.get(lines[index]!.trim()) ?? -1;
    // The last closing tag ends the block: escaped content has none.
    if (closing > index) index = closing;
    else prose.push(lines[index]!);
  }
  return withOwnHeadings(prose);
}

/** Returns the words of a line that is a heading: `## Goal`, or `**Goal:**` alone on its line. */
function headingOf(line: string): string | undefined {
  return /^\s{0,3}#{1,6}\s+(.*)$/.exec(line)?.[1] ?? /^\s*\*\*([^*]{1,60}?):?\*\*:?\s*$/.exec(line)?.[1];
}

/** Contents requested by words in a heading; the first match is used. */
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

/** Returns the parts that a heading requests; none for an unknown heading. */
export function partsOf(heading: string): readonly Part[] {
  return MEANINGS.find(([words]) => words.test(heading))?.[1] ?? [];
}

/**
 * Sections of a summary by Claude Code, by number and title, with the heading of the same meaning here. The titles are
 * those of its compaction since 1.0 (2025). Sections without a heading are left out: the session has the messages of
 * the user, and code can be read again.
 */
const NUMBERED: ReadonlyMap<string, string | undefined> = new Map([
  ["primary request and intent", "Goal"],
  ["key technical concepts", "Critical Context"],
  ["files and code sections", "Files"],
  ["errors and fixes", "Key Decisions"],
  ["problem solving", "Key Decisions"],
  ["all user messages", undefined],
  ["pending tasks", "Next Steps"],
  ["current work", "In Progress"],
  ["optional next step", "Next Steps"],
]);

/** Elements of a `<state_snapshot>` of Gemini CLI, with the heading of the same meaning here. */
const TAGGED: ReadonlyMap<string, string> = new Map([
  ["overall_goal", "Goal"],
  ["active_constraints", "Constraints & Preferences"],
  ["key_knowledge", "Critical Context"],
  ["file_system_state", "Files"],
  ["recent_actions", "Done"],
  ["current_plan", "Next Steps"],
  ["task_state", "Next Steps"],
]);

const FIRST_SECTION = /^\s{0,3}1\. Primary Request and Intent:/i;

/** Sentences that Claude Code puts around a summary. */
const FRAME =
  /^(?:This session is being continued from|If you need specific details from before|Please continue the conversation from|Continue the conversation from|Recent messages are preserved)/;

/**
 * Returns the lines of a summary with the headings of this summarizer, if Claude Code or Gemini CLI wrote it. The lines
 * of any other summary are returned unchanged.
 */
function withOwnHeadings(lines: readonly string[]): readonly string[] {
  const first = lines.findLastIndex((line) => FIRST_SECTION.test(line));
  if (first >= 0) return fromNumbered(lines.slice(first));
  if (lines.some((line) => line.includes("<state_snapshot>"))) return lines.flatMap(fromTagged);
  return lines;
}

function fromNumbered(lines: readonly string[]): string[] {
  const own: string[] = [];
  let heading: string | undefined;
  let number = 0;
  let isCode = false;
  for (const line of lines) {
    if (/^\s*```/.test(line)) {
      isCode = !isCode;
      // The code itself is left out.
      if (isCode) own.push(own.pop()?.replace(/:\s*$/, ": …") ?? "");
    } else if (FRAME.test(line)) return own;
    const [, digits, title = "", rest = ""] =
      /^\s{0,3}(\d{1,2})\. ([A-Z][^:]{2,60}):\s*(.*)$/.exec(line) ?? [];
    const isTitle = Number(digits) === number + 1 && (NUMBERED.has(title.toLowerCase()) || rest === "");
    if (isTitle) {
      // A fence that is never closed ends with its section.
      isCode = false;
      number += 1;
      heading = NUMBERED.has(title.toLowerCase()) ? NUMBERED.get(title.toLowerCase()) : title;
      if (heading !== undefined) own.push(`## ${heading}`, rest);
    } else if (heading !== undefined && !isCode && !/^\s*```/.test(line)) {
      own.push(heading === "Files" ? fileLine(line) : line);
    }
  }
  return own;
}

/** Returns a line that names a file, or nothing: the other lines describe code that can be read again. */
function fileLine(line: string): string {
  const path = /^\s*[-*]?\s*\*{0,2}`([^`\s]+\.[^`\s]+)`/.exec(line)?.[1];
  return path === undefined ? "" : `- Also used: \`${path}\``;
}

function fromTagged(line: string): string[] {
  const [, tag = "", rest = ""] = /^\s*<([a-z_]+)>(.*)$/.exec(line) ?? [];
  const heading = TAGGED.get(tag);
  const text = (heading === undefined ? line : rest).replace(/<\/?[a-z_]+>\s*$/, "");
  return heading === undefined ? [text] : [`## ${heading}`, text];
}

/** A candidate line for a part of the summary. */
export interface Line {
  text: string;
  /** Lines with a higher priority are chosen first. */
  priority: number;
  /** Lines with a lower order come first. */
  order: number;
}

/** Returns lines of an earlier summary; later lines have a higher priority, and `worth` is that of the last. */
export function inheritedLines(texts: readonly string[], worth: number): Line[] {
  return texts.map((text, index) => ({
    text,
    priority: (worth * (index + 1)) / (texts.length + 1),
    order: index - texts.length,
  }));
}

/** Source of the parts of a summary. */
export interface Facts {
  /** True for the beginning of a turn whose end is kept: its request is the newest one. */
  isTurnPrefix: boolean;
  record: SessionRecord;
  /** Record of the later messages, which have a separate summary; empty without any. */
  later: SessionRecord;
  /** Earlier summaries; empty lists without any. */
  previous: PreviousSummary;
  /** Conclusions of branches that are not on the path. */
  branches: PreviousSummary;
  /** Returns whether the user asked to focus on a text. */
  focus: (text: string) => boolean;
}

/** Returns the newest request in an earlier summary, else its first goal, without label and quotation marks. */
export function inheritedRequest({ previous }: Facts): string | undefined {
  const { goal } = previous.lines;
  const line = goal.findLast((text) => text.startsWith(LABELS.newestRequest)) ?? goal.at(0);
  return line?.replace(/^(?:First|Newest) request: /, "").replace(/^"(.*)"$/, "$1");
}

/** Characters of a turn's line: maximum of one that has only the request, and average of a whole one. */
const BRIEF = 64;
const WHOLE = 240;
/** Number of turns with a whole line, however many turns there are. */
const LEAST_WHOLE = 3;

/** Minimum share of the room for commits: they say more than the replies that are left out for them. */
const LEAST_REST = 1 / 8;

/**
 * Shortens lines of turns to the beginning of their request, to this with the commit, or not at all, so that about
 * `room` characters are used. The longer forms go to the lines with the highest priority.
 */
export function shortened(lines: readonly Line[], room: number): Line[] {
  const all = lines.toSorted((a, b) => b.priority - a.priority);
  const forms = all.map(({ text }) => [...shortForms(text), text] as const);
  const shown = all.map((_, at): 0 | 1 | 2 => (at < LEAST_WHOLE ? 2 : 0));
  const cost = (at: number, form: 0 | 1 | 2) => Math.min(forms[at]![form].length, WHOLE) + 4;
  const needed = shown.reduce((sum: number, form, at) => sum + cost(at, form), 0);
  let left = Math.max(room - needed, room * LEAST_REST);
  for (const form of [1, 2] as const)
    for (const at of all.keys()) {
      const more = cost(at, form) - cost(at, shown[at]!);
      if (form < shown[at]! || more > left) continue;
      shown[at] = form;
      left -= more;
    }
  return all.map((line, at) => ({ ...line, text: forms[at]![shown[at]!] }));
}

/** Returns the beginning of the request in a turn's line, also with its commit; the whole line if it has no request. */
function shortForms(line: string): [brief: string, committed: string] {
  const request = /^"([^"]+)"/.exec(line)?.[1];
  if (request === undefined) return [line, line];
  const [commit = ""] = / committed "[^"]+"/.exec(line) ?? [];
  const brief = quote(request, BRIEF);
  return [brief, brief + (commit && ` →${commit}`)];
}

/** Marks a line as one of a branch that is not on the path. */
export const inOtherBranch = (text: string) =>
  text.startsWith(LABELS.otherBranch) ? text : `${LABELS.otherBranch}${text}`;

/** Returns a labelled line for each text, in their order of priority. */
export const listLines = (label: string, texts: readonly string[]) =>
  texts.map((text, order): Line => ({ text: `${label}${text}`, priority: -order, order }));

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

/** Factor of an equal share that each line gets: lines with a lower priority get less. */
const LEVEL = 1.4;

/** Makes a fitter of lines into a number of characters, section by section, which stores the fitted text. */
export function createLineFitter() {
  const seen = new Set<string>();
  const terms = new Set<string>();
  let told = "";

  return {
    /** All fitted text. */
    get told(): string {
      return told;
    },
    /**
     * Returns as many lines as fit by priority, in their order, as list items. If they do not all fit whole, their
     * quotations are cut to the most informative words that the summary does not have yet.
     */
    fit(lines: readonly Line[], room: number): string[] {
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
      const leasts = chosen.map(({ text }) => leastOf(text, room) + MARK);
      let left = room;
      const fitted = chosen.map((line, index) => {
        const rest = chosen.slice(index).map(({ text }) => Math.min(text.length, LONGEST) + MARK);
        const later = leasts.slice(index + 1).reduce((sum, least) => sum + least, 0);
        const level = Math.min(left - later, Math.max(commonLimit(rest, left) * LEVEL, leasts[index]!));
        const most = Math.min(LONGEST, level - MARK);
        const text = cutQuotations(line.text, most, terms);
        left -= text.length + MARK;
        told += `${text}\n`;
        eachTerm(text, (term) => terms.add(term));
        return { ...line, text };
      });
      return fitted
        .sort((a, b) => a.order - b.order || b.priority - a.priority)
        .map(({ text }) => `- ${text}`);
    },
  };
}

/**
 * Returns the minimum length to which a line can be cut: text outside quotations stays whole unless there is no room
 * for it at all.
 */
function leastOf(line: string, room: number): number {
  const quotations = quotedParts(line).filter(isQuotation);
  const fixed = line.length - quotations.reduce((sum, { length }) => sum + length, 0);
  const said = quotations.reduce((sum, { length }) => sum + Math.min(length, LEAST_QUOTATION), 0);
  return Math.min(line.length, Math.max(LEAST, fixed + said), Math.max(SHORTEST, room - MARK));
}

const quotedParts = (line: string) => line.match(/`[^`]*`|"[^"]*"|[^`"]+|[`"]/g) ?? [];

/** Returns a line whose quotations were cut so that it has at most `most` characters. */
function cutQuotations(line: string, most: number, known: ReadonlySet<string>): string {
  if (line.length <= most) return line;
  const parts = quotedParts(line);
  const quotations = parts.filter(isQuotation);
  const fixed = line.length - quotations.reduce((sum, { length }) => sum + length, 0);
  const level = commonLimit(
    quotations.map(({ length }) => length),
    most - fixed,
  );
  const cut = parts
    .map((part) =>
      isQuotation(part) && part.length > level
        ? `"${gistOf(part.slice(1, -1), Math.max(level - 2, 0), known)}"`
        : part,
    )
    .join("");
  if (cut.length <= most) return cut;
  const short = shorten(cut, most - 1);
  return /(?:^|[ (])"[^"]*$/.test(short) ? `${short}"` : short;
}

const isQuotation = (part: string) => part.length > 2 && part.startsWith('"') && part.endsWith('"');
