import type { HistoryHit } from "@espalier/engine";
import { formatTime } from "../numbers.ts";
import { cutLine, plainLine, plainText } from "../plain-text.ts";
import type { Shell } from "../shell.ts";

/** Lines of a message that are shown, and characters of each. */
const SHOWN = 6;
const LINE_LENGTH = 200;

/** Original messages for people: which, whose, whether the model still reads them, and how they begin. */
export function* viewHistory(
  hits: readonly HistoryHit[],
  { colours }: Pick<Shell, "colours">,
): Generator<string> {
  if (hits.length === 0) yield "No message matches.";
  for (const [at, { entryId, role, text, timestamp, covered, onPath }] of hits.entries()) {
    if (at > 0) yield "";
    const facts = [
      entryId,
      formatTime(timestamp),
      covered ? "covered by a summary" : "",
      onPath ? "" : "on another branch",
    ].filter((fact) => fact !== "");
    yield `${colours.cyan(plainLine(role))} ${colours.dim(plainLine(facts.join(" · ")))}`;
    const lines = plainText(text).split("\n");
    for (const line of lines.slice(0, SHOWN)) yield `  ${cutLine(line, LINE_LENGTH)}`;
    if (lines.length > SHOWN) yield colours.dim(`  … ${lines.length - SHOWN} more lines`);
  }
}
