import type { Entry } from "./entry.ts";

/** What an entry of any kind says by itself: its fields without `type` and those that the log fills in. */
export function entryFields(entry: Entry): Record<string, unknown> {
  const { type: _type, id: _id, parentId: _parentId, timestamp: _timestamp, ...fields } = entry;
  return fields;
}
