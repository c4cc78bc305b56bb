import type { NavigateResult, Session } from "@espalier/engine";
import { formatMany } from "../numbers.ts";
import { plainLine, plainText } from "../plain-text.ts";

/** Where the leaf is after it moved, and what the model reads there. */
export function* viewArrival(
  session: Session,
  { leafId, summaryEntryId, editorText }: NavigateResult,
): Generator<string> {
  const { messages, tokens } = session.context;
  const place = leafId === null ? "before the first entry" : `at ${leafId}`;
  yield `The leaf is ${plainLine(place)}: the model reads ${formatMany(messages.length, "message")}, ${formatMany(tokens, "token")}.`;
  if (summaryEntryId !== null)
    yield `The branch that was left is summarised in ${plainLine(summaryEntryId)}.`;
  if (editorText) {
    yield "This text stood there, to be written anew:";
    yield "";
    yield plainText(editorText);
  }
}
