/**
 * One escape sequence of JSON text. `JSON.stringify` writes a surrogate as an escape exactly when it is alone; any other
 * sequence is matched as a whole, so that a written backslash before `ud800` is not taken for one.
 */
const ESCAPE = /\\(?:(ud[89a-f][0-9a-f]{2})|[\s\S])/g;

/** The same JSON value with lone surrogates, in keys too, replaced by U+FFFD; the value itself when it has none. */
export function wellFormedJson<Value>(value: Value): Value {
  const json = JSON.stringify(value);
  if (!json?.includes("\\ud")) return value;
  return JSON.parse(json.replace(ESCAPE, (sequence, surrogate) => (surrogate ? "\ufffd" : sequence)));
}
