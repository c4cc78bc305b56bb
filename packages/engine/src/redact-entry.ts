import type { ThinkingBlock } from "@espalier/session-tree";
import { redactText } from "./redact-text.ts";

/** Takes secrets out of a text. */
export type Redactor = (text: string) => string;

/** Names by which others refer to something, and what a provider signed: changing them would break more than it hides. */
const UNTOUCHED: ReadonlySet<string> = new Set([
  "type",
  "role",
  "id",
  "parentId",
  "timestamp",
  "targetId",
  "fromId",
  "firstKeptEntryId",
  "toolCallId",
  "customType",
  "mimeType",
  "signature",
  "textSignature",
  "thinkingSignature",
  "thoughtSignature",
]);

/** Deeper than anything that can be written: what is nested further is refused there. */
const DEEPEST = 300;

/**
 * A value with every text in it redacted, keys aside; the same value where there is nothing to hide. Ids, signatures and
 * encoded pictures stay as they are. A thought that holds a secret is left out whole, since its signature stands for
 * every letter of it.
 */
export function redactValue<Value>(value: Value, redact: Redactor = redactText): Value {
  return redacted(value, redact, 0) as Value;
}

function redacted(value: unknown, redact: Redactor, depth: number): unknown {
  if (typeof value === "string") return redact(value);
  if (typeof value !== "object" || value === null || depth > DEEPEST) return value;
  if (Array.isArray(value)) {
    const items = value
      .filter((item) => !isSignedSecret(item, redact))
      .map((item) => redacted(item, redact, depth + 1));
    return items.length === value.length && items.every((item, at) => item === value[at]) ? value : items;
  }
  // Anything but a plain object is refused when it is written.
  if (!isPlain(value)) return value;
  const fields = Object.entries(value);
  const isPicture = typeof value["mimeType"] === "string";
  let isChanged = false;
  const result = fields.map(([key, field]): [string, unknown] => {
    if (UNTOUCHED.has(key) && typeof field === "string") return [key, field];
    if (isPicture && key === "data") return [key, field];
    const changed = redacted(field, redact, depth + 1);
    isChanged ||= changed !== field;
    return [key, changed];
  });
  return isChanged ? Object.fromEntries(result) : value;
}

function isPlain(value: object): value is Record<string, unknown> {
  const prototype = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null;
}

function isSignedSecret(item: unknown, redact: Redactor): boolean {
  const { type, thinking, thinkingSignature } = (item ?? {}) as Partial<ThinkingBlock>;
  if (type !== "thinking" || typeof thinking !== "string" || !thinkingSignature) return false;
  return redact(thinking) !== thinking;
}
