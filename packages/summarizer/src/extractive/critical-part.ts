import type { Facts } from "./facts.ts";
import { LABELS } from "./labels.ts";
import { inheritedLines, type Line, type LineChooser, lengthOf } from "./lines.ts";
import { recentFrom, unsettledFailures } from "./progress-part.ts";
import { codeSpan } from "./quote.ts";
import { stringLines } from "./string-lines.ts";
import type { CommandWork } from "./work-log.ts";

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
