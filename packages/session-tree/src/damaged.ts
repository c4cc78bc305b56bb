import type { Entry } from "./entry.ts";
import type { EntryScan } from "./entry-scan.ts";

/** The type of what stands in for an entry whose line can no longer be read. */
export const DAMAGED = "damaged";

/** Holds the place of an entry that was scanned and cannot be parsed: it has its id and its parent, and says nothing. */
export function placeholder(bytes: Uint8Array, scan: EntryScan): Entry {
  return { type: DAMAGED, id: idIn(bytes, scan), parentId: parentIn(bytes, scan), timestamp: "" };
}

export const idIn = (bytes: Uint8Array, { idStart, idEnd }: EntryScan): string =>
  decode(bytes, idStart, idEnd);

const parentIn = (bytes: Uint8Array, { parentStart, parentEnd }: EntryScan): string | null =>
  parentStart < 0 ? null : decode(bytes, parentStart, parentEnd);

const decoder = new TextDecoder();
const decode = (bytes: Uint8Array, start: number, end: number): string =>
  decoder.decode(bytes.subarray(start, end));
