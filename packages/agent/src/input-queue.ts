import type { Session } from "@espalier/engine";
import { createId, custom, type Entry, isCustom, message, type NewEntry } from "@espalier/session-tree";

/** The `customType` of input that waits for its turn. */
export const QUEUED = "espalier.queued";

/** Something that was said while a run was going on. */
export interface QueuedInput {
  /** The id that the message will have: once an entry has it, the input was delivered. */
  entryId: string;
  text: string;
}

/**
 * Input that was typed while something was going on: in the log at once, delivered once and in order. The log is all
 * there is to it, so that what a process did not deliver waits on its path when the session is opened again.
 */
export class InputQueue {
  readonly #session: Session;
  #adding = 0;
  #added: Promise<unknown> = Promise.resolve();

  constructor(session: Session) {
    this.#session = session;
  }

  /** What waits on the leaf's path. */
  get waiting(): QueuedInput[] {
    const { id, core } = this.#session;
    return core.window.entries
      .flatMap((entry) => queuedInput(entry, id) ?? [])
      .filter(({ entryId }) => this.#session.getEntry(entryId) === undefined);
  }

  /** Whether something is on its way to the log. */
  get isAdding(): boolean {
    return this.#adding > 0;
  }

  /** Whether nothing waits and nothing is on its way to the log. */
  get isEmpty(): boolean {
    return !this.isAdding && this.waiting.length === 0;
  }

  /** Answers when the input is on disk. */
  async add(text: string): Promise<void> {
    const data = { sessionId: this.#session.id, entryId: createId(), text };
    const adding = this.#session.append(custom.of({ customType: QUEUED, data }), { durability: "fsync" });
    this.#adding++;
    this.#added = adding.then(
      () => this.#adding--,
      () => this.#adding--,
    );
    await adding;
  }

  /** Waits for what is on its way to the log. */
  async settled(): Promise<void> {
    await this.#added;
  }

  /** What waits, as messages to append: their ids make sure that each counts once. */
  toDeliver(): NewEntry[] {
    return this.waiting.map(({ entryId, text }) =>
      message.of({ id: entryId, message: { role: "user", content: text, timestamp: Date.now() } }),
    );
  }
}

/** Undefined for other entries, and for input of the session that this one was forked from. */
function queuedInput(entry: Entry, session: string): QueuedInput | undefined {
  if (!isCustom(entry, QUEUED)) return undefined;
  const { sessionId, entryId, text } = (entry.data ?? {}) as Record<string, unknown>;
  if (sessionId !== session || typeof entryId !== "string" || typeof text !== "string") return undefined;
  return { entryId, text };
}
