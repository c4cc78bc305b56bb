import { createHash } from "node:crypto";
import { type Database, persistently, type ReservedConnection } from "./database.ts";
import { asTroubleOfSession, bytesOfLine, type FetchedLine } from "./lines.ts";

/** How to follow a session. */
export interface FollowOptions {
  /** The first position to tell of; 0 is the header. Default: the end, so that only what is new is told. */
  from?: number;
  /** Ends it. */
  signal?: AbortSignal;
  /** Milliseconds between two looks where no hint comes. Default 1,000. */
  pollMs?: number;
}

/** A line of a session that is followed. */
export interface FollowedLine {
  /** From 0, without gaps. */
  position: number;
  /** Without its end. */
  line: Uint8Array;
}

/** Lines a look brings at the most. */
const PAGE_LINES = 500;

const LOOK = {
  name: "espalier-look",
  text: `SELECT line, raw FROM espalier.line WHERE session = $1 AND position >= $2
    ORDER BY position LIMIT ${PAGE_LINES}`,
};

/**
 * The lines of a session as they come, in order, each once. A hint of the writer ends the wait; a look every `pollMs`
 * finds what no hint told of.
 *
 * @throws EspalierError `unreadable`
 */
export async function* followSession(
  database: Database,
  key: string,
  start: number,
  { signal, pollMs = 1_000 }: FollowOptions,
): AsyncGenerator<FollowedLine> {
  const bell = new Bell(signal);
  let position = start;
  try {
    while (!signal?.aborted) {
      await bell.listen(database, channelOf(key));
      const values = [key, position];
      const lines = await asTroubleOfSession("unreadable", () =>
        persistently(database, () => database.query<FetchedLine>(LOOK, values)),
      );
      for (const line of lines) {
        yield { position, line: bytesOfLine(line) };
        position++;
      }
      if (lines.length < PAGE_LINES) await bell.wait(pollMs);
    }
  } finally {
    await bell.close();
  }
}

/** Wakes whoever waits for a hint. */
class Bell {
  #connection: ReservedConnection | undefined;
  #hasRung = false;
  #ring: () => void = () => undefined;
  readonly #signal: AbortSignal | undefined;

  constructor(signal: AbortSignal | undefined) {
    this.#signal = signal;
    signal?.addEventListener("abort", this.#rings, { once: true });
  }

  /** Listens, if it does not; where that fails there are no hints, and polls find everything. */
  async listen(database: Database, channel: string): Promise<void> {
    if (this.#connection) return;
    try {
      const connection = await database.reserve();
      this.#connection = connection;
      connection.hear(this.#rings);
      void connection.over.then(() => {
        this.#connection = undefined;
      });
      await connection.query({ text: `LISTEN ${channel}` });
      // No hint comes any more: a look, and a new connection.
      void connection.over.then(this.#rings);
    } catch {
      // A hint only saves time. What really keeps us from the database is told by the look that follows.
      await this.#connection?.release();
    }
  }

  async wait(milliseconds: number): Promise<void> {
    if (!this.#hasRung && !this.#signal?.aborted) {
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, milliseconds);
        this.#ring = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    }
    this.#hasRung = false;
  }

  async close(): Promise<void> {
    this.#signal?.removeEventListener("abort", this.#rings);
    await this.#connection?.release();
    this.#connection = undefined;
  }

  readonly #rings = (): void => {
    this.#hasRung = true;
    this.#ring();
  };
}

/** The channel on which appends to a session are hinted at; it tells nobody whose session it is. */
export function channelOf(key: string): string {
  return `espalier_${createHash("sha256").update(key).digest("hex").slice(0, 32)}`;
}

/**
 * Hints to those who follow sessions, sent behind the commit and by themselves: a commit that notifies waits for all
 * others that do, and would take the disk from one another. A hint that is lost costs the one who waits a poll.
 */
export class Hints {
  readonly #database: Database;
  readonly #waiting = new Set<string>();
  #sending: Promise<void> | undefined;

  constructor(database: Database) {
    this.#database = database;
  }

  give(channel: string): void {
    this.#waiting.add(channel);
    this.#sending ??= this.#send();
  }

  /** Answers when what was given is sent, or lost. */
  async settle(): Promise<void> {
    await this.#sending;
  }

  async #send(): Promise<void> {
    // Appends that follow one another at once give one hint.
    await undefined;
    for (const channel of this.#waiting) {
      this.#waiting.delete(channel);
      // Lost with the connection: those who wait poll.
      await this.#database
        .query({ name: "espalier-hint", text: "SELECT pg_notify($1, '')" }, [channel])
        .catch(() => undefined);
    }
    this.#sending = undefined;
  }
}
