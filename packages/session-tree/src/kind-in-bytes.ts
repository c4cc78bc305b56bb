import { entryKinds } from "./entry-kinds.ts";
import { spells } from "./spells.ts";

const encoder = new TextEncoder();
const typeBytes = entryKinds.map((kind) => encoder.encode(kind.type));
const SESSION = encoder.encode("session");

/** The code of the kind that `bytes[start, end)` spells; 0 for an unknown type, -1 for the type of a header. */
export function kindIn(bytes: Uint8Array, start: number, end: number): number {
  for (let code = 1; code < typeBytes.length; code++)
    if (spells(bytes, start, end, typeBytes[code]!)) return code;
  return spells(bytes, start, end, SESSION) ? -1 : 0;
}
