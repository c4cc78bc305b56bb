import { formatLine, parseLine } from "@espalier/jsonl-stream";
import { parseHeader, type SessionHeader } from "./session-header.ts";
import { SessionTreeError } from "./session-tree-error.ts";

/** The line of a header, which may be given as that line, to be kept as it is. Throws JsonlError for one that is no JSON. */
export function headerLine(header: SessionHeader | string): string {
  return typeof header === "string" ? header : formatLine(header);
}

/** A header that may be given as its line. Throws `invalid-entry` for a line that is none. */
export function parsedHeader(header: SessionHeader | string): SessionHeader {
  if (typeof header !== "string") return header;
  const line = parseLine(new TextEncoder().encode(header));
  const parsed = line.ok ? parseHeader(line.value) : undefined;
  if (parsed) return parsed;
  throw new SessionTreeError("invalid-entry", "The first line of a session has to be its header.");
}
