/** The code of an error of the operating system (`ENOENT`, …), or undefined for any other error. */
export function systemCode(error: unknown): string | undefined {
  return error instanceof Error && "code" in error && typeof error.code === "string" ? error.code : undefined;
}

/** True when a folder of the path is missing, or is a file. */
export function isNoFolder(error: unknown): boolean {
  const code = systemCode(error);
  return code === "ENOENT" || code === "ENOTDIR";
}

/** How often an interrupted call is made again: enough for any burst of signals, and no endless loop. */
const ATTEMPTS = 100;

/** True for a call that did nothing and may be made again. */
const isInterrupted = (error: unknown): boolean => {
  const code = systemCode(error);
  return code === "EINTR" || code === "EAGAIN";
};

/** Makes a call again that a signal interrupted before it did anything. */
export function uninterrupted<T>(call: () => T): T {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return call();
    } catch (error) {
      if (!isInterrupted(error) || attempt === ATTEMPTS) throw error;
    }
  }
}

/** As {@link uninterrupted}, for a call on another thread. */
export async function uninterruptedAsync<T>(call: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await call();
    } catch (error) {
      if (!isInterrupted(error) || attempt === ATTEMPTS) throw error;
    }
  }
}
