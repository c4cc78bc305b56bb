import { createHash } from "node:crypto";
import type { ListedSession, Session } from "@espalier/engine";
import { TreeReader } from "../model/tree-reader.ts";
import { ViewerError } from "./viewer-error.ts";
import type { ViewerSessions } from "./viewer-sessions.ts";

/** A session in the list of a page. */
export interface ListedForPage extends Omit<ListedSession, "ref"> {
  /** Names the session in addresses: its id, with a suffix where several files have it. */
  key: string;
  file: string;
}

/** How many sessions are kept open; the one that was asked for longest ago goes first. */
const KEPT = 24;

/** Sessions by the key that pages know them by, opened when they are asked for, and as long as the server runs. */
export class OpenSessions {
  readonly #sessions: ViewerSessions;
  readonly #refs = new Map<string, string>();
  readonly #open = new Map<string, Promise<Session>>();

  constructor(sessions: ViewerSessions) {
    this.#sessions = sessions;
  }

  async list(): Promise<ListedForPage[]> {
    const listed: ListedForPage[] = [];
    for await (const { ref, ...session } of this.#sessions.list())
      listed.push({ ...session, file: ref, key: this.keyOf(session.id, ref) });
    return listed;
  }

  /** The key of a session, the same for the same file as long as the server runs. */
  keyOf(id: string, ref: string): string {
    const plain = /^[\w.-]{1,100}$/.test(id) ? id : digestOf(ref);
    const taken = this.#refs.get(plain);
    const key = taken === undefined || taken === ref ? plain : `${plain}~${digestOf(ref)}`;
    this.#refs.set(key, ref);
    return key;
  }

  /** What opens a session. @throws ViewerError `not-found` */
  async refOf(key: string): Promise<string> {
    if (!this.#refs.has(key)) await this.list();
    const ref = this.#refs.get(key);
    if (ref === undefined)
      throw new ViewerError("not-found", "There is no such session here; the list may be out of date.");
    return ref;
  }

  /** Reads a session as it is now, with what others appended. */
  async reader(key: string): Promise<TreeReader> {
    const session = await this.#current(key);
    return new TreeReader(session.tree);
  }

  async close(): Promise<void> {
    const opened = await Promise.allSettled(this.#open.values());
    this.#open.clear();
    await Promise.all(
      opened.map((result) => (result.status === "fulfilled" ? result.value.close() : undefined)),
    );
  }

  async #current(key: string): Promise<Session> {
    const ref = await this.refOf(key);
    const opening = this.#opening(ref);
    try {
      return await this.#refreshed(opening);
    } catch {
      // The file may have been replaced or shortened since it was opened: what is there now counts, or its own error.
      // Others may have seen that too, and have opened it anew by now.
      if (this.#open.get(ref) === opening) await this.#forget(ref);
      return await this.#refreshed(this.#opening(ref));
    }
  }

  /** The session, opened if it is not; it is then the one that was asked for last. */
  #opening(ref: string): Promise<Session> {
    const opening = this.#open.get(ref) ?? this.#sessions.read(ref);
    this.#open.delete(ref);
    this.#open.set(ref, opening);
    return opening;
  }

  async #refreshed(opening: Promise<Session>): Promise<Session> {
    const session = await opening;
    await session.core.load();
    await session.core.refresh();
    const [oldest] = this.#open.keys();
    if (this.#open.size > KEPT && oldest !== undefined) await this.#forget(oldest);
    return session;
  }

  async #forget(ref: string): Promise<void> {
    const opening = this.#open.get(ref);
    this.#open.delete(ref);
    const [opened] = await Promise.allSettled([opening]);
    if (opened.status === "fulfilled") await opened.value?.close();
  }
}

const digestOf = (ref: string): string => createHash("sha256").update(ref).digest("hex").slice(0, 12);
