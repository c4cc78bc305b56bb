import { message } from "./entries/message.ts";
import type { Tree } from "./tree.ts";

/** `"role":"user"` right behind the brace of `message`. Inside of a text the quotation marks would be escaped. */
const ROLE = /"message"\s*:\s*\{\s*"role"\s*:\s*"(\w+)"/;

const decoder = new TextDecoder("latin1");

/**
 * The role of the message in a row; undefined for an entry that is none. Reads no more than the line's beginning, where
 * the role stands in nearly every line; the others are parsed.
 */
export function roleAt(tree: Tree, row: number): string | undefined {
  if (tree.kindAt(row).type !== message.type) return undefined;
  const found = ROLE.exec(decoder.decode(tree.headAt(row)))?.[1];
  if (found !== undefined) return found;
  const entry = tree.entryAt(row);
  const role: unknown = message.is(entry) ? entry.message.role : undefined;
  return typeof role === "string" ? role : undefined;
}
