import { encodeLines } from "@espalier/jsonl-stream";
import { headerLine, parsedHeader } from "./given-header.ts";
import { GrowingBytes } from "./growing-bytes.ts";
import { listingOf } from "./listing.ts";
import { withLogErrors } from "./log-errors.ts";
import { MemoryLeases } from "./memory-leases.ts";
import { MemoryLog, type MemoryPlace } from "./memory-log.ts";
import type { OpenMode, SessionListing, SessionStore } from "./session-store.ts";
import { SessionTreeError } from "./session-tree-error.ts";

/** A session, or what stood in its place in an old format: that is in no list, and goes with the session. */
interface StoredSession extends MemoryPlace {
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
  const open = (ref: string, mode: OpenMode) => {
    const session = sessions.get(ref);
    if (!session) throw notFound(ref);
    return new MemoryLog(ref, session, mode, (name, bytes) => {
      assertFree(name);
      sessions.set(name, { bytes, originalOf: ref });
    });
  };
  return {
    async create(header, lines = [], name) {
      const ref = name ?? parsedHeader(header).id;
      assertFree(ref);
      const bytes = new GrowingBytes(new Uint8Array());
      withLogErrors(() => {
        bytes.add(encodeLines([headerLine(header)]));
        for (const line of lines) {
          bytes.add(typeof line === "string" ? encodeLines([line]) : line);
          if (typeof line !== "string") bytes.add(LINE_FEED);
        }
      });
      sessions.set(ref, { bytes });
      return open(ref, "write");
    },
    async open(ref, mode) {
      return open(ref, mode);
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
      if (!sessions.has(ref)) throw notFound(ref);
      return leases.take(ref, options);
    },
    async delete(ref) {
      if (!sessions.has(ref)) throw notFound(ref);
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
