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
  /** Input of this process that is not delivered: a compaction may hide it from the window. */
  readonly #said = new Set<Entry>();
  #adding = 0;
  #added: Promise<unknown> = Promise.resolve();

  constructor(session: Session) {
    this.#session = session;
  }

  /** Input that waits on the leaf's path. */
  get waiting(): QueuedInput[] {
    const { id, log } = this.#session;
    const { entries } = this.#session.window;
    const isHidden = ({ id }: Entry) =>
      !entries.some((entry) => entry.id === id) && (!log.view || this.#session.isOnPath(id));
    return [...[...this.#said].filter(isHidden), ...entries]
      .flatMap((entry) => queuedInput(entry, id) ?? [])
      .filter(({ entryId }) => !this.#isDelivered(entryId));
  }

  /** True while an input is being written. */
  get isAdding(): boolean {
    return this.#adding > 0;
  }

  /** True where nothing waits and nothing is being written. */
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
    for (const entry of await adding) this.#said.add(entry);
  }

  /**
   * Waits for input that is being written. Where input waits in a remote log, loads all of the log,
   * which alone shows input that was delivered on another branch.
   */
  async settled(): Promise<void> {
    await this.#added;
    if (!this.#session.log.view && this.waiting.length > 0) await this.#session.load();
  }

  /** Waiting input as messages to append: their ids make sure that each counts once. */
  toDeliver(): NewEntry[] {
    return this.waiting.map(({ entryId, text }) =>
      message.of({ id: entryId, message: { role: "user", content: text, timestamp: Date.now() } }),
    );
  }

  /** Forgets what was delivered by these entries. */
  delivered(entries: readonly Entry[]): void {
    const ids = new Set(entries.map(({ id }) => id));
    for (const entry of this.#said)
      if (ids.has(queuedInput(entry, this.#session.id)?.entryId ?? "")) this.#said.delete(entry);
  }

  #isDelivered(entryId: string): boolean {
    const session = this.#session;
    return session.log.view
      ? session.tree.has(entryId)
      : session.window.entries.some(({ id }) => id === entryId);
  }
}

/** Undefined for other entries, and for input of the session that this one was forked from. */
function queuedInput(entry: Entry, session: string): QueuedInput | undefined {
  if (!isCustom(entry, QUEUED)) return undefined;
  const { sessionId, entryId, text } = (entry.data ?? {}) as Record<string, unknown>;
  if (sessionId !== session || typeof entryId !== "string" || typeof text !== "string") return undefined;
  return { entryId, text };
}
