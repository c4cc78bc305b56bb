import { JsonlError } from "../jsonl-error.ts";
import { isNoFolder, systemCode, uninterrupted } from "./system-error.ts";

/** Makes a call, again where a signal interrupted it, whose failure means that the file at `path` is not written. */
export function writingCall<T>(path: string, call: () => T): T {
  try {
    return uninterrupted(call);
  } catch (error) {
    if (error instanceof JsonlError) throw error;
    const code = systemCode(error);
    if (code === "EEXIST") throw alreadyThere(path, error);
    if (isNoFolder(error))
      throw new JsonlError("not-found", `There is no folder for ${path}; create it first.`, error);
    const cure = "check the rights of its folder, and the room there is";
    throw new JsonlError(
      "write-failed",
      `${path} could not be written (${code ?? "see cause"}); ${cure}.`,
      error,
    );
  }
}

/** The error for a name that is taken. */
function alreadyThere(path: string, cause?: unknown): JsonlError {
  return new JsonlError("exists", `${path} is already there and was left alone; choose another name.`, cause);
}
