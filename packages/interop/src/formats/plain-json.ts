/** Deeper values cannot be written into a session: its lines are at most 256 deep, and blocks stand inside a message. */
const DEEPEST = 200;

/** How many bytes are turned into characters by one call: a call's arguments are limited. */
const CHUNK = 32_768;

/**
 * What was handed over from outside as plain JSON that a session can keep: well-formed Unicode, addresses as text, bytes
 * as base64 (a client's messages hold both). `lost` is told of each place whose value no JSON can say: functions,
 * numbers that are none, maps and sets, keys `__proto__`, cycles and whatever is nested deeper than 200.
 */
export function plainJson(value: unknown, lost: (path: string) => void): unknown {
  return plain(value, "", [], lost);
}

/** @param above the containers around the value, from the outside in */
function plain(value: unknown, path: string, above: object[], lost: (path: string) => void): unknown {
  if (typeof value === "string") return value.toWellFormed();
  if (value === null || value === undefined || typeof value === "boolean") return value;
  if (typeof value === "number" && Number.isFinite(value)) return value;
  if (typeof value !== "object" || value instanceof Map || value instanceof Set) {
    lost(path);
    return undefined;
  }
  if (value instanceof URL) return value.href;
  if (value instanceof Date) return Number.isNaN(value.getTime()) ? null : value.toISOString();
  if (value instanceof ArrayBuffer) return base64(new Uint8Array(value));
  if (ArrayBuffer.isView(value))
    return base64(new Uint8Array(value.buffer, value.byteOffset, value.byteLength));
  if (above.length > DEEPEST || above.includes(value)) {
    lost(path);
    return undefined;
  }
  const within = [...above, value];
  if (Array.isArray(value)) {
    // What is lost in a list becomes null, or what follows would shift.
    return Array.from(value, (item, index) => plain(item, `${path}[${index}]`, within, lost) ?? null);
  }
  const copy: Record<string, unknown> = {};
  for (const [key, item] of Object.entries(value)) {
    const place = path === "" ? key : `${path}.${key}`;
    if (key === "__proto__") lost(place);
    else {
      const plainItem = plain(item, place, within, lost);
      if (plainItem !== undefined) copy[key.toWellFormed()] = plainItem;
    }
  }
  return copy;
}

function base64(bytes: Uint8Array): string {
  let binary = "";
  for (let at = 0; at < bytes.length; at += CHUNK)
    binary += String.fromCharCode(...bytes.subarray(at, at + CHUNK));
  return btoa(binary);
}
