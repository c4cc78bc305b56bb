import { EspalierError, type EspalierErrorCode } from "@espalier/jsonl-stream";

/** The error of an append that was only for a log as it was seen. */
export const grown = (ref: string): EspalierError =>
  new EspalierError(
    "moved",
    `Another writer appended to ${ref} meanwhile; nothing was written. Look, and try again.`,
  );

const OF_THE_LOG: ReadonlySet<EspalierErrorCode> = new Set([
  "no-header",
  "version",
  "not-found",
  "not-a-file",
  "unreadable",
  "moved",
  "not-loaded",
  "closed",
  "busy",
  "read-only",
  "not-ours",
  "removed",
  "changed",
  "shrunk",
  "short-write",
  "write-failed",
  "sync-failed",
  "queue-full",
] satisfies EspalierErrorCode[]);

/** Whether a value is an error of the log itself: it cannot be read or written, whatever the caller does next. */
export const isLogError = (thrown: unknown): thrown is EspalierError =>
  thrown instanceof EspalierError && OF_THE_LOG.has(thrown.code);
