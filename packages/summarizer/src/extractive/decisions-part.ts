import type { Facts } from "./facts.ts";
import { inheritedLines, type Line } from "./lines.ts";
import { oneLine, quote } from "./quote.ts";

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
