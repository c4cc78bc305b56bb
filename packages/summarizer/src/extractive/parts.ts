import type { CommandWork, FileWork } from "./digest.ts";
import { type Facts, rulesIn } from "./digest.ts";
import { type IndexedString, LABELS, stringValue } from "./exact-string.ts";
import { recentFrom, unsettledFailures, withoutLabel } from "./progress.ts";
import {
  codeSpan,
  inheritedLines,
  isPlan,
  type Line,
  type LineChooser,
  lengthOf,
  oneLine,
  quote,
  splitSentences,
} from "./text.ts";

const LONGEST_RULE = 220;

/**
 * Rules and preferences in the user's words. The oldest stand in for standing rules and keep half of the room however
 * many follow; the other half belongs to the newest. A rule that stands in a line of the goal is not told twice; when the
 * goal drops that line, the rule is told here.
 */
export function constraintLines({ digest, previous }: Facts, room: number, said: readonly string[]): Line[] {
  const lines: Line[] = [];
  let standing = 0;
  for (const [index, text] of previous.lines.constraints.entries()) {
    standing += text.length + 3;
    lines.push({ text, priority: standing <= room / 2 ? 100 : 1 + index / 1_000, order: index - 1_000 });
  }
  const isTold = (rule: string) => said.some((line) => line.includes(oneLine(rule)));
  const most = Math.min(LONGEST_RULE, Math.floor(room / 2));
  for (const line of previous.lines.goal.filter((text) => !text.startsWith(LABELS.firstRequest))) {
    for (const rule of rulesIn(withoutLabel(line))) {
      if (isTold(rule.text)) continue;
      lines.push({ text: quote(rule.text, most), priority: 2 + rule.strength, order: -1 });
    }
  }
  for (const { text, at, score } of digest.sayings.rules()) {
    if (isTold(text)) continue;
    lines.push({
      text: quote(text, most),
      priority: 2 + score,
      order: at / Math.max(digest.messageCount, 1),
    });
  }
  return lines;
}

const LONGEST_DECISION = 220;

/**
 * Decisions and findings of the agent, in its words, unless the work done tells it already. A model's earlier wording
 * outranks a quotation.
 */
export function decisionLines(
  { digest, previous, branches }: Facts,
  room: number,
  said: readonly string[],
): Line[] {
  const byModel = previous.lines.decisions.some((text) => !text.startsWith('"'));
  const lines = inheritedLines(previous.lines.decisions, byModel ? 4 : 2.5);
  lines.push(...inheritedLines(branches.lines.decisions, 2.5));
  for (const { text, at, score } of digest.sayings.decisions()) {
    if (said.some((line) => line.includes(oneLine(text)))) continue;
    lines.push({
      text: quote(text, Math.min(LONGEST_DECISION, Math.floor(room / 2))),
      priority: score,
      order: at,
    });
  }
  return lines;
}

const LONGEST_STEP = 160;

/** Next steps: the open tasks, unticked boxes and plans of the last answer, and whether the agent waits. */
export function nextStepLines({ digest, previous }: Facts): Line[] {
  const { lastTurn, plan, turns } = digest;
  const lines: Line[] = [];
  const open = plan.filter((item) => item.state !== "done");
  for (const [index, item] of open.entries()) {
    lines.push({
      text: `Task open: ${quote(item.text, LONGEST_STEP)}`,
      priority: 5 - index / 100,
      order: index,
    });
  }
  const lastText = lastTurn?.lastText ?? "";
  for (const [index, match] of [...lastText.matchAll(/^\s*[-*]\s+\[ \]\s+(.{1,400})$/gm)]
    .slice(0, 10)
    .entries()) {
    lines.push({
      text: `Not ticked: ${quote(match[1]!, LONGEST_STEP)}`,
      priority: 4 - index / 100,
      order: 100 + index,
    });
  }
  const said = splitSentences(lastText).filter((sentence) => sentence.length >= 12);
  const planned = said.findLast((sentence) => isPlan(sentence));
  if (lastTurn !== undefined && !lastTurn.finished) {
    const about = planned ?? said.at(-1);
    const text =
      about === undefined
        ? "Go on with the newest request."
        : `The agent was at: ${quote(about, LONGEST_STEP)}`;
    lines.push({ text, priority: 6, order: -1 });
  } else if (lastTurn !== undefined) {
    const question = said.findLast((sentence) => /[?？]$/.test(sentence));
    const offered = question ?? planned;
    lines.push(
      offered === undefined
        ? { text: "The newest request was answered; the agent waits for the user.", priority: 1, order: 200 }
        : {
            text: `The agent waits for the user; it closed with: ${quote(offered, LONGEST_STEP)}`,
            priority: 3,
            order: 200,
          },
    );
  }
  // Steps of an earlier summary are out of date as soon as work went on.
  if (turns.length <= 1 && open.length === 0)
    lines.push(...inheritedLines(previous.lines.nextSteps.filter(isStep), 2));
  return lines;
}

