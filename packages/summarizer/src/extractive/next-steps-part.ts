import type { Facts } from "./facts.ts";
import { inheritedLines, type Line } from "./lines.ts";
import { isPlan } from "./markers.ts";
import { quote } from "./quote.ts";
import { splitSentences } from "./sentences.ts";

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
