import { type ContentBlock, isRecord } from "@espalier/session-tree";
import { parseDataUrl } from "./data-url.ts";
import type { FormatIssues } from "./format-issue.ts";
import { type FormatName, stored, withNative } from "./native.ts";
import { parsedJson } from "./parsed-json.ts";
import { plainJson } from "./plain-json.ts";

/** A picture at an address, which can be a `data:` address with the picture in it. */
export function readImage(url: string, format: FormatName, fields: Record<string, unknown>): ContentBlock {
  const inline = parseDataUrl(url);
  const { detail, ...rest } = fields;
  const extra = detail === undefined || detail === null || detail === "auto" ? rest : { detail, ...rest };
  return inline
    ? withNative({ type: "image", ...inline }, format, extra)
    : stored(withNative({ type: "imageUrl", url }, format, extra));
}

/** Arguments of a call, which the model wrote as text that should be the JSON of an object. */
export function readArguments(text: unknown, path: string, issues: FormatIssues): Record<string, unknown> {
  const lost = (place: string) =>
    issues.add(
      "malformed",
      "value",
      `${path}.arguments.${place}`,
      "A value that no session can hold is left out.",
    );
  const parsed = text === "" || text === undefined ? {} : plainJson(parsedJson(text), lost);
  if (isRecord(parsed)) return parsed;
  issues.add(
    "changed",
    "arguments",
    path,
    "Arguments of a call are no JSON object; they become one with `value`.",
  );
  return { value: parsed ?? text };
}

/** The elements of a list that are objects with a `type`, each with its place; the others are told. */
export function partsOf(
  list: readonly unknown[],
  path: string,
  issues: FormatIssues,
): [Record<string, unknown>, string][] {
  return list.flatMap((part, at): [Record<string, unknown>, string][] => {
    const place = `${path}[${at}]`;
    if (isRecord(part) && typeof part["type"] === "string") return [[part, place]];
    issues.add("malformed", "part", place, "A part has no type; it is left out.");
    return [];
  });
}
