import type { HealedResult, HealedText, UserBlock } from "./turn.ts";

/** Says in a result that its pictures stand after the results. */
const IMAGES_FOLLOW = "(see the images that follow)";

/**
 * A result without its pictures, for where a provider reads only text in results, and what then stands after all
 * results instead: the pictures, named by their call.
 */
export function detachImages(result: HealedResult): { texts: HealedText[]; following: UserBlock[] } {
  const texts = result.content.filter((block) => block.type === "text");
  const images = result.content.filter((block) => block.type === "image");
  if (images.length === 0) return { texts, following: [] };
  return {
    texts: texts.length > 0 ? texts : [{ type: "text", text: IMAGES_FOLLOW }],
    following: [{ type: "text", text: `Images of the result of ${result.callId}:` }, ...images],
  };
}
