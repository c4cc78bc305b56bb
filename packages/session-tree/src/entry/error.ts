import { EspalierError, type EspalierErrorCode, type LeaseHolder } from "@espalier/jsonl-stream";

/** Error `moved` of an append with `ifUnchanged` to a log that has grown. */
export const grown = (ref: string): EspalierError =>
  new EspalierError(
    "moved",
    `Another writer appended to ${ref} in the meantime; nothing was written. Read the new entries, and try again.`,
  );

/** Error `moved` of an append that required the leaf `from`, when the leaf is `leafId`. */
export const moved = (from: string | null, leafId: string | null): EspalierError =>
  new EspalierError(
    "moved",
    `The leaf is ${JSON.stringify(leafId)} now, not ${JSON.stringify(from)}; nothing was written. Open the session again to continue from there.`,
    { leafId },
  );

/** Returns an error with one more sentence in its message. */
export const withSentence = (error: EspalierError, sentence: string): EspalierError =>
  new EspalierError(error.code, `${error.message} ${sentence}`, { ...error, cause: error });

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

/** Returns whether a thrown value is an error of the log itself: the log cannot be read or written, or has moved. */
export const isLogError = (thrown: unknown): thrown is EspalierError =>
  thrown instanceof EspalierError && OF_THE_LOG.has(thrown.code);

/** Error `closed` of a write to a closed log. */
export const closedError = (): EspalierError =>
  new EspalierError("closed", "The session was closed; open it again to write.");

/** Error `read-only` of a write to a log that was opened for reading. */
export const readOnlyError = (what = "The session"): EspalierError =>
  new EspalierError("read-only", `${what} was opened for reading; open it for writing.`);

/** Error `exists` of a new session whose id is taken. `place` describes the other session, for the message. */
export const idTakenError = (id: string, place = ""): EspalierError =>
  new EspalierError(
    "exists",
    `A session with the id ${id} already exists${place && `, ${place}`}; open it, or leave the id out to get a fresh one.`,
  );

/** Error `busy` of a session whose lease another writer holds. A holder with `pid` 0 is in this process. */
export function busyError(
  ref: string,
  holder: LeaseHolder,
  { act = "written", cure = "or end that process" }: { act?: string; cure?: string } = {},
): EspalierError {
  const { pid, host, since } = holder;
  const by = pid > 0 ? ` by process ${pid} on ${host}` : "";
  const message = `${ref} is being ${act}${by}${since && ` since ${since}`}; read it only, fork it, ${pid > 0 ? `share it, ${cure}` : "share it, or close it"}.`;
  return new EspalierError("busy", message, { holder });
}
