import { parseLine, salvageLine } from "@espalier/jsonl-stream";
import type { Entry } from "./entry.ts";
import { hasMark } from "./glue-marks.ts";
import { parseHeader, type SessionHeader } from "./session-header.ts";

/** What a line of a log turned out to be. Every line that is not blank is exactly one of the other three. */
export type SessionLine =
  | { is: "blank" }
  | { is: "header"; header: SessionHeader }
  /** `from` is where the entry begins within the line: not 0 when it was found behind a torn one. */
  | { is: "entry"; entry: Entry; from: number }
  /** `message` is a sentence without its full stop: what is lost is said behind it. */
  | { is: "corrupt"; message: string };

/** Parses and judges one line. Its bytes are the line without the newline. */
export function readSessionLine(bytes: Uint8Array): SessionLine {
  const parsed = parseLine(bytes);
  if (parsed.ok) return judge(parsed.value, 0);
  if (parsed.problem.kind === "blank") return { is: "blank" };
  const salvaged = salvageLine(bytes);
  // Only with the mark that readers look for without parsing, so that all of them see the same entries.
  if (salvaged && hasMark(bytes.subarray(salvaged.start))) {
    const line = judge(salvaged.value, salvaged.start);
    if (line.is === "entry") return line;
  }
  return { is: "corrupt", message: parsed.problem.message.replace(/\.$/, "") };
}

function judge(value: unknown, from: number): SessionLine {
  const header = parseHeader(value);
  if (header) return { is: "header", header };
  const problem = shapeProblem(value);
  return problem
    ? { is: "corrupt", message: problem }
    : { is: "entry", entry: normalize(value as Entry), from };
}

/** What keeps a parsed value from being an entry at all; what a known kind lacks is for `problem` of the kind. */
function shapeProblem(value: unknown): string | undefined {
  if (typeof value !== "object" || value === null || Array.isArray(value))
    return "The line is not a JSON object";
  const { id, type, parentId } = value as Partial<Entry>;
  if (typeof type !== "string") return "The line has no `type`";
  if (typeof id !== "string" || id === "") return "The line has no `id`";
  if (parentId !== undefined && parentId !== null && typeof parentId !== "string")
    return "The `parentId` is neither an id nor null";
  return undefined;
}

/** A missing parent is that of a root, and a time that is no text is none. */
function normalize(entry: Entry): Entry {
  const { parentId, timestamp } = entry as Partial<Entry>;
  if (parentId !== undefined && typeof timestamp === "string") return entry;
  return { ...entry, parentId: parentId ?? null, timestamp: typeof timestamp === "string" ? timestamp : "" };
}
