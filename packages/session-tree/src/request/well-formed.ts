import { wellFormedJson } from "@espalier/jsonl-stream";

/**
 * The same JSON value with lone surrogates, in keys too, replaced by U+FFFD; the value itself when it has none. Undefined
 * for a value that is nested too deeply to be written: a line of that depth can be read, a request cannot be sent.
 */
export function wellFormed<Value>(value: Value): Value | undefined {
  if (isWellFormed(value, NEAR)) return value;
  let json: string | undefined;
  try {
    json = JSON.stringify(value);
  } catch (error) {
    // The engine's stack ends at a depth of about 4,000.
    if (!(error instanceof RangeError)) throw error;
    return undefined;
  }
  if (json === undefined) return value;
  const healed = wellFormedJson(json);
  return healed === json ? value : JSON.parse(healed);
}

/** How deep a value is looked at without writing it: deeper than any that a tool is called with. */
const NEAR = 100;

/** Whether every text of a value is well-formed, keys too: a third of what writing it takes. False where that is not sure. */
function isWellFormed(value: unknown, depth: number): boolean {
  if (typeof value === "string") return value.isWellFormed();
  if (typeof value !== "object" || value === null) return true;
  if (depth === 0 || typeof (value as { toJSON?: unknown }).toJSON === "function") return false;
  if (Array.isArray(value)) return value.every((item) => isWellFormed(item, depth - 1));
  for (const key of Object.keys(value))
    if (!key.isWellFormed() || !isWellFormed((value as Record<string, unknown>)[key], depth - 1))
      return false;
  return true;
}
