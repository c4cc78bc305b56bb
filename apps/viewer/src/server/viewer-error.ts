import { hostname } from "node:os";
import type { EspalierError } from "@espalier/jsonl-stream";

/** The one error class of the viewer. */
export class ViewerError extends Error {
  override readonly name = "ViewerError";
  readonly code: ViewerErrorCode;
  constructor(code: ViewerErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

/**
 * - `bad-request`: an invalid parameter
 * - `not-found`: the session or the address does not exist
 * - `read-only`: the server was started without `--write`
 * - `forbidden`: a request from another page or to another host name
 * - `too-large`: a body of more than 1 MiB
 * - `port`: the port cannot be used, usually because another program uses it
 * - `page`: the built page is missing
 */
export type ViewerErrorCode =
  | "bad-request"
  | "not-found"
  | "read-only"
  | "forbidden"
  | "too-large"
  | "port"
  | "page";

/** An error as pages receive it: a code for programs, a sentence for people. */
interface FailureAnswer {
  status: 400 | 403 | 404 | 409 | 413 | 500;
  error: { code: string; message: string };
}

const STATUS: Readonly<Record<string, FailureAnswer["status"]>> = {
  "bad-request": 400,
  "bad-input": 400,
  "invalid-entry": 400,
  "not-text": 400,
  forbidden: 403,
  "read-only": 403,
  "not-found": 404,
  "unknown-entry": 404,
  "too-large": 413,
  busy: 409,
  cancelled: 409,
  stale: 409,
  "already-running": 409,
};

/** The session's own sentence names cures of a program, such as to close a session that is open in this process. */
const OURS = "Another change of this session is running; wait until it ends, or stop it.";

export function failureAnswer(error: unknown): FailureAnswer {
  const failure: Error & { code?: unknown; holder?: EspalierError["holder"] } =
    error instanceof Error ? error : new Error(String(error));
  const code = typeof failure.code === "string" && failure.code !== "" ? failure.code : "internal";
  const { holder } = failure;
  const isOurs = holder?.pid === process.pid && holder.host === hostname();
  const message = isOurs ? OURS : failure.message;
  return { status: Object.hasOwn(STATUS, code) ? STATUS[code]! : 500, error: { code, message } };
}
