import { JsonlError } from "../jsonl-error.ts";
import type { FileCalls } from "./file-calls.ts";
import { systemCode } from "./system-error.ts";

/** Closes a descriptor, which is gone afterwards whatever the system says; a signal in between changes nothing. */
export function closeFile(path: string, fd: number, calls: FileCalls): void {
  try {
    calls.closeSync(fd);
  } catch (error) {
    const code = systemCode(error);
    if (code === "EINTR") return;
    const message = `${path} could not be closed (${code ?? "see cause"}); what was not synced may be lost.`;
    throw new JsonlError("write-failed", message, error);
  }
}
