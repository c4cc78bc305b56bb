import type { UserBlock } from "./turn.ts";

/** The kinds of picture that every provider here reads. */
const READABLE = new Set(["image/png", "image/jpeg", "image/gif", "image/webp"]);

/** How the base64 of each kind begins. WebP is `RIFF`, four bytes of length, `WEBP`. */
const BEGINNINGS: [RegExp, string][] = [
  [/^iVBORw0KGgo/, "image/png"],
  [/^\/9j\//, "image/jpeg"],
  [/^R0lGOD/, "image/gif"],
  [/^UklGR.{6}XRUJQ/, "image/webp"],
];

const BASE64 = /^[A-Za-z0-9+/]+={0,2}$/;
const MEDIA_TYPE = /^[\w.+-]{1,40}\/[\w.+-]{1,80}$/;

/**
 * A stored picture as a request can carry it. Its bytes decide what it is where they are known, since a wrong media type
 * fails the whole request; one that no provider reads, or whose data is not base64 any more, becomes a word.
 */
export function healedImage(image: { data?: unknown; mimeType?: unknown }): UserBlock {
  const declared = typeof image.mimeType === "string" ? image.mimeType.toLowerCase() : "";
  const data = typeof image.data === "string" ? image.data : "";
  const mediaType = mediaTypeOf(data) ?? (declared === "image/jpg" ? "image/jpeg" : declared);
  if (READABLE.has(mediaType) && BASE64.test(data)) return { type: "image", mediaType, data };
  return {
    type: "text",
    text: MEDIA_TYPE.test(declared) ? `[Image left out: ${declared}]` : "[Image left out]",
  };
}

function mediaTypeOf(data: string): string | undefined {
  return BEGINNINGS.find(([beginning]) => beginning.test(data))?.[1];
}
