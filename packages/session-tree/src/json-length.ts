/** Length of a value's JSON text in UTF-16 code units, also of a value that is nested too deep to be written. */
export function jsonLength(value: unknown): number {
  try {
    return JSON.stringify(value)?.length ?? 0;
  } catch (error) {
    // The engine's stack ends at a depth of about 4,000; reading such a line works at any depth.
    if (!(error instanceof RangeError)) throw error;
    return lengthOfParts(value);
  }
}

/** The same without recursion, for values that came out of a parser. */
function lengthOfParts(whole: unknown): number {
  let length = 0;
  const open: unknown[] = [whole];
  while (open.length > 0) {
    const value = open.pop();
    if (typeof value !== "object" || value === null) {
      length += JSON.stringify(value)?.length ?? 0;
      continue;
    }
    const isArray = Array.isArray(value);
    const keys = Object.keys(value);
    // Brackets, and commas between what they hold.
    length += 2 + Math.max(0, keys.length - 1);
    for (const key of keys) {
      if (!isArray) length += JSON.stringify(key).length + 1;
      open.push((value as Record<string, unknown>)[key]);
    }
  }
  return length;
}
