import { type SessionLog, type SessionStore, SessionTreeError } from "@espalier/session-tree";
import type { SessionDraft } from "../import-draft.ts";
import { idFromText } from "../import-ids.ts";

/** From so many sources on it pays to list the store once, instead of looking for each session by itself. */
const MANY = 20;

/** Finds the sessions that earlier imports wrote. */
export class SessionCatalogue {
  readonly #store: SessionStore;
  /** By id; undefined while each session is looked for by itself. */
  #refs: Map<string, string> | undefined;

  private constructor(store: SessionStore, refs: Map<string, string> | undefined) {
    this.#store = store;
    this.#refs = refs;
  }

  /** @param sources how many sessions will be looked for, about */
  static async open(store: SessionStore, sources: number): Promise<SessionCatalogue> {
    if (sources < MANY) return new SessionCatalogue(store, undefined);
    const refs = new Map<string, string>();
    for await (const { id, ref } of store.list()) refs.set(id, ref);
    return new SessionCatalogue(store, refs);
  }

  /**
   * The session that a draft was written to before, opened for reading, or the id that it gets: another one where a
   * session of other origin has its own already.
   */
  async find({
    agent,
    sourceId,
    sessionId,
  }: SessionDraft): Promise<{ id: string; log: SessionLog | undefined }> {
    for (const id of [sessionId, idFromText(`${agent}/${sourceId}`)]) {
      const log = await this.#open(id);
      if (!log) return { id, log };
      const { importedFrom } = log.header ?? {};
      if (importedFrom?.agent === agent && importedFrom.id === sourceId) return { id, log };
      await log.close();
    }
    throw new SessionTreeError(
      "exists",
      `The ids that the session ${sessionId} could get are taken; remove one of them.`,
    );
  }

  /** Tells of a session that was written. */
  add(id: string, ref: string): void {
    this.#refs?.set(id, ref);
  }

  async #open(id: string): Promise<SessionLog | undefined> {
    const file = this.#refs?.get(id);
    if (this.#refs && file === undefined) return undefined;
    try {
      return await this.#store.open(file === undefined ? { id } : { file }, "read");
    } catch (error) {
      if (error instanceof SessionTreeError && error.code === "not-found") return undefined;
      throw error;
    }
  }
}
