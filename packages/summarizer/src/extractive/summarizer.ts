// Separate from request-summary.ts: it asks no model.
import { CHARS_PER_TOKEN, type ContextMessage, estimateTokens } from "@espalier/session-tree";
import {
  SUMMARY_SECTIONS,
  type Summarizer,
  type SummaryAnswer,
  type SummaryPurpose,
  type SummaryRequest,
  throwIfAborted,
} from "../summarizer.ts";
import {
  createLineFitter,
  type Facts,
  inheritedLines,
  inOtherBranch,
  LABELS,
  type Line,
  listLines,
  type Part,
  parseSummaries,
  partsOf,
} from "./lines.ts";
import { FOCUS, WRITERS } from "./parts.ts";
import {
  createSessionRecord,
  type FileWork,
  type NameUse,
  type SessionRecord,
  sessionReader,
  share,
} from "./session.ts";
import { focusOn } from "./speech.ts";
import { chunked, codeSpan, eachName, fitting, quote, wholeCodePoints } from "./text.ts";
import { isRepeatableRun, isTemporary } from "./tool-calls.ts";

/** Limits of an extractive summary. */
export interface ExtractiveSummarizerOptions {
  /** Maximum number of tokens of a summary, of 4 characters each. Default 2,000. */
  maxTokens?: number;
}

const DEFAULT_MAX_TOKENS = 2_000;

/** Maximum length of a summary beyond the earlier ones, as a share of the messages; never below `SMALLEST_ROOM`. */
const LARGEST_SHARE = 0.6;
const SMALLEST_ROOM = 2_000;

/** Characters that are left free, because a caller that counts each part in whole tokens counts slightly more. */
const ROUNDING = 8;

/** Number of characters that are read before other work runs on the thread and the signal is checked: about 0.1 s. */
const CHARACTERS_AT_ONCE = 1_000_000;

/** Cost of a message without text, in characters. */
const MESSAGE_OVERHEAD = 100;

/**
 * Summarizes without a model: the same sections as a model's, written from the messages themselves. Texts of people and
 * the agent are quoted, shortened to the clauses with the longest words; the record of the work comes from calls and
 * their results. The same request always gives the same bytes. It needs no network, costs nothing, and takes time in
 * proportion to the messages.
 *
 * `maxTokens` and the request's `maxOutputTokens` limit the answer. When not even the headings fit, the answer is cut
 * and ends with `stopReason: "length"`.
 *
 * @throws SummaryError `aborted` when the request's signal is aborted
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
  const { record, characters } = await readMessages(request.messages, request.signal);
  const { record: later } = await readMessages(request.following ?? [], request.signal);
  const earlier = [request.previousSummary ?? "", ...record.summaries];
  const facts: Facts = {
    isTurnPrefix: request.purpose === "turn-prefix",
    record,
    later,
    previous: parseSummaries(earlier),
    branches: parseSummaries(record.branchSummaries),
    focus: focusOn(request.customInstructions),
  };
  const most = Math.max(0, Math.floor(Math.min(maxTokens, request.maxOutputTokens) * CHARS_PER_TOKEN));
  const worthwhile = earlier.join("").length + Math.floor(characters * LARGEST_SHARE);
  const room = Math.min(most - ROUNDING, Math.max(SMALLEST_ROOM, worthwhile));
  const sections = planSections(request.purpose, request.sections);
  const first = writeParts(facts, sections, room, 0);
  // Room that short messages leave unused goes to the requests: a first request is often a whole plan.
  const rest = Math.min(room - first.length, characters * SHARE_WITH_REST - first.length, LONGEST_REST);
  const text = rest < SHORTEST_REST ? first : writeParts(facts, sections, room, rest);
  const model = { provider: "espalier", modelId: "extractive" };
  if (text.length <= most) return { text, stopReason: "stop", model };
  return { text: wholeCodePoints(text, most), stopReason: "length", model };
}

async function readMessages(
  messages: readonly ContextMessage[],
  signal: AbortSignal | undefined,
): Promise<{ record: SessionRecord; characters: number }> {
  const record = createSessionRecord();
  const read = sessionReader(record);
  let characters = 0;
  let pause = CHARACTERS_AT_ONCE;
  throwIfAborted(signal);
  for (const message of messages) {
    read(message);
    characters += estimateTokens(message) * CHARS_PER_TOKEN + MESSAGE_OVERHEAD;
    if (characters < pause) continue;
    pause = characters + CHARACTERS_AT_ONCE;
    await new Promise((resolve) => setTimeout(resolve, 0));
    throwIfAborted(signal);
  }
  return { record, characters };
}

const NOTHING = "(none)";

/** Maximum number of characters of each part in a summary of 8,000; completed work gets the rest. */
const ROOMS: Record<Exclude<Part, "done">, number> = {
  goal: 1_100,
  constraints: 500,
  inProgress: 750,
  blocked: 700,
  nextSteps: 450,
  decisions: 800,
  critical: 2_400,
};
const ALL_ROOM = 8_000;

