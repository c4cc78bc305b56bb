/** The code of an error of the operating system (`ENOENT`, …), or undefined for any other error. */
export function systemCode(error: unknown): string | undefined {
  return error instanceof Error && "code" in error && typeof error.code === "string" ? error.code : undefined;
}

/** How often an interrupted call is made again: enough for any burst of signals, and no endless loop. */
const ATTEMPTS = 100;

/** Makes a call again that a signal interrupted before it did anything. */
export function uninterrupted<T>(call: () => T): T {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return call();
    } catch (error) {
      const code = systemCode(error);
      if ((code !== "EINTR" && code !== "EAGAIN") || attempt === ATTEMPTS) throw error;
    }
  }
}
