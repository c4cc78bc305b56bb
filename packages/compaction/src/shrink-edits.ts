import {
  type ContentBlock,
  type ContextEdit,
  type ContextMessage,
  contentBlocks,
} from "@espalier/session-tree";
import { cutText } from "@espalier/summarizer";
import { commonLimit } from "./common-limit.ts";
import type { CutItem } from "./cut-point.ts";
import { withoutImage } from "./picture-edits.ts";

/** Below this many tokens a result is not shortened further: head and tail would say nothing any more. */
const SMALLEST_RESULT = 100;

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
  const sizes = candidates.map(({ tokens }) => tokens);
  let wanted = excess;
  let limit = Math.max(SMALLEST_RESULT, commonLimit(sizes, wanted));
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
    wanted += excess - freed;
    limit = Math.max(SMALLEST_RESULT, Math.floor(Math.min(limit * 0.95, commonLimit(sizes, wanted))));
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

function shrunk(message: ContextMessage, limit: number, estimate: (message: ContextMessage) => number) {
  const words = withContent(message, contentBlocks(message as { content?: unknown }).map(withoutImage));
  // A share of the characters, whatever the estimator counts: it is about as large a share of the size.
  const share = message.role === "toolResult" ? Math.min(1, limit / Math.max(1, estimate(words))) : 1;
  const content = contentBlocks(words as { content?: unknown }).map((block) => shortened(block, share));
  return {
    replacement: { content } as NonNullable<ContextEdit["replacement"]>,
    freed: estimate(message) - estimate(withContent(message, content)),
  };
}

const withContent = (message: ContextMessage, content: ContentBlock[]) =>
  ({ ...message, content }) as ContextMessage;

const shortened = (block: ContentBlock, share: number): ContentBlock =>
  block.type === "text" && share < 1
    ? { ...block, text: cutText(block.text, Math.floor(block.text.length * share), "head-tail") }
    : block;