/** Minimum number of characters of every part, and of the parts that say what goes on, if there is room. */
const LEAST = 260;
const LEAST_NOW = 400;

/** Parts in the order in which they are written; a later part does not repeat an earlier one. */
const FIRST = ["goal", "constraints", "inProgress", "nextSteps", "blocked"] as const;
const THEN = ["done", "decisions"] as const;

/**
 * Limits for the rest of long requests: the share of the messages that a summary with this rest may have, and the
 * length of the rest in characters. A compaction must leave less than it found, and keeps the first request beside the
 * summary.
 */
const SHARE_WITH_REST = 0.3;
const LONGEST_REST = 2_000;
const SHORTEST_REST = 200;

/**
 * Returns the whole summary with every heading, in at most `room` characters unless the headings alone are longer.
 * `rest` is extra room for the goal, in characters.
 */
function writeParts(facts: Facts, sections: readonly Section[], room: number, rest: number): string {
  const fitter = createLineFitter();
  const wanted = new Set(sections.flatMap((section) => section.parts));
  const written = new Map<Part, readonly string[]>();
  const free = Math.max(0, room - render(sections, written).length);
  let left = free;
  const write = (part: Exclude<Part, "critical">, most: number) => {
    if (!wanted.has(part)) return;
    const lines = fitter.fit(WRITERS[part](facts, most, fitter.told), most);
    written.set(part, lines);
    left -= lengthOf(lines);
  };
  const roomOf = (part: keyof typeof ROOMS) =>
    Math.max(
      Math.floor((free * ROOMS[part]) / ALL_ROOM),
      Math.min(ROOMS[part], part === "goal" || part === "inProgress" ? LEAST_NOW : LEAST),
    );
  const critical = (most: number) => (wanted.has("critical") ? criticalLines(facts, fitter.told, most) : []);
  for (const part of FIRST) write(part, Math.min(left, roomOf(part) + (part === "goal" ? rest : 0)));
  const kept = Math.min(needOf(critical(roomOf("critical"))), roomOf("critical"));
  const reasons = Math.min(needOf(WRITERS.decisions(facts, left, fitter.told)), roomOf("decisions"));
  for (const part of THEN) write(part, Math.max(0, left - kept - (part === "done" ? reasons : 0)));
  if (wanted.has("critical")) written.set("critical", fitter.fit(critical(left), left));
  return render(sections, written);
}

/** List mark and line end, counted generously. */
const MARKS = 4;
const needOf = (lines: readonly Line[]) => lines.reduce((sum, { text }) => sum + text.length + MARKS, 0);
const lengthOf = (lines: readonly string[]) => lines.reduce((sum, { length }) => sum + length + 1, 0);

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

interface Section {
  heading: string;
  /** Parts in order; with `subheadings`, each in a separate sub-section. */
  parts: Part[];
  subheadings: boolean;
}

const SUBHEADINGS: Partial<Record<Part, string>> = {
  done: "Done",
  inProgress: "In Progress",
  blocked: "Blocked",
};

