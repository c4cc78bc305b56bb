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
 * - `bad-request`: a parameter that cannot be understood
 * - `not-found`: no such session, or no such address
 * - `read-only`: the server was started without `--write`
 * - `forbidden`: a request from another page or under another name
 * - `too-large`: a body of more than 1 MiB
 * - `port`: the port is taken
 * - `page`: the built page is not there
 */
export type ViewerErrorCode =
  | "bad-request"
  | "not-found"
  | "read-only"
  | "forbidden"
  | "too-large"
  | "port"
  | "page";
