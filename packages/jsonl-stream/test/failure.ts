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

/** The error a promise is rejected with; anything but one of this package, or nothing, fails the test. */
export async function rejection(promised: Promise<unknown>): Promise<EspalierError> {
  const [outcome] = await Promise.allSettled([promised]);
  return failure(() => {
    if (outcome!.status === "rejected") throw outcome!.reason;
  });
}
