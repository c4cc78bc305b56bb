import type { SessionTree } from "@espalier/session-tree";

interface Cached<Opened> {
  session: Promise<Opened>;
  /** Number of readers; a session without readers may be closed. */
  readers: number;
}

/** Sessions that stay open between reads, by a key. A session is never closed during a read. */
export class SessionCache<Opened extends SessionTree> {
  readonly #most: number;
  readonly #cached = new Map<string, Cached<Opened>>();

  /**
   * @param most maximum number of open sessions: above it, the least recently used ones without readers are closed
   */
  constructor(most: number) {
    this.#most = most;
  }

  /**
   * Reads from the current state of a session, with entries that others appended. Opens the session if necessary, and
   * again if its file was replaced.
   * @throws errors of `open` and of `read`
   */
  async read<Result>(
    key: string,
    open: () => Promise<Opened>,
    read: (session: Opened) => Result | Promise<Result>,
  ): Promise<Result> {
    // The file may have been replaced or shortened, so it is opened again; if that fails, its error is thrown.
    const cached = await this.#current(key, open).catch(() => this.#current(key, open));
    try {
      return await read(await cached.session);
    } finally {
      await this.#leave(key, cached);
    }
  }

  /** Closes all sessions; a reader gets the error of a closed session. */
  async close(): Promise<void> {
    const cached = [...this.#cached.values()];
    this.#cached.clear();
    await Promise.all(cached.map(closeCached));
  }

  /** Returns the session, loaded and refreshed; opens it if necessary. It becomes the most recently used. */
  async #current(key: string, open: () => Promise<Opened>): Promise<Cached<Opened>> {
    const cached = this.#cached.get(key) ?? { session: open(), readers: 0 };
    cached.readers++;
    this.#cached.delete(key);
    this.#cached.set(key, cached);
    try {
      const session = await cached.session;
      await session.load();
      await session.refresh();
      return cached;
    } catch (error) {
      // Another call may have replaced the cached session already.
      if (this.#cached.get(key) === cached) this.#cached.delete(key);
      await this.#leave(key, cached);
      throw error;
    }
  }

  /**
   * Removes a reader. Closes the session if it was replaced and has no more readers; then the least recently used
   * sessions without readers, until at most `most` are open.
   */
  async #leave(key: string, cached: Cached<Opened>): Promise<void> {
    cached.readers--;
    const ended: Cached<Opened>[] = [];
    if (cached.readers === 0 && this.#cached.get(key) !== cached) ended.push(cached);
    for (const [unread, each] of this.#cached) {
      if (this.#cached.size <= this.#most) break;
      if (each.readers > 0) continue;
      this.#cached.delete(unread);
      ended.push(each);
    }
    await Promise.all(ended.map(closeCached));
  }
}

/** Closes a session when it is open. Does nothing if it could not be opened: its reader got that error. */
async function closeCached({ session }: Cached<SessionTree>): Promise<void> {
  const [opening] = await Promise.allSettled([session]);
  if (opening.status === "fulfilled") await opening.value.close();
}