/** The current step is written anew each time. */
function isStep(text: string): boolean {
  return !/^(?:Go on with the newest|The (?:agent (?:was at|waits)|newest request was answered))/.test(text);
}

/** Of the room for critical context; exact strings get the rest. */
const NOTES_SHARE = 0.18;
const FAILURES_SHARE = 0.06;
const COMMANDS_SHARE = 0.1;
const LONGEST_COMMAND = 120;

/**
 * Notes of an earlier summary in prose, unsettled failures, commands, and then as many exact strings as fit that
 * stand nowhere in `said`, the text of the other parts.
 */
export function criticalLines(facts: Facts, said: string, room: number, chooser: LineChooser): string[] {
  const notes = chooser.choose(noteLines(facts), Math.floor(room * NOTES_SHARE));
  const failures = chooser.choose(olderFailures(facts), Math.floor(room * FAILURES_SHARE));
  const commands = commandLine(facts, said, Math.floor(room * COMMANDS_SHARE));
  const words = [...notes, ...commands, ...failures];
  return [
    ...notes,
    ...stringLines(facts, `${said}\n${words.join("\n")}`, room - lengthOf(words)),
    ...commands,
    ...failures,
  ];
}

function noteLines({ previous, branches }: Facts): Line[] {
  const goals = branches.lines.goal.map((text) =>
    text.startsWith("In another branch: ") ? text : `In another branch: ${text}`,
  );
  return [
    ...inheritedLines(previous.lines.critical, 1),
    ...inheritedLines([...goals, ...branches.lines.blocked, ...branches.lines.critical], 0.9),
  ];
}

function olderFailures(facts: Facts): Line[] {
  return unsettledFailures(facts)
    .filter(({ at }) => at < recentFrom(facts))
    .map(({ text, at }) => ({ text: `${LABELS.olderFailures}${text}`, priority: at, order: at }));
}

/** The commands run most and last, as one line. Those that only read come after those that do something. */
function commandLine({ digest, previous }: Facts, said: string, room: number): string[] {
  const worth = ({ runs, last, reads, line }: CommandWork) =>
    (Math.log1p(runs) * (1 + last / Math.max(digest.messageCount, 1)) * (reads ? 0.3 : 1)) /
    (line.length + 20);
  const ranked = digest.work
    .commands()
    .filter(
      (command) =>
        command.line.length <= LONGEST_COMMAND && !command.once && (!command.reads || command.runs > 1),
    )
    .sort((a, b) => worth(b) - worth(a) || b.last - a.last);
  const chosen: string[] = [];
  let left = room - LABELS.commands.length - 2;
  for (const line of new Set([...ranked.map((command) => command.line), ...previous.commands])) {
    const span = codeSpan(line, LONGEST_COMMAND);
    if (span.length + 2 > left || said.includes(span)) continue;
    left -= span.length + 2;
    chosen.push(span);
  }
  return chosen.length === 0 ? [] : [`- ${LABELS.commands}${chosen.join(", ")}`];
}

/** Of the room for strings, for the paths of files that were changed, whatever their names weigh. */
const CHANGED_FILES_SHARE = 0.2;

/** Strings considered; no room holds more. */
const MOST_STRINGS = 4_000;

/** A file changed this many messages later outranks one changed e times as often. */
const MESSAGES_PER_FACTOR = 200;

/** Scratch files: changed, but nothing that anyone comes back to. */
const TEMPORARY = /^(?:\/private)?\/(?:var\/)?tmp\//;

/** After this many names of one file the next counts half: an index of all files serves better than one file's. */
const NAMES_TO_HALF = 120;

interface Valued {
  string: IndexedString;
  value: number;
}

/** As many exact strings as fit into `room` characters, the most valuable first, without those that `said` holds. */
function stringLines(facts: Facts, said: string, room: number): string[] {
  const files = new Map(facts.digest.work.files().map((file) => [file.path, file]));
  const changed = changedFiles([...files.values()], Math.floor(room * CHANGED_FILES_SHARE));
  const ranked = rankStrings(facts, said);
  // The most strings whose lines fit: length grows with their number, so halving finds it.
  let fits = 0;
  let tooMany = ranked.length + 1;
  while (tooMany - fits > 1) {
    const middle = (fits + tooMany) >> 1;
    if (lengthOf(groupStrings(ranked.slice(0, middle), changed, files)) <= room) fits = middle;
    else tooMany = middle;
  }
  const lines = groupStrings(ranked.slice(0, fits), changed, files);
  return lengthOf(lines) <= room ? lines : [];
}

/** Hyphenated words and values that only a tool wrote are mostly licences, logs and clock times. */
function isCandidate({ kind, spoken, messages, prior }: IndexedString): boolean {
  if (spoken || prior > 0) return true;
  return kind !== "value" && (kind !== "word" || messages > 1);
}

