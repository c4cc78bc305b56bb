import { createHash } from "node:crypto";
import type { Database } from "./database.ts";

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
