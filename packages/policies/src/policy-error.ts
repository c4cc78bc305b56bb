/**
 * What can go wrong with a policy, by name.
 *
 * - `settings`: settings that contradict each other or are out of range; `keys` names them
 * - `no-storage`: results are to be moved to files, and there is no place for them
 */
export type PolicyErrorCode = "settings" | "no-storage";

/** The one error class of this package. */
export class PolicyError extends Error {
  override readonly name = "PolicyError";
  readonly code: PolicyErrorCode;
  /** The settings it is about. */
  readonly keys: readonly string[];
  constructor(
    code: PolicyErrorCode,
    message: string,
    options: ErrorOptions & { keys?: readonly string[] } = {},
  ) {
    super(message, options);
    this.code = code;
    this.keys = options.keys ?? [];
  }
}
