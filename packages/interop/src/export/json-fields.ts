import { jsonText } from "@espalier/jsonl-stream";
/**
 * An object as JSON text in pieces: each field on a line, and each element of a field that is a list or a generator, so
 * that a long list is never one string. Fields that are undefined are left out.
 */
export function* jsonFields(fields: object): Generator<string> {
  let separator = "{\n";
  for (const [name, value] of Object.entries(fields)) {
    if (value === undefined) continue;
    yield `${separator}${JSON.stringify(name)}: `;
    if (isIterable(value)) yield* jsonList(value);
    else yield jsonText(value);
    separator = ",\n";
  }
  yield separator === "{\n" ? "{}\n" : "\n}\n";
}

function* jsonList(values: Iterable<unknown>): Generator<string> {
  let separator = "[\n";
  for (const value of values) {
    yield `${separator}${jsonText(value)}`;
    separator = ",\n";
  }
  yield separator === "[\n" ? "[]" : "\n]";
}

const isIterable = (value: unknown): value is Iterable<unknown> =>
  typeof value === "object" && value !== null && Symbol.iterator in value;