/**
 * Returns the sections of a summary: those that the request lists, else those of its purpose. No part is in two
 * sections.
 */
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
  // A heading that requests one part is served before one that requests several.
  for (const section of sections.toSorted((a, b) => a.parts.length - b.parts.length)) {
    section.parts = section.parts.filter((part) => !used.has(part));
    for (const part of section.parts) used.add(part);
  }
  // When "Progress" and its sub-sections are requested as headings of one level, the sub-sections are only below it.
  const progress = sections.find((section) => section.subheadings);
  if (progress === undefined) return sections;
  const names = Object.values(SUBHEADINGS);
  progress.parts = ["done", "inProgress", "blocked"];
  return sections.filter((section) => section === progress || !names.includes(section.heading));
}

/** Shares of the room: for notes, for names and for commands. */
const NOTES_SHARE = 1 / 4;
const NAMES_SHARE = 1 / 3;
const COMMANDS_SHARE = 1 / 6;
const LONGEST_NAMES = 760;

/**
 * Returns exact strings that cannot be derived: notes of earlier summaries, handles, files, names and commands, in this
 * order.
 */
function criticalLines(facts: Facts, told: string, room: number): Line[] {
  const notes = noteLines(facts, room * NOTES_SHARE);
  const handles = handleLines(facts, told);
  const commands = commandLines(facts, told, room * COMMANDS_SHARE);
  const left = room - needOf([...notes, ...handles, ...commands]);
  // No name is repeated that a file has; what the names leave is for the files.
  const said = [told, ...[...fileLines(facts, left), ...commands].map(({ text }) => text)].join("\n");
  const names = nameLines(facts, said, Math.min(LONGEST_NAMES, room * NAMES_SHARE));
  const files = fileLines(facts, left - needOf(names));
  const kinds = [notes, handles, files, names, commands];
  return kinds.flatMap((lines, kind) =>
    lines.map((line) => ({ ...line, order: kind * 10_000 + line.order })),
  );
}

/** Returns the newest notes of earlier summaries in prose, and the goals of branches. */
function noteLines({ previous, branches }: Facts, room: number): Line[] {
  const goals = branches.lines.goal.map(inOtherBranch);
  const notes = [...goals, ...branches.lines.critical, ...previous.lines.critical];
  return inheritedLines(fitting(notes.toReversed(), room).toReversed(), 2);
}

const HANDLES = 8;

/** First part of a UUID, as people and agents write it for short. */
const SHORT_ID = /^[0-9a-f]{8}$/;
const LONGEST_HANDLE = 160;
const LONGEST_OUTPUT = 320;

/** Returns the most recent and the most frequent handles, each at the end of the words before it. */
function handleLines({ record, previous, focus }: Facts, told: string): Line[] {
  const known = new Map<string, { text: string; worth: number }>();
  for (const [index, text] of previous.handles.entries())
    known.set(text.split(" ").at(-1)!, { text, worth: index / (previous.handles.length * 2) });
  for (const { text, words, times, last } of record.handles.values()) {
    const worth = share(last, record) + 0.25 * Math.log1p(times) + (focus(words) ? FOCUS : 0);
    known.set(text, { text: `${words}${text}`, worth });
  }
  const ranked = [...known]
    .filter(([handle]) => !told.includes(handle))
    .sort(([, a], [, b]) => b.worth - a.worth);
  const shown: string[] = [];
  for (const [handle] of ranked) {
    const whole = SHORT_ID.test(handle) ? ranked.find(([each]) => each.startsWith(`${handle}-`)) : undefined;
    const [each] = whole ?? [handle];
    if (shown.length < HANDLES && !shown.includes(each)) shown.push(each);
  }
  const chosen = shown.map((handle) => quote(known.get(handle)!.text, LONGEST_HANDLE));
  const { wholeOutput } = record;
  if (wholeOutput !== undefined)
    chosen.push(quote(`${wholeOutput.words}${wholeOutput.text}`, LONGEST_OUTPUT));
  return listLines(LABELS.handles, chunked(chosen, "; "));
}

const CHANGED_FILES = 24;
/** Changed files that have a line with their names; the others only have their paths. */
const DETAILED_FILES = 6;
const READ_FILES = 16;
const UNREAD = 5;
const NAMES_OF_FILE = 5;

/** Lines into which the paths of other files are joined. */
const MOST_CHUNKS = 4;

