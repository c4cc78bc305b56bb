import { archivedRows, type Session } from "@espalier/engine";
import {
  type ContextMessage,
  estimateTokens,
  isFailedAnswer,
  type SessionContext,
} from "@espalier/session-tree";
import { formatCount, formatMany } from "../numbers.ts";
import { plainLine } from "../plain-text.ts";
import type { Shell } from "../shell.ts";
import { firstLines } from "./message-block.ts";

/** Lines of a message that are shown. */
const SHOWN = 3;

const INDENT = "  ";

/** A context for people: what it comes to, what a compaction hides, then each message with where it comes from. */
export function* viewContext(
  session: Session,
  leafId: string | null,
  context: SessionContext,
  { colours, columns }: Pick<Shell, "colours" | "columns">,
): Generator<string> {
  yield colours.bold(contextHeading(leafId, context));
  const hidden = hiddenBy(session, leafId, context);
  if (hidden) yield colours.magenta(hidden);
  for (const [at, message] of context.messages.entries()) {
    yield "";
    const tokens = colours.dim(
      `${plainLine(context.sources[at] ?? "")} · ${formatMany(estimateTokens(message), "token")}${noteOf(message)}`,
    );
    yield `${colours.cyan(plainLine(message.role))} ${tokens}`;
    for (const line of firstLines(message, SHOWN, columns - INDENT.length)) yield `${INDENT}${line}`;
  }
}

/** One line that says what a context comes to. */
function contextHeading(
  leafId: string | null,
  { messages, tokens, model, thinkingLevel }: SessionContext,
): string {
  const place = leafId === null ? "before the first entry" : `at ${leafId}`;
  const reader = model ? ` · ${plainLine(model.modelId)}` : "";
  const thinking = thinkingLevel === "off" ? "" : ` · thinking ${plainLine(thinkingLevel)}`;
  return `What the model reads ${plainLine(place)}: ${formatMany(messages.length, "message")}, ${formatMany(tokens, "token")}${reader}${thinking}`;
}

/** What a compaction keeps from the model, in one line; undefined where none does. */
export function hiddenBy(
  { tree }: Pick<Session, "tree">,
  leafId: string | null,
  context: SessionContext,
): string | undefined {
  if (!context.messages.some(({ role }) => role === "compactionSummary")) return undefined;
  const { compactionRow, count } = archivedRows({ tree, leafId });
  if (compactionRow < 0) return undefined;
  const stands =
    count === 1
      ? "1 older entry of this path that is"
      : `${formatCount(count)} older entries of this path that are`;
  return `The compaction ${plainLine(tree.idAt(compactionRow))} stands for ${stands} still in the file.`;
}

function noteOf(message: ContextMessage): string {
  if (isFailedAnswer(message))
    return ` · ${(message as { stopReason: string }).stopReason}, left out of requests`;
  if (message.role === "bashExecution" && message.excludeFromContext) return " · kept from the model";
  return "";
}
