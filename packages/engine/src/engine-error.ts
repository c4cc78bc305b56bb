/**
 * What can go wrong above the tree, by name.
 *
 * - `nothing-to-undo`: no navigation and no prompt to take back
 * - `confirm`: something that cannot be taken back was not confirmed
 * - `not-text`: a label or name that is no text
 * - `cancelled`: an extension forbade it
 * - `nothing-to-merge`: the other branch has nothing that is not here
 * - `bad-input`: what was given cannot be understood
 */
export type EngineErrorCode =
  | "nothing-to-undo"
  | "confirm"
  | "cancelled"
  | "nothing-to-merge"
  | "not-text"
  | "bad-input";

/** The one error class of this package; trouble with a log or an entry is a `SessionTreeError`. */
export class EngineError extends Error {
  override readonly name = "EngineError";
  readonly code: EngineErrorCode;
  constructor(code: EngineErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}
