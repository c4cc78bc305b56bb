import type { ImportIssue } from "../import-issue.ts";

/** What became of one session of another agent. */
export interface ImportReport {
  /** The file it was read from. */
  source: string;
  agent: string | null;
  /** Where it is kept here; null when nothing was written. */
  file: string | null;
  /** Its id here. */
  sessionId: string | null;
  /** `unchanged`: all of it was here already. `skipped`: there was nothing to import, the issues say why. */
  status: "created" | "updated" | "unchanged" | "skipped";
  /** Entries of the session here, those that were added since included. */
  entries: number;
  /** Entries that this import wrote. */
  added: number;
  branches: number;
  compactions: number;
  /** What could not be mapped and why, and what was mapped in another way than it stood. */
  issues: ImportIssue[];
}

/** The report of a file that gave nothing. */
export function skippedReport(source: string, agent: string | null, issues: ImportIssue[]): ImportReport {
  return {
    source,
    agent,
    file: null,
    sessionId: null,
    status: "skipped",
    entries: 0,
    added: 0,
    branches: 0,
    compactions: 0,
    issues,
  };
}
