import type { Session } from "@espalier/engine";
import { createId, custom, type Entry, isCustom, message, type NewEntry } from "@espalier/session-tree";

/** The `customType` of queued input. */
export const QUEUED = "espalier.queued";

/** Input that a user gave during a run. */
export interface QueuedInput {
  /** Id of the future message. The input is delivered when an entry has this id. */
  entryId: string;
  text: string;
}

/**
 * Input that a user gave during a run. It is written to the log at once, and delivered once and in order. The queue has
 * no other storage, so input that a process did not deliver is found again when the session is opened.
 */
export class InputQueue {
  readonly #session: Session;
  /** Input of this process that is not delivered. A compaction can hide it from the window. */
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

  /** True while input is being written. */
  get isAdding(): boolean {
    return this.#adding > 0;
  }

  /** True when no input is waiting or being written. */
  get isEmpty(): boolean {
    return !this.isAdding && this.waiting.length === 0;
  }

  /** Adds input. Resolves when it is on disk. */
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
   * Waits for input that is being written. If input waits in a remote log, loads the whole log, because only the whole
   * log shows input that was delivered on another branch.
   */
  async settled(): Promise<void> {
    await this.#added;
    if (!this.#session.log.view && this.waiting.length > 0) await this.#session.load();
  }

  /** Returns waiting input as messages to append. Their ids ensure that each is delivered once. */
  toDeliver(): NewEntry[] {
    return this.waiting.map(({ entryId, text }) =>
      message.of({ id: entryId, message: { role: "user", content: text, timestamp: Date.now() } }),
    );
  }

  /** Removes the input that these entries deliver. */
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

/**
 * Returns the queued input of an entry; undefined for other entries, and for input of the session from which this one
 * was forked.
 */
function queuedInput(entry: Entry, session: string): QueuedInput | undefined {
  if (!isCustom(entry, QUEUED)) return undefined;
  const { sessionId, entryId, text } = (entry.data ?? {}) as Record<string, unknown>;
  if (sessionId !== session || typeof entryId !== "string" || typeof text !== "string") return undefined;
  return { entryId, text };
}
