import { jsonText } from "./json-text.ts";

/**
 * JSON text as `JSON.stringify` writes it, with each lone surrogate in a string or a key replaced by U+FFFD; the same text
 * where there is none. Keys that differed in their surrogates only are the same then: the last one is kept.
 *
 * `JSON.stringify` writes lone surrogates, and nothing else, as escapes that begin with `\ud`. Text of the value can
 * look the same after an escaped backslash, so those are matched first.
 */
export function wellFormedJson(text: string): string {
  if (!text.includes("\\ud")) return text;
  const healed = text.replace(/\\\\|\\ud[89a-f][0-9a-f]{2}/g, (match) =>
    match === "\\\\" ? match : "\ufffd",
  );
  return healed === text ? text : jsonText(JSON.parse(healed));
}
