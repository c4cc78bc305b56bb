import type { FormatIssues } from "../formats/format-issue.ts";

/** A line of a file, parsed. */
export type Line = Record<string, unknown>;

/** What reading messages needs to know of those before, and where it tells what it could not read. */
export interface Hearing {
  content: FormatIssues;
  /** The name of the tool that a call asked for. */
  toolName(callId: string): string | undefined;
  /** The model that answered last: an answer that the agent itself wrote has to name one too. */
  model: string;
}
