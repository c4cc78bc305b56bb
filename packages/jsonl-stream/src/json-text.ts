/**
 * JSON text as `JSON.stringify` writes it, also of a value that is nested too deep for it: reading a line works at any depth,
 * and what was read can be printed. Too deep a value is written without spaces. Empty for a value that JSON does not have.
 *
 * @param space spaces of an indent; without it all stands on one line
 */
export function jsonText(value: unknown, space?: number): string {
  try {
    return JSON.stringify(value, null, space) ?? "";
  } catch (error) {
    // The engine's stack ends at a depth of about 4,000.
    if (!(error instanceof RangeError)) throw error;
    return deepJsonText(value);
  }
}

/** An array or object that is being written. */
interface OpenValue {
  value: Readonly<Record<string, unknown>>;
  keys: readonly string[];
  at: number;
  isArray: boolean;
}

/** The same without recursion, for values that came out of a parser. */
function deepJsonText(whole: unknown): string {
  let text = "";
  const open: OpenValue[] = [];
  const write = (value: unknown) => {
    if (typeof value !== "object" || value === null) {
      text += JSON.stringify(value) ?? "null";
      return;
    }
    const isArray = Array.isArray(value);
    const fields = value as Record<string, unknown>;
    const keys = Object.keys(fields).filter((key) => isArray || fields[key] !== undefined);
    text += isArray ? "[" : "{";
    open.push({ value: fields, keys, at: 0, isArray });
  };
  write(whole);
  for (let last = open.at(-1); last; last = open.at(-1)) {
    const key = last.keys[last.at];
    if (key === undefined) {
      text += last.isArray ? "]" : "}";
      open.pop();
      continue;
    }
    if (last.at++ > 0) text += ",";
    if (!last.isArray) text += `${JSON.stringify(key)}:`;
    write(last.value[key]);
  }
  return text;
}