function rankStrings({ digest, focus }: Facts, said: string): IndexedString[] {
  const valued: Valued[] = [...digest.strings.entries()].filter(isCandidate).map((string) => ({
    string,
    value: stringValue(string, digest.messageCount, focus),
  }));
  return spread(valued)
    .slice(0, MOST_STRINGS)
    .map(({ string }) => string)
    .filter((string) => !said.includes(string.text));
}

/** Sorted by worth, after every further name of the same file has lost a little. */
function spread(strings: readonly Valued[]): Valued[] {
  const byWorth = (a: Valued, b: Valued) => b.value - a.value || a.string.order - b.string.order;
  const counts = new Map<string, number>();
  return strings
    .toSorted(byWorth)
    .map(({ string, value }) => {
      const before = counts.get(string.home ?? "") ?? 0;
      if (string.home !== undefined) counts.set(string.home, before + 1);
      return { string, value: value / (1 + before / NAMES_TO_HALF) };
    })
    .sort(byWorth);
}

/** The files changed most and last, until their paths fill the room. */
function changedFiles(files: readonly FileWork[], room: number): string[] {
  const worth = ({ edits, last }: FileWork) => Math.log1p(edits) + last / MESSAGES_PER_FACTOR;
  const byWorth = files
    .filter((file) => file.edits > 0 && !TEMPORARY.test(file.path))
    .sort((a, b) => worth(b) - worth(a) || (a.path < b.path ? -1 : 1));
  let left = room;
  return byWorth.flatMap(({ path }) => {
    left -= path.length + 20;
    return left >= 0 ? [path] : [];
  });
}

/** A file gets a line of its own when it was changed, or when this many chosen names belong to it. */
const NAMES_FOR_OWN_LINE = 3;

/**
 * Strings as list items: each file with the names that it defines and those that stand in it, then the rest by kind.
 * Names stand in one code span a group, a space between them.
 */
function groupStrings(
  strings: readonly IndexedString[],
  changed: readonly string[],
  files: ReadonlyMap<string, FileWork>,
): string[] {
  const byHome = new Map<string, IndexedString[]>();
  for (const path of ownLines(strings, changed, files)) byHome.set(path, []);
  const paths = [...byHome.keys()];
  const rest: Record<"paths" | "names" | "values" | "links", string[]> = {
    paths: [],
    names: [],
    values: [],
    links: [],
  };
  for (const string of strings) {
    const { text, kind, home } = string;
    if (paths.some((path) => path === text || path.endsWith(`/${text}`))) continue;
    const atHome = home === undefined ? undefined : byHome.get(home);
    if (kind === "url") rest.links.push(text);
    else if (kind === "path" || kind === "file") rest.paths.push(text);
    else if (atHome !== undefined) atHome.push(string);
    else if (kind === "value" || kind === "flag") rest.values.push(text);
    else rest.names.push(text);
  }
  return [
    ...[...byHome].map(([path, names]) => fileLine(path, names, files.get(path))),
    ...listLine(LABELS.otherPaths, rest.paths),
    ...listLine(LABELS.otherNames, rest.names),
    ...listLine(LABELS.values, rest.values),
    ...listLine(LABELS.links, rest.links),
  ];
}

/** The files with a line of their own: changed ones, homes of several names, and files whose path was chosen. */
function ownLines(
  strings: readonly IndexedString[],
  changed: readonly string[],
  files: ReadonlyMap<string, FileWork>,
): Set<string> {
  const names = new Map<string, number>();
  for (const { home, kind } of strings) {
    if (home !== undefined && kind !== "path") names.set(home, (names.get(home) ?? 0) + 1);
  }
  const homes = [...names].filter(([, count]) => count >= NAMES_FOR_OWN_LINE).map(([home]) => home);
  const chosen = strings.map(({ text }) => text).filter((text) => files.has(text));
  return new Set([...changed, ...homes, ...chosen]);
}

function fileLine(path: string, strings: readonly IndexedString[], work: FileWork | undefined): string {
  const defined = strings.filter((string) => string.defined).map(({ text }) => text);
  const others = strings.filter((string) => !string.defined).map(({ text }) => text);
  const groups: string[] = [];
  if (defined.length > 0) groups.push(`${LABELS.defines}\`${defined.join(" ")}\``);
  if (others.length > 0) groups.push(`\`${others.join(" ")}\``);
  return `- ${codeSpan(path, 300)}${changesOf(work)}${groups.length === 0 ? "" : `: ${groups.join("; ")}`}`;
}

function changesOf(work: FileWork | undefined): string {
  if (work === undefined || work.edits === 0) return "";
  return ` (${work.created ? "created, " : ""}changed ${work.edits}×)`;
}

function listLine(label: string, texts: readonly string[]): string[] {
  return texts.length === 0 ? [] : [`- ${label}\`${texts.join(" ")}\``];
}
