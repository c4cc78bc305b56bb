import { jsonText, wellFormedJson } from "@espalier/jsonl-stream";
import { plainJson } from "@espalier/session-tree";

/**
 * The JSON text of an object or a list, in pieces: a field that is iterable (and no text) is written element by element. The
 * elements are never in memory as a whole.
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
 * The JSON text of a value on one line, in well-formed Unicode, since strict readers refuse the escapes of lone surrogates.
 * What a terminal would act on is escaped: the same value, and harmless on a screen.
 */
export const jsonLine = (value: unknown): string => plainJson(wellFormedJson(jsonText(value)));
