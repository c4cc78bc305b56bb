/** A failure as pages are told of it: by code to programs, by a sentence to people. */
export interface FailureAnswer {
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

export function failureAnswer(error: unknown): FailureAnswer {
  const { code: given, message } =
    error instanceof Error ? (error as Error & { code?: unknown }) : { code: "", message: String(error) };
  const code = typeof given === "string" && given !== "" ? given : "internal";
  return { status: Object.hasOwn(STATUS, code) ? STATUS[code]! : 500, error: { code, message } };
}
