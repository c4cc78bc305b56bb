import { basename } from "node:path";
import type { ListedSession } from "@espalier/engine";
import { columnsOf, plainLine, plainText } from "@espalier/session-tree";

export { columnsOf, cutToColumns, fieldText, plainLine, plainText } from "@espalier/session-tree";

/** A sequence that styles text and has no other effect. */
const STYLING = /(\u001b\[[\d;]*m)/;

/** A text that we have styled, on its way to a person's screen: of what a terminal acts on, its styles alone are left. */
export function styledText(text: string): string {
  if (!text.includes("\u001b")) return plainText(text);
  const parts = text.split(STYLING);
  return parts.map((part, at) => (at % 2 === 1 ? part : plainText(part))).join("");
}

/** At most `length` code points of it, `…` included where something is missing. */
export function cutLine(text: string, length: number): string {
  // No code point has more than two code units: characters after that cannot matter.
  const points = Array.from(text.slice(0, (length + 1) * 2));
  return points.length <= length && points.join("").length === text.length
    ? text
    : `${points.slice(0, length - 1).join("")}…`;
}

/** The text with spaces behind it, so that it takes so many columns. */
export function padToColumns(text: string, columns: number): string {
  return text + " ".repeat(Math.max(0, columns - columnsOf(text)));
}

/** The words by which people know a session: its name, else its first prompt; the file's name where its header is lost. */
export const titleOf = ({ name, firstMessage, id, ref }: ListedSession): string =>
  plainLine(name ?? firstMessage ?? "") || (id === "" ? plainLine(basename(ref)) : "(no prompt yet)");

/** Mark before the title of a session that another one started or was copied to: `└ `, `fork of 1284c080: `; else nothing. */
export const markOfParent = (parent: ListedSession["parent"]): string =>
  !parent
    ? ""
    : parent.kind === "subagent"
      ? "└ "
      : `fork of ${plainLine(parent.sessionId).slice(0, SHORT_ID)}: `;

const SHORT_ID = 8;

/** The last part of the folder that a session worked in. */
export const projectOf = (cwd: string): string => plainLine(cwd.split(/[\\/]/).filter(Boolean).at(-1) ?? "");

/** Returns the time of a session's last entry, ISO 8601; that of its last write when the entry has no valid time. */
export const lastTimeOf = ({ updatedAt, modified }: Pick<ListedSession, "updatedAt" | "modified">): string =>
  updatedAt !== null && !Number.isNaN(Date.parse(updatedAt)) ? updatedAt : modified;
