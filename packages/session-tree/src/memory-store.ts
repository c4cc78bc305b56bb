import { encodeLines } from "@espalier/jsonl-stream";
import { headerLine, parsedHeader } from "./given-header.ts";
import { GrowingBytes } from "./growing-bytes.ts";
import { listingOf } from "./listing.ts";
import { withLogErrors } from "./log-errors.ts";
import { MemoryLeases } from "./memory-leases.ts";
import { MemoryLog, type MemoryPlace } from "./memory-log.ts";
import { sessionRef } from "./session-ref.ts";
import type { OpenMode, SessionListing, SessionRef, SessionStore } from "./session-store.ts";
import { SessionTreeError } from "./session-tree-error.ts";

/** A session, or what stood in its place in an old format: that is in no list, has no id, and goes with the session. */
interface StoredSession extends MemoryPlace {
  id?: string;
  originalOf?: string;
}

/** Sessions that live as long as the process. */
export function memoryStore(): SessionStore {
  const sessions = new Map<string, StoredSession>();
  const leases = new MemoryLeases();
  const assertFree = (ref: string) => {
    if (!sessions.has(ref)) return;
    throw new SessionTreeError("exists", `There is a session ${ref} already; give the new one another name.`);
  };
  /** What is kept under its id has it; else all that have it. */
  const refsOf = (id: string): string[] =>
    sessions.get(id)?.id === id
      ? [id]
      : [...sessions].filter(([, session]) => session.id === id).map(([ref]) => ref);
  const find = (named: SessionRef): string => {
    const asked = sessionRef(named);
    const refs = "id" in asked ? refsOf(asked.id) : sessions.has(asked.file) ? [asked.file] : [];
    if (refs.length === 1) return refs[0]!;
    const text = "id" in asked ? asked.id : asked.file;
    if (refs.length === 0) throw notFound(text);
    const message = `Several sessions have the id ${text}: ${refs.join(" and ")}; name one of them by { file }.`;
    throw new SessionTreeError("ambiguous", message);
  };
  const open = (ref: string, mode: OpenMode) =>
    new MemoryLog(ref, sessions.get(ref)!, mode, (name, bytes) => {
      assertFree(name);
      sessions.set(name, { bytes, originalOf: ref });
    });
  return {
    async create(header, lines = [], name) {
      const { id } = parsedHeader(header);
      const ref = name ?? id;
      const bytes = new GrowingBytes(new Uint8Array());
      withLogErrors(() => {
        bytes.add(encodeLines([headerLine(header)]));
        for (const line of lines) {
          bytes.add(typeof line === "string" ? encodeLines([line]) : line);
          if (typeof line !== "string") bytes.add(LINE_FEED);
        }
      });
      assertFree(ref);
      if (name === undefined && refsOf(id).length > 0)
        throw new SessionTreeError(
          "exists",
          `There is a session with the id ${id} already; open it, or leave the id out to get a fresh one.`,
        );
      sessions.set(ref, { bytes, id });
      return open(ref, "write");
    },
    async open(ref, mode) {
      return open(find(ref), mode);
    },
    async *list(): AsyncGenerator<SessionListing> {
      // Where the clock tells no difference, what was created later stands first.
      const newestFirst = [...sessions]
        .filter(([, { originalOf }]) => originalOf === undefined)
        .reverse()
        .sort(([, { bytes: a }], [, { bytes: b }]) => b.modified - a.modified);
      for (const [ref, { bytes }] of newestFirst) {
        const modified = new Date(bytes.modified).toISOString();
        const listing = listingOf(open(ref, "read").view, { ref, modified, bytes: bytes.size });
        if (listing) yield listing;
      }
    },
    async lease(ref, options) {
      return leases.take(find(ref), options);
    },
    async delete(named) {
      const ref = find(named);
      await leases.take(ref).then((lease) => lease.release());
      const removed = [...sessions].filter(([name, { originalOf }]) => name === ref || originalOf === ref);
      for (const [name] of removed) sessions.delete(name);
      return removed.map(([name]) => name);
    },
  };
}

const LINE_FEED = Uint8Array.of(10);

const notFound = (ref: string) =>
  new SessionTreeError(
    "not-found",
    `There is no session ${ref} in this store; its list has those there are.`,
  );
