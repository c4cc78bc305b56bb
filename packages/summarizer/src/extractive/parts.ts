import { type Facts, rulesIn } from "./digest.ts";
import { LABELS } from "./exact-string.ts";
import { recentFrom, unsettledFailures, withoutLabel } from "./progress.ts";
import { stringLines } from "./string-lines.ts";
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
import type { CommandWork } from "./work-log.ts";

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

/** What the agent chose or found out, in its words, unless the work done tells it already. A model's earlier wording outranks a quotation. */
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

/** What comes next: the open tasks, unticked boxes and plans of the last answer, and whether the agent waits. */
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

/** Where the agent stood is told anew each time. */
function isStep(text: string): boolean {
  return !/^(?:Go on with the newest|The (?:agent (?:was at|waits)|newest request was answered))/.test(text);
}

/** Of the room for critical context; exact strings get the rest. */
const NOTES_SHARE = 0.18;
const FAILURES_SHARE = 0.06;
const COMMANDS_SHARE = 0.1;
const LONGEST_COMMAND = 120;

/**
 * What an earlier summary noted in prose, failures nobody settled, commands, and then as many exact strings as fit
 * that stand nowhere in `said`, the text of the other parts.
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
