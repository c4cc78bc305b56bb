import { memoryLog, Tree } from "@espalier/session-tree";
import type { SessionReader } from "../model/session-reader.ts";
import { TreeReader } from "../model/tree-reader.ts";
import { AnswerError, ask } from "./ask-server.ts";
import { RemoteReader } from "./remote-reader.ts";

/** A session that a page can show, as its list has it. */
export interface ShownSession {
  key: string;
  id: string;
  file: string;
  cwd: string;
  name: string | null;
  firstMessage: string | null;
  modified: string;
  bytes: number;
  agent?: string;
}

/** Where a page has its sessions from: a server, its own inside, or files that somebody drops onto it. */
export interface PageSource {
  /** Whether a server answers; else everything is at hand. */
  readonly isServed: boolean;
  /** Whether sessions can be changed. */
  readonly canWrite: boolean;
  /** All sessions, newest first. */
  list(): Promise<readonly ShownSession[]>;
  open(key: string): Promise<SessionReader>;
}

/** The server that the page came from; undefined for a page that stands alone. */
export function servedSource(): PageSource | undefined {
  const { served } = document.documentElement.dataset;
  if (served === undefined) return undefined;
  return {
    isServed: true,
    canWrite: served === "write",
    list: () => ask<ShownSession[]>("api/sessions"),
    open: async (key) => new RemoteReader(key),
  };
}

/** Sessions that are at hand, and how more of them come. */
export interface LocalSource extends PageSource {
  readonly sessions: readonly ShownSession[];
  /** Takes in the bytes of a session; answers with its key. Throws `not-a-session`. */
  add(name: string, bytes: Uint8Array): Promise<string>;
}

/** Sessions whose bytes are at hand. */
export function localSource(): LocalSource {
  const readers = new Map<string, TreeReader>();
  const sessions: ShownSession[] = [];
  return {
    isServed: false,
    canWrite: false,
    sessions,
    list: async () => sessions,
    async open(key) {
      // An address may come from where the one session has another key: with a server, or in a file without an id.
      const [only] = readers.size === 1 ? readers.values() : [];
      const reader = readers.get(key) ?? only;
      if (reader) return reader;
      throw new AnswerError("not-found", "This page has no such session; drop its file onto it.");
    },
    async add(name, bytes) {
      const tree = new Tree(await memoryLog(bytes, name).load());
      if (tree.length === 0 && !tree.header)
        throw new AnswerError(
          "not-a-session",
          `${name} has no line that is a session header or an entry; is it a session file?`,
        );
      const reader = new TreeReader(tree);
      const facts = await reader.facts();
      // Well-formed, as an address has to be.
      const key = (facts.id || name).toWellFormed();
      readers.set(key, reader);
      const listed = { key, id: facts.id, file: name, cwd: facts.cwd, name: facts.name, bytes: bytes.length };
      const known = sessions.findIndex((session) => session.key === key);
      if (known >= 0) sessions.splice(known, 1);
      sessions.unshift({ ...listed, firstMessage: null, modified: facts.created });
      return key;
    },
  };
}

/** The session inside the page; undefined for a page without one. */
export async function embeddedBytes(): Promise<Uint8Array | undefined> {
  const text = document.getElementById("session")?.textContent?.trim();
  if (!text) return undefined;
  const packed = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}
