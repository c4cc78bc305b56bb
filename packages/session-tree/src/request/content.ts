import { contentBlocks } from "../message.ts";
import { isBlank } from "./blank.ts";
import { healedImage } from "./image.ts";
import type { UserBlock } from "./turn.ts";

const TYPE_NAME = /^[\w.-]{1,64}$/;

/** Text as a request can carry it; none when there is nothing to read in it. */
export function healedText(text: unknown): { type: "text"; text: string }[] {
  return typeof text === "string" && !isBlank(text) ? [{ type: "text", text: text.toWellFormed() }] : [];
}

/**
 * The content of a user message, custom message or tool result, whatever a file says it is. Blocks of a type that
 * nobody here knows become a word, so that the model knows of the gap.
 */
export function healedContent(message: { content?: unknown }): UserBlock[] {
  return contentBlocks(message).flatMap((block): UserBlock[] => {
    if (block.type === "text") return healedText(block.text);
    if (block.type === "image") return [healedImage(block)];
    return [
      {
        type: "text",
        text: TYPE_NAME.test(block.type) ? `[Content of type ${block.type} left out]` : "[Content left out]",
      },
    ];
  });
}
