import { basename } from "node:path";
import type { SearchHit } from "@espalier/engine";
import { plainLine } from "../plain-text.ts";
import type { Shell } from "../shell.ts";

/** Ids and file names are named by so much of them. */
const NAME_LENGTH = 12;

/** One line for what was found: which session, which entry, and the words around it. */
export function viewHit(
  { file, sessionId, entryId, role, snippet, onPath }: SearchHit,
  { colours }: Pick<Shell, "colours">,
): string {
  const session = (sessionId === "" ? basename(file) : sessionId).slice(0, NAME_LENGTH);
  const place = colours.dim(`${plainLine(session)}  ${plainLine(entryId)}`);
  const mark = onPath ? "" : colours.dim(" (another branch)");
  return `${place}  ${colours.cyan(plainLine(role))}${mark}  ${plainLine(snippet)}`;
}
