/** The code of an error of the operating system (`ENOENT`, …), or undefined for any other error. */
export function systemCode(error: unknown): string | undefined {
  return error instanceof Error && "code" in error && typeof error.code === "string" ? error.code : undefined;
}

/** A signal can interrupt a call before it did anything; then it is simply made again. Bounded, so as never to spin. */
export function uninterrupted<T>(call: () => T, attempts = 100): T {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return call();
    } catch (error) {
      const code = systemCode(error);
      if ((code !== "EINTR" && code !== "EAGAIN") || attempt >= attempts) throw error;
    }
  }
}
