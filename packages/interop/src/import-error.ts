/**
 * - `not-found`: no file or folder there
 * - `unreadable`: it is there and cannot be read, see `cause`
 * - `no-room`: what an import has to remember of a long file cannot be written to the folder for temporary files
 */
export type InteropErrorCode = "not-found" | "unreadable" | "no-room";

/** The one error of this package; its message names the cure. What is wrong inside a file is no error, but told in reports. */
export class InteropError extends Error {
  override readonly name = "InteropError";
  readonly code: InteropErrorCode;

  constructor(code: InteropErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}
