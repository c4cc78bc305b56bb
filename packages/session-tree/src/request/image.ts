import type { PictureType, UserBlock } from "./turn.ts";

const READABLE: ReadonlySet<string> = new Set<PictureType>([
  "image/png",
  "image/jpeg",
  "image/gif",
  "image/webp",
]);
const isReadable = (mediaType: string): mediaType is PictureType => READABLE.has(mediaType);

/** How the base64 of each kind begins. WebP is `RIFF`, four bytes of length, `WEBP`. */
const BEGINNINGS: [RegExp, PictureType][] = [
  [/^iVBORw0KGgo/, "image/png"],
  [/^\/9j\//, "image/jpeg"],
  [/^R0lGOD/, "image/gif"],
  [/^UklGR.{6}XRUJQ/, "image/webp"],
];

const BASE64 = /^[A-Za-z0-9+/]+={0,2}$/;
const MEDIA_TYPE = /^[\w.+-]{1,40}\/[\w.+-]{1,80}$/;

/**
 * A stored picture as a request can carry it. Its bytes decide what it is where they are known, since a wrong media type
 * fails the whole request. Padding that is missing is added. A picture that no provider reads, and one whose data is no
 * base64, becomes a word.
 */
export function healedImage(image: { data?: unknown; mimeType?: unknown }): UserBlock {
  const declared = typeof image.mimeType === "string" ? image.mimeType.toLowerCase() : "";
  const data = padded(typeof image.data === "string" ? image.data : "");
  const mediaType = mediaTypeOf(data) ?? (declared === "image/jpg" ? "image/jpeg" : declared);
  if (isReadable(mediaType) && data.length % 4 === 0 && BASE64.test(data))
    return { type: "image", mediaType, data };
  return {
    type: "text",
    text: MEDIA_TYPE.test(declared) ? `[Image left out: ${declared}]` : "[Image left out]",
  };
}

/** Base64 with its padding, which some encoders leave out. */
function padded(data: string): string {
  const rest = data.endsWith("=") ? 0 : data.length % 4;
  return rest < 2 ? data : data + "=".repeat(4 - rest);
}

function mediaTypeOf(data: string): PictureType | undefined {
  return BEGINNINGS.find(([beginning]) => beginning.test(data))?.[1];
}
