import { EspalierError } from "@espalier/jsonl-stream";

/** The error a call throws; anything but one of this package, or nothing, fails the test. */
export function failure(run: () => unknown): EspalierError {
  try {
    run();
  } catch (error) {
    if (error instanceof EspalierError) return error;
    throw error;
  }
  throw new Error("Nothing was thrown.");
}
