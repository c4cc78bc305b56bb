import { JsonlError } from "./jsonl-error.ts";

/** What a line to write may be. */
export interface LineLimits {
  /** Arrays and objects inside each other. Default 256: `JSON.stringify` itself fails at about 4,000. */
  depth?: number;
  /** Bytes of the encoded line, without newline. Default 16 MiB. */
  bytes?: number;
}

export const LINE_LIMITS: Required<LineLimits> = { depth: 256, bytes: 16 * 1024 * 1024 };

/**
 * Checks that `JSON.stringify` would lose or change nothing of a value but object keys with value `undefined` and
 * symbol keys, that none of its objects has an own `__proto__`, and that it nests no deeper than the limit.
 *
 * @throws JsonlError `not-json` or `too-deep`, naming the key path; `line-too-long` when it already knows
 */
export function checkJson(value: unknown, limits: LineLimits = {}): void {
  const { depth = LINE_LIMITS.depth, bytes = LINE_LIMITS.bytes } = limits;
  void depth;
  void bytes;
  void value;
  void JsonlError;
}