/**
 * Returns the files that were changed most and last, the first ones with a few of their names, then files that were read.
 * Paths are as in the calls.
 */
function fileLines(facts: Facts, room: number): Line[] {
  const { record, previous, branches } = facts;
  const files = new Map([...record.files].map(([path, file]) => [path, { ...file, names: [] as string[] }]));
  const inherited = [...branches.files, ...previous.files];
  const ages = new Map(
    [inherited.filter(({ edits }) => edits > 0), inherited.filter(({ edits }) => edits === 0)].flatMap(
      (kind) => kind.map(({ path }, index) => [path, EARLIER * (1 - index / kind.length)] as const),
    ),
  );
  for (const { path, edits, names } of inherited) {
    const file = files.get(path);
    if (file !== undefined) Object.assign(file, { edits: file.edits + edits, created: false, names });
    else files.set(path, { path, reads: 2, edits, created: false, last: -1, failure: undefined, names });
  }
  // Files of an earlier summary are older than all messages.
  const newness = ({ path, last }: FileWork) => (last < 0 ? ages.get(path)! : newnessOf(last, facts));
  const worth = (file: FileWork) =>
    0.5 * Math.log1p(file.edits + file.reads) + 2 * newness(file) + (facts.focus(file.path) ? FOCUS : 0);
  const ranked = [...files.values()]
    .filter(({ path }) => !isTemporary(path))
    .sort((a, b) => worth(b) - worth(a) || (a.path < b.path ? -1 : 1));
  const changed = ranked.filter(({ edits }) => edits > 0).slice(0, CHANGED_FILES);
  const read: FileWork[] = [];
  for (const file of ranked) {
    if (read.length === READ_FILES) break;
    // Commands name with a relative path what other calls name with the whole path.
    const isNamed = ranked.some(({ path }) => path.endsWith(`/${file.path}`));
    if (file.edits === 0 && !isNamed) read.push(file);
  }
  const documents = [...new Set([...previous.documents, ...record.documents])];
  const unread = documents.filter((path) => !ranked.some((file) => `/${file.path}`.endsWith(`/${path}`)));
  const shown = (path: string) => codeSpan(path, 200);
  const details = changed.slice(0, DETAILED_FILES).map((file) => {
    const names = namesOf(file, record);
    return `${shown(file.path)} (${file.created ? "created, " : ""}changed ${file.edits}×)${names.length > 0 ? `: ${names.join(", ")}` : ""}`;
  });
  const texts = fitting(details, room);
  let left = room - texts.reduce((sum, { length }) => sum + length + MARKS, 0);
  // Each path is chosen, and then joined with others: a line of five that does not fit would be lost whole.
  const addPaths = (label: string, chosen: readonly FileWork[]) => {
    const paths = fitting(
      chosen.map(({ path }) => shown(path)),
      left - label.length * MOST_CHUNKS,
    );
    for (const text of chunked(paths, ", ")) {
      texts.push(`${label}${text}`);
      left -= label.length + text.length + MARKS;
    }
  };
  addPaths(LABELS.changed, changed.slice(DETAILED_FILES));
  addPaths(LABELS.used, read);
  if (unread.length > 0) texts.push(`${LABELS.unread}${unread.slice(0, UNREAD).map(shown).join(", ")}`);
  return listLines("", texts);
}

/** Assumed share of the session that an earlier summary covers, as for the fifth of compactions at equal distances. */
const EARLIER = 0.8;

/** Returns the place of a message as a share of the whole session. The messages follow the earlier summary, if there is one. */
function newnessOf(at: number, { record, previous }: Facts): number {
  const isUpdate = Object.values(previous.lines).some((lines) => lines.length > 0);
  return isUpdate ? EARLIER + (1 - EARLIER) * share(at, record) : share(at, record);
}

/** Returns the names of a file that were written most and last. */
function namesOf(file: FileWork & { names: string[] }, record: SessionRecord): string[] {
  const used = [...record.names].filter(
    ([, { home, messages, last }]) => home === file.path && (messages > 1 || share(last, record) > NEW),
  );
  const worth = new Map(
    used.map(([name, use]) => [name, Math.log1p(use.messages) * (1 + share(use.last, record))]),
  );
  for (const [index, name] of file.names.entries()) worth.set(name, (worth.get(name) ?? 0) + 1 - index / 10);
  return [...worth]
    .sort((a, b) => b[1] - a[1])
    .slice(0, NAMES_OF_FILE)
    .map(([name]) => name);
}

