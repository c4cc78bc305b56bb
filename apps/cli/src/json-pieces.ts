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

/** What a terminal may act on and JSON does not escape: controls above ASCII, marks that turn or break a line. */
const ACTING = /[\u007f-\u009f\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]/g;

const escaped = (character: string): string => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;

/**
 * The JSON text of a value on one line, in well-formed Unicode: `JSON.stringify` writes lone surrogates as escapes that
 * strict readers refuse. Text that only looks like one (behind an escaped backslash) is matched first, and kept. What
 * a terminal would act on is escaped: the same value, and harmless on a screen.
 */
export function jsonLine(value: unknown): string {
  const text = JSON.stringify(value).replace(ACTING, escaped);
  if (!text.includes("\\ud")) return text;
  return text.replace(/\\\\|\\ud[89a-f][0-9a-f]{2}/g, (match) => (match === "\\\\" ? match : "\ufffd"));
}
