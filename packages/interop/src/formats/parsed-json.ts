/** The JSON value in a text; undefined where there is none. */
export function parsedJson(text: unknown): unknown {
  if (typeof text !== "string") return undefined;
  try {
    return JSON.parse(text);
  } catch {
    return undefined; // no JSON: the caller keeps the text as it is, and says so
  }
}
