import { isRecord } from "./record.ts";

/** The JSON object that a signature is; undefined where it is none. */
export function parsedItem(signature: unknown): Record<string, unknown> | undefined {
  if (typeof signature !== "string" || !/^\s*\{/.test(signature)) return undefined;
  try {
    const item: unknown = JSON.parse(signature);
    return isRecord(item) ? item : undefined;
  } catch {
    return undefined; // no JSON, so no item: who asks leaves it out, or as it is
  }
}
