import { type ContentBlock, isRecord } from "@espalier/session-tree";
import type { FormatIssues } from "./format-issue.ts";
import { nativeBlock, stored, withNative } from "./native.ts";
import { partsOf } from "./openai-parts.ts";

const FORMAT = "ai-sdk";

/** What the model reads where the user forbade a call and gave no reason: the SDK's own words. */
const DENIED = "Tool execution denied.";

type Fields = Record<string, unknown>;

/** What a tool gave, as content of a result, and what has to be known to write it in the same way again. */
export interface ReadOutput {
  content: ContentBlock[];
  isError: boolean;
  native: Fields;
}

/** Reads the `output` of a tool result. JSON becomes its text. */
export function readOutput(output: unknown, path: string, issues: FormatIssues): ReadOutput {
  const { type, value, ...rest } = isRecord(output) ? output : {};
  const text = (said: string): ContentBlock[] => (said === "" ? [] : [{ type: "text", text: said }]);
  const beside = Object.keys(rest).length > 0 ? { output: rest } : {};
  if ((type === "text" || type === "error-text") && typeof value === "string")
    return { content: text(value), isError: type === "error-text", native: beside };
  if ((type === "json" || type === "error-json") && value !== undefined)
    return {
      content: text(JSON.stringify(value)),
      isError: type === "error-json",
      native: { type, ...beside },
    };
  if (type === "execution-denied") {
    const said = typeof rest["reason"] === "string" ? rest["reason"] : DENIED;
    return { content: text(said), isError: true, native: { type, ...beside } };
  }
  if (type === "content" && Array.isArray(value)) {
    const content = partsOf(value, `${path}.output.value`, issues).flatMap(([part, place]) =>
      readPart(part, place, issues),
    );
    return { content, isError: false, native: beside };
  }
  issues.add("malformed", "output", path, "The output of a result has not the shape of its type.");
  return {
    content: text(typeof output === "string" ? output : (JSON.stringify(output) ?? "")),
    isError: false,
    native: {},
  };
}

function readPart(part: Fields, path: string, issues: FormatIssues): ContentBlock[] {
  const { type, text, data, mediaType, url, ...rest } = part;
  if (type === "text" && typeof text === "string") return [withNative({ type, text }, FORMAT, rest)];
  const isPicture = type === "image-data" || (type === "media" && String(mediaType).startsWith("image/"));
  if (isPicture && typeof data === "string" && typeof mediaType === "string")
    return [withNative({ type: "image", data, mimeType: mediaType }, FORMAT, rest)];
  if (type === "image-url" && typeof url === "string")
    return [stored(withNative({ type: "imageUrl", url }, FORMAT, rest))];
  if (type === "text" || isPicture || type === "image-url") {
    issues.add("malformed", String(type), path, "A part has not the shape of its type; it is left out.");
    return [];
  }
  issues.opaque(type, path);
  return [nativeBlock(FORMAT, part)];
}
