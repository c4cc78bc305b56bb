import type { Facts } from "./facts.ts";
import { withoutLabel } from "./goal-part.ts";
import { LABELS } from "./labels.ts";
import type { Line } from "./lines.ts";
import { oneLine, quote } from "./quote.ts";
import { rulesIn } from "./sayings.ts";

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
