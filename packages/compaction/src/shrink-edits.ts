import {
  CHARS_PER_TOKEN,
  type ContentBlock,
  type ContextEdit,
  type ContextMessage,
  contentBlocks,
} from "@espalier/session-tree";
import { cutText } from "@espalier/summarizer";
import type { CutItem } from "./cut-point.ts";

/** Below this many tokens a result is not shortened further: head and tail would say nothing any more. */
const SMALLEST_RESULT = 100;

/** What stands in place of a picture that is left out. */
const LEFT_OUT_IMAGE = "[image left out]";

/**
 * Edits that bring what is kept down by at least `excess` tokens, if that can be done: the largest tool results are cut
 * to head and tail, all to about the same size, and pictures are replaced by a word. The log keeps the originals.
 * Empty when nothing has to shrink; what can be done, when it is not enough.
 */
export function shrinkEdits(
  kept: readonly CutItem[],
  excess: number,
  estimate: (message: ContextMessage) => number,
): ContextEdit[] {
  if (excess <= 0) return [];
  const candidates = kept.flatMap(({ entry, messages }) => {
    const [message] = messages;
    return messages.length === 1 && message && canShrink(message)
      ? [{ id: entry.id, message, tokens: estimate(message) }]
      : [];
  });
  let limit = commonLimit(
    candidates.map(({ tokens }) => tokens),
    excess,
  );
  // A cut leaves its mark, and an estimator need not be linear: look again until it fits or nothing more can be had.
  for (;;) {
    const edits = candidates
      .filter(({ tokens }) => tokens > limit)
      .map(({ id, message }) => ({ targetId: id, ...shrunk(message, limit, estimate) }));
    const freed = edits.reduce((sum, { freed }) => sum + freed, 0);
    if (freed >= excess || limit <= SMALLEST_RESULT) {
      return edits
        .filter((edit) => edit.freed > 0)
        .map(({ targetId, replacement }) => ({ targetId, replacement }));
    }
    limit = Math.max(SMALLEST_RESULT, Math.floor(limit * 0.8));
  }
}

/** Results and pictures shrink; what people and models said does not. */
function canShrink(message: ContextMessage): boolean {
  if (message.role === "toolResult") return true;
  return (
    (message.role === "user" || message.role === "custom") &&
    contentBlocks(message).some(({ type }) => type === "image")
  );
}

/** The size to which all larger ones are cut so that the sum falls by `excess`. */
function commonLimit(sizes: number[], excess: number): number {
  const sorted = [...sizes].sort((a, b) => b - a);
  let freed = 0;
  for (let count = 1; count <= sorted.length; count++) {
    const next = sorted[count] ?? 0;
    const step = (sorted[count - 1]! - next) * count;
    if (freed + step >= excess)
      return Math.max(SMALLEST_RESULT, Math.floor(sorted[count - 1]! - (excess - freed) / count));
    freed += step;
  }
  return SMALLEST_RESULT;
}

function shrunk(message: ContextMessage, limit: number, estimate: (message: ContextMessage) => number) {
  const content = shorterContent(
    contentBlocks(message as { content?: unknown }),
    message.role === "toolResult" ? limit : undefined,
  );
  const after = { ...message, content } as ContextMessage;
  return {
    replacement: { content } as NonNullable<ContextEdit["replacement"]>,
    freed: estimate(message) - estimate(after),
  };
}

function shorterContent(blocks: readonly ContentBlock[], limit: number | undefined): ContentBlock[] {
  const textChars = blocks.reduce((sum, block) => sum + (block.type === "text" ? block.text.length : 0), 0);
  const share = limit === undefined ? 1 : Math.min(1, (limit * CHARS_PER_TOKEN) / Math.max(1, textChars));
  return blocks.map((block): ContentBlock => {
    if (block.type === "image") return { type: "text", text: LEFT_OUT_IMAGE };
    return block.type === "text" && share < 1
      ? { ...block, text: cutText(block.text, Math.floor(block.text.length * share), "head-tail") }
      : block;
  });
}
