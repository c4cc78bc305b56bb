import { childOf, type Place, showPlace } from "./json-place.ts";
import { JsonlError } from "./jsonl-error.ts";

/** What a line to write may be. */
export interface LineLimits {
  /** Arrays and objects inside each other. Default 256: `JSON.stringify` itself fails at about 4,000. */
  depth?: number;
  /** Bytes of the encoded line, without its newline. Default 16 MiB. */
  bytes?: number;
}

/** The limits where none are given. */
export const LINE_LIMITS: Required<LineLimits> = { depth: 256, bytes: 16 * 1024 * 1024 };

/**
 * Checks that `JSON.stringify` loses or changes nothing of a value (except object keys with value `undefined`
 * and symbol keys, which it leaves out), that no object has an own key `__proto__`, and that the depth is within
 * the limit. It does not recurse, and stops as soon as the text must exceed `bytes`, so that neither a cycle nor
 * an object that is referred to again and again keeps it busy. What it cannot see is the length in bytes.
 *
 * @throws JsonlError `not-json` or `too-deep`, naming the key path; `line-too-long` when that is already sure
 */
export function checkJson(value: unknown, limits: LineLimits = {}): void {
  const { depth = LINE_LIMITS.depth, bytes = LINE_LIMITS.bytes } = limits;
  const open: Place[] = [];
  // What the values seen so far take of the text at least.
  let size = 0;

  const see = (item: unknown, parent: Place | null, key: string | number): void => {
    if (typeof item === "string") size += item.length + 2;
    else if (typeof item !== "object" || item === null) {
      if (!isScalar(item)) throw notJson(item, parent, key);
      size += 1;
    } else {
      const place = childOf(parent, key, item);
      if (place.depth > depth) {
        throw new JsonlError(
          "too-deep",
          `${showPlace(parent, key)} is nested deeper than ${depth}, or in itself; flatten it.`,
        );
      }
      // The opening bracket: the closing one is counted as if it were a comma behind the last item.
      size += 1;
      open.push(place);
    }
    if (size > bytes) throw lineTooLong(bytes);
  };

  see(value, null, "");
  for (let place = open.pop(); place !== undefined; place = open.pop()) {
    const { container } = place;
    if (Array.isArray(container)) {
      size += container.length;
      for (let index = 0; index < container.length; index += 1) see(container[index], place, index);
    } else if (isPlainObject(container)) {
      for (const key of Object.keys(container)) {
        const item = container[key];
        if (item === undefined) continue;
        if (key === "__proto__") throw protoKey(place);
        size += key.length + 4;
        see(item, place, key);
      }
    } else {
      throw notJson(container, place.parent, place.key);
    }
  }
}

/** The error for a line beyond the limit, which is `bytes`. */
export function lineTooLong(bytes: number): JsonlError {
  return new JsonlError(
    "line-too-long",
    `The line is longer than ${bytes} bytes; shorten it or raise the limit.`,
  );
}

function isScalar(item: unknown): boolean {
  return item === null || typeof item === "boolean" || Number.isFinite(item);
}

/** Object literals, objects without prototype, and object literals of another realm. */
function isPlainObject(container: object): container is Record<string, unknown> {
  const prototype = Object.getPrototypeOf(container);
  if (prototype === Object.prototype || prototype === null) return true;
  return Object.getPrototypeOf(prototype) === null && Object.hasOwn(prototype, "isPrototypeOf");
}

function notJson(item: unknown, parent: Place | null, key: string | number): JsonlError {
  const kind =
    typeof item === "object" ? `an instance of ${item?.constructor?.name || "a class"}` : nameOf(item);
  return new JsonlError(
    "not-json",
    `${showPlace(parent, key)} is ${kind}, which JSON cannot hold; convert it first.`,
  );
}

function nameOf(item: unknown): string {
  return typeof item === "number" || item === undefined ? String(item) : `a ${typeof item}`;
}

function protoKey(place: Place): JsonlError {
  const where = showPlace(place, "__proto__");
  return new JsonlError(
    "not-json",
    `${where} is an own key that naive readers take for a prototype; rename it.`,
  );
}
