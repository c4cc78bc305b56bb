import type { Session } from "@espalier/engine";
import { createId, custom, isCustom, message, type NewEntry, rowsOf } from "@espalier/session-tree";

/** The `customType` of input that waits for its turn. */
export const QUEUED = "espalier.queued";

interface QueuedInput {
  /** The id that the message will have: once an entry has it, the input was delivered. */
  entryId: string;
  text: string;
}

/**
 * Input that was typed while something was going on: in the log at once, delivered once and in order. What was not
 * delivered when a process ended waits when the session is opened again.
 */
export class InputQueue {
  readonly #session: Session;
  #waiting: QueuedInput[];

  constructor(session: Session) {
    this.#session = session;
    this.#waiting = undelivered(session);
  }

  get length(): number {
    return this.#waiting.length;
  }

  /** Answers when the input is on disk. */
  async add(text: string): Promise<void> {
    const entryId = createId();
    await this.#session.append(
      custom.of({ customType: QUEUED, data: { message: { role: "user", content: text }, entryId } }),
      { durability: "fsync" },
    );
    this.#waiting.push({ entryId, text });
  }

  /** The messages that wait, to be appended: their ids make sure that each counts once. */
  take(): NewEntry[] {
    const taken = this.#waiting;
    this.#waiting = [];
    return taken.map(({ entryId, text }) =>
      message.of({ id: entryId, message: { role: "user", content: text, timestamp: Date.now() } }),
    );
  }
}

function undelivered(session: Session): QueuedInput[] {
  return [...rowsOf(session.tree, custom.type)].flatMap(([, entry]) => {
    if (!isCustom(entry, QUEUED)) return [];
    const { entryId, message } = (entry.data ?? {}) as { entryId?: unknown; message?: { content?: unknown } };
    if (typeof entryId !== "string" || typeof message?.content !== "string" || session.tree.has(entryId))
      return [];
    return [{ entryId, text: message.content }];
  });
}
