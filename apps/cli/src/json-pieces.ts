import { plainJson } from "@espalier/session-tree";

/**
 * The JSON text of an object or a list, in pieces: a field that is iterable (and no text) is written element by element, so
 * that neither the text nor the elements are ever in memory as a whole.
 */
export function* jsonPieces(value: object): Generator<string> {
  if (isIterable(value)) {
    yield* arrayPieces(value);
    return;
  }
  let separator = "{";
  for (const [key, field] of Object.entries(value)) {
    if (field === undefined) continue;
    yield `${separator}${JSON.stringify(key)}:`;
    separator = ",";
    if (isIterable(field)) yield* arrayPieces(field);
    else yield jsonLine(field);
  }
  yield separator === "{" ? "{}" : "}";
}

function* arrayPieces(elements: Iterable<unknown>): Generator<string> {
  let separator = "[";
  for (const element of elements) {
    yield `${separator}${jsonLine(element ?? null)}`;
    separator = ",";
  }
  yield separator === "[" ? "[]" : "]";
}

const isIterable = (value: unknown): value is Iterable<unknown> =>
  typeof value === "object" && value !== null && Symbol.iterator in value;

/**
 * The JSON text of a value on one line, in well-formed Unicode: `JSON.stringify` writes lone surrogates as escapes that
 * strict readers refuse. Text that only looks like one (behind an escaped backslash) is matched first, and kept. What
 * a terminal would act on is escaped: the same value, and harmless on a screen.
 */
export function jsonLine(value: unknown): string {
  const text = plainJson(JSON.stringify(value));
  if (!text.includes("\\ud")) return text;
  return text.replace(/\\\\|\\ud[89a-f][0-9a-f]{2}/g, (match) => (match === "\\\\" ? match : "\ufffd"));
}
