import type { AssistantBlock } from "@espalier/session-tree";

/**
 * Adds a piece to what there is of an answer so far. It is what remains when the answer does not come to its end:
 * thinking has no signature then, and is kept for people to read; no request carries it.
 */
export function addPiece(
  blocks: AssistantBlock[],
  { type, text }: { type: "text" | "thinking"; text: string },
): void {
  const last = blocks.at(-1);
  if (type === "text") {
    if (last?.type === "text") last.text += text;
    else blocks.push({ type, text });
  } else if (last?.type === "thinking") last.thinking += text;
  else blocks.push({ type, thinking: text });
}
