// A host's value inside the entry that shows it. It is restored equal, and no long text is written twice.
import { isPlainObject } from "@espalier/jsonl-stream";
import { EspalierError } from "../index.ts";

/** Minimum length of a text that is replaced by its place in the entry, in characters. */
const LONG = 64;

/** Maximum depth of a value that is stored as it is; a deeper one is stored as a JSON string. A line has at most 256 levels. */
const DEEPEST = 200;

/**
 * Prepares a value for an entry. Objects, arrays, strings, numbers, booleans, null and bytes (`Uint8Array`) are restored
 * equal. Members that are undefined are left out.
 *
 * @param shown fields of the entry without the value, such as its message
 * @throws EspalierError `bad-input` for a value that JSON cannot hold
 */
export function storeValue(value: unknown, shown: object): unknown {
  const places: Places = new Map();
  notePlaces(shown, [], places);
  const stored = store(value, places, [], "the value");
  // A JSON string can hold any depth and any name.
  return fitsLine(stored)
    ? stored
    : { [MARK]: "json", text: JSON.stringify(store(value, new Map(), [], "the value")) };
}

/**
 * Returns whether a line of a session can hold a value unchanged: it has no lone surrogate (a session replaces it), no
 * member `__proto__` (a session refuses it) and at most 200 levels (a session refuses more than 256).
 */
export function fitsLine(value: unknown, depth = 0): boolean {
  if (typeof value === "string") return value.isWellFormed();
  if (typeof value !== "object" || value === null) return true;
  if (depth >= DEEPEST) return false;
  return Object.entries(value).every(
    ([name, member]) => name !== "__proto__" && name.isWellFormed() && fitsLine(member, depth + 1),
  );
}

/**
 * Restores a value that {@link storeValue} prepared for an entry with the fields `shown`. Each call returns a new
 * value.
 */
export function restoreValue(stored: unknown, shown: object): unknown {
  if (Array.isArray(stored)) return stored.map((item) => restoreValue(item, shown));
  if (typeof stored !== "object" || stored === null) return stored;
  const { [MARK]: kind, ...marked } = stored as Record<string, unknown>;
  if (kind === "same") return memberAt(shown, marked["at"]);
  if (kind === "text") return JSON.stringify(memberAt(shown, marked["at"]));
  if (kind === "bytes")
    return new Uint8Array(Buffer.from(String(restoreValue(marked["base64"], shown)), "base64"));
  if (kind === "picture") {
    const { mimeType, data } = memberAt(shown, marked["at"]) as Record<string, string>;
    return dataUrl(mimeType, data);
  }
  if (kind === "json") return restoreValue(JSON.parse(String(marked["text"])), shown);
  const fields = kind === "object" ? (marked["fields"] as object) : stored;
  return Object.fromEntries(
    Object.entries(fields).map(([name, field]) => [name, restoreValue(field, shown)]),
  );
}

/** Member that marks an object as a placeholder. A host's object with this member is wrapped in a placeholder. */
const MARK = "$stored";

/**
 * Positions of long texts in the entry, by text. A value with such a text gets a placeholder instead. `kind` is the form in the
 * entry: the `same` text, an object whose JSON is the `text`, or a `picture` whose data address is the text.
 */
type Places = Map<string, { kind: "same" | "text" | "picture"; at: readonly string[] }>;

const dataUrl = (mimeType: unknown, data: unknown): string => `data:${mimeType};base64,${data}`;

const memberAt = (shown: object, at: unknown): unknown =>
  (at as string[]).reduce<unknown>((value, name) => (value as Record<string, unknown>)[name], shown);

function notePlaces(value: unknown, at: readonly string[], places: Places): void {
  const add = (text: string, kind: "same" | "text" | "picture") => {
    if (text.length >= LONG && text.isWellFormed() && !places.has(text)) places.set(text, { kind, at });
  };
  if (typeof value === "string") add(value, "same");
  if (typeof value !== "object" || value === null) return;
  // Hosts store the arguments of a call as a JSON string.
  if (at.at(-1) === "arguments") add(JSON.stringify(value), "text");
  const { type, mimeType, data } = value as Record<string, unknown>;
  if (type === "image") add(dataUrl(mimeType, data), "picture");
  for (const [name, member] of Object.entries(value)) notePlaces(member, [...at, name], places);
}

function store(value: unknown, places: Places, above: readonly object[], name: string): unknown {
  if (typeof value === "string") {
    const place = places.get(value);
    return place ? { [MARK]: place.kind, at: place.at } : value;
  }
  if (value === 0) return 0; // JSON has no -0
  if (value === null || typeof value === "boolean" || Number.isFinite(value)) return value;
  if (value instanceof Uint8Array)
    return { [MARK]: "bytes", base64: store(Buffer.from(value).toString("base64"), places, above, name) };
  if (typeof value !== "object" || above.includes(value)) throw notJson(name);
  const inside = [...above, value];
  if (Array.isArray(value))
    return Array.from(value, (item, at) => store(item, places, inside, `${name}[${at}]`));
  if (!isPlainObject(value)) throw notJson(name);
  const fields = Object.fromEntries(
    Object.entries(value)
      .filter(([, field]) => field !== undefined)
      .map(([field, member]) => [field, store(member, places, inside, `${name}.${field}`)]),
  );
  return Object.hasOwn(fields, MARK) ? { [MARK]: "object", fields } : fields;
}

const notJson = (name: string) =>
  new EspalierError(
    "bad-input",
    `${name.slice(0, 200)} cannot be written as JSON; leave it out or convert it to a text.`,
  );
