import { defineEntry, type Entry } from "../entry.ts";

/** State of an extension, or of the core under a `customType` that begins with `espalier.`; folded along the path. */
export interface CustomEntry extends Entry {
  type: "custom";
  /** Whose state it is; see `ExtensionState` of `@espalier/engine`. */
  customType: string;
  /** Anything that JSON can say. */
  data?: unknown;
}

/** The kind of {@link CustomEntry}: on the path, and silent to the model. */
export const custom = defineEntry<CustomEntry>("custom", {
  movesLeaf: true,
  problem: (entry) => (typeof entry.customType !== "string" ? "`customType` is not text" : undefined),
});

/** True for a custom entry of this type. */
export function isCustom(entry: Entry, customType: string): entry is CustomEntry {
  return custom.is(entry) && entry.customType === customType;
}
