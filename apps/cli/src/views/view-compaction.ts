import type { CompactionPreparation } from "@espalier/compaction";
import type { CompactionResult } from "@espalier/engine";
import { formatCount, formatMany } from "../numbers.ts";
import { plainLine, plainText } from "../plain-text.ts";
import type { Shell } from "../shell.ts";

/** What a compaction would do, for people. */
export function* viewPlan(plan: CompactionPreparation): Generator<string> {
  const { historyIds, turnPrefixIds, keptIds, firstKeptEntryId, turnStartEntryId, edits } = plan;
  const { tokensBefore, tokensAfter, previousSummary } = plan;
  yield `A compaction would bring the context from ${formatCount(tokensBefore)} to about ${formatCount(tokensAfter)} tokens.`;
  const history = formatMany(historyIds.length, "message");
  yield `Summarised: ${history}${previousSummary ? ", into the summary that stands there already" : ""}.`;
  if (turnStartEntryId !== null)
    yield `The cut is inside the turn that begins at ${plainLine(turnStartEntryId)}: what it has before the cut (${formatMany(turnPrefixIds.length, "message")}) is summarised beside it.`;
  yield firstKeptEntryId === null
    ? "Kept as it is: nothing."
    : `Kept as they are: ${formatMany(keptIds.length, "message")} from ${plainLine(firstKeptEntryId)} on.`;
  if (edits.length > 0)
    yield `Left out or shortened, to fit: ${formatMany(edits.length, "message")} behind the first that is kept.`;
  // An answer of theirs may ask a model, which a plan never does.
  yield "Extensions were not asked: they may refuse it, change it, or write the summary themselves.";
}

/** What a compaction did, for people, and the summary itself. `tokens` is what the model reads now, as trees tell it. */
export function* viewCompaction(
  result: CompactionResult,
  tokens: number,
  { colours }: Pick<Shell, "colours">,
): Generator<string> {
  const { entryId, tokensBefore, tokensAfter, firstKeptEntryId, source, editIds, summary, missingSections } =
    result;
  yield colours.bold(`Compacted: ${formatCount(tokensBefore)} → ${formatCount(tokensAfter)} tokens.`);
  const kept =
    firstKeptEntryId === entryId
      ? "nothing before it is kept"
      : `${plainLine(firstKeptEntryId)} and what follows is kept`;
  yield colours.dim(`${plainLine(entryId)}, written by ${plainLine(source)}; ${kept}.`);
  if (missingSections)
    yield colours.dim(`The summary lacks headings that were asked for: ${missingSections.join(", ")}.`);
  if (editIds.length > 0)
    yield colours.dim(
      `${formatMany(editIds.length, "message")} behind the first that is kept ${editIds.length === 1 ? "was" : "were"} left out or shortened.`,
    );
  if (tokens !== tokensAfter)
    yield colours.dim(
      `This policy counts tokens in its own way; by the session's, the model reads ${formatCount(tokens)} now.`,
    );
  yield "";
  yield plainText(summary);
}