/** Returns the most frequent and most recent names that the summary lacks: of flags, of settings, of printed output. */
function nameLines(facts: Facts, told: string, room: number): Line[] {
  const { record, previous, focus } = facts;
  const worth = new Map(
    previous.names.map((name, index) => [
      name,
      INHERITED * (1 - (INHERITED_RANGE * index) / previous.names.length),
    ]),
  );
  // Lines about the place where an earlier summary ended are not kept, and their names would go with them.
  const { inProgress, nextSteps } = previous.lines;
  eachName([...inProgress, ...nextSteps].join("\n"), (name) => {
    if (!worth.has(name)) worth.set(name, IN_PASSING);
  });
  for (const [name, use] of record.names) {
    const newness = newnessOf(use.last, facts);
    const said = worthOfName(use, newness) + (focus(name) ? FOCUS : 0);
    worth.set(name, (worth.get(name) ?? 0) + said);
  }
  const each = ([name, value]: [string, number]) => value / (name.length + 20);
  const ranked = [...worth]
    .filter(([name, value]) => value > LEAST_WORTH && !told.includes(name))
    .sort((a, b) => each(b) - each(a))
    .map(([name]) => name);
  const isFlag = (name: string) => name.startsWith("--");
  const most = record.turns.length > MANY_TURNS ? FEW_NAMES : MOST_NAMES;
  const others = ranked.filter((name) => !isFlag(name)).slice(0, most);
  const names = fitting([...ranked.filter(isFlag).slice(0, MOST_FLAGS), ...others], room);
  return listLines(LABELS.names, chunked(names, ", ", 40));
}

/** Value of the first name of an earlier summary. The values of the next ones fall evenly, at most to a tenth. */
const INHERITED = 1.5;
const INHERITED_RANGE = 0.9;

/** Value of a name in an earlier summary's newest calls and next steps. */
const IN_PASSING = 1;
const MOST_NAMES = 28;

/** Number of turns above which a summary has few names, so that requests get more room. */
const MANY_TURNS = 30;
const FEW_NAMES = 10;
const MOST_FLAGS = 3;

/** Minimum value of a name in the summary: names below it are rarely written again. */
const LEAST_WORTH = 0.8;

/**
 * Returns the value of a name: its likelihood of being written again. The weights were measured on 16 recorded
 * sessions, and rounded. Recency counts most.
 */
function worthOfName({ messages }: NameUse, newness: number): number {
  if (messages === 1 && newness <= NEW) return 0;
  return (0.7 + 1.4 * Math.log1p(messages)) * (0.2 + newness);
}

/** A name that was written once counts only if more than this share of the messages is before it. */
const NEW = 0.8;

const COMMANDS = 6;

/** Returns the commands that were run last and that may be typed again. */
function commandLines({ record, previous }: Facts, told: string, room: number): Line[] {
  const newest = [...record.commands.values()]
    .filter(({ line, once, reads }) => line.length <= 160 && !once && !reads)
    .toReversed();
  // An earlier summary has its newest commands only among its calls.
  const called = previous.lines.inProgress.flatMap((line) => calledCommand(line) ?? []).toReversed();
  const texts = [...new Set([...newest.map(({ line }) => line), ...called, ...previous.commands])]
    .map((line) => codeSpan(line, 160))
    .filter((span) => !told.includes(span))
    .slice(0, COMMANDS);
  return listLines(LABELS.commands, chunked(fitting(texts, room - LABELS.commands.length), ", "));
}

/** Returns the command of a call in an earlier summary; undefined for a call of another tool, or a command that was cut. */
function calledCommand(line: string): string | undefined {
  const label = line.startsWith(LABELS.called) ? /`([^`]+)`/.exec(line)?.[1] : undefined;
  return label !== undefined && !label.includes("…") && isRepeatableRun(label) ? label : undefined;
}
