import { type ByteView, bytesView, encodeLines } from "@espalier/jsonl-stream";
import { firstHeader } from "./first-header.ts";
import { headerLine, parsedHeader } from "./given-header.ts";
import { GrowingBytes } from "./growing-bytes.ts";
import { listingOf } from "./listing.ts";
import { withLogErrors } from "./log-errors.ts";
import { MemoryLeases } from "./memory-leases.ts";
import { readPathWindow } from "./read-path-window.ts";
import { FORMAT_VERSION, type SessionHeader } from "./session-header.ts";
import type { LogAppend, OpenMode, SessionListing, SessionLog, SessionStore } from "./session-store.ts";
import { SessionTreeError } from "./session-tree-error.ts";
import { upgradeLog } from "./upgrade.ts";

/** A log whose bytes live in memory. Several of them on the same bytes behave as several writers of one file. */
class MemoryLog implements SessionLog {
  readonly ref: string;
  readonly header: SessionHeader | undefined;
  readonly #bytes: GrowingBytes;
  readonly #mode: OpenMode;
  #seen: number;
  #closed = false;

  constructor(ref: string, bytes: GrowingBytes, header: SessionHeader | undefined, mode: OpenMode) {
    this.ref = ref;
    this.header = header;
    this.#bytes = bytes;
    this.#mode = mode;
    this.#seen = bytes.size;
  }

  get view(): ByteView {
    return this.#bytes.view(this.#seen);
  }

  async load(): Promise<ByteView> {
    return this.view;
  }

  async readPath(leafId?: string) {
    return readPathWindow(this.view, leafId);
  }

  async append(lines: readonly string[]): Promise<LogAppend> {
    if (this.#closed) throw new SessionTreeError("closed", "The session was closed; open it again to write.");
    if (this.#mode === "read")
      throw new SessionTreeError("read-only", "The session was opened for reading; open it for writing.");
    const own = withLogErrors(() => encodeLines(lines));
    const from = this.#seen;
    if (own.length > 0) this.#bytes.startLine();
    const offset = this.#bytes.size;
    this.#bytes.add(own);
    this.#seen = this.#bytes.size;
    return { offset, length: own.length, from, to: this.#seen };
  }

  async takeIn() {
    const from = this.#seen;
    this.#seen = this.#bytes.size;
    return this.#seen > from ? { from, to: this.#seen } : null;
  }

  async flush(): Promise<void> {
    if (this.#closed) throw new SessionTreeError("closed", "The session was closed; open it again to write.");
  }

  async close(): Promise<void> {
    this.#closed = true;
  }
}

/**
 * A log over bytes at hand: a file dropped onto a page, a fixture. Bytes of an old format are read as the current one.
 * Appending extends a copy, never the given bytes.
 */
export function memoryLog(bytes: Uint8Array, ref = "memory"): SessionLog {
  const view = bytesView(bytes);
  const header = firstHeader(view);
  const upgraded = header && header.version < FORMAT_VERSION ? upgradeLog(view, header).view : view;
  return new MemoryLog(ref, new GrowingBytes(upgraded.read(0, upgraded.size)), header, "write");
}

/** Sessions that live as long as the process. */
export function memoryStore(): SessionStore {
  const sessions = new Map<string, GrowingBytes>();
  const leases = new MemoryLeases();
  const open = (ref: string, mode: OpenMode) => {
    const bytes = sessions.get(ref);
    if (!bytes) throw notFound(ref);
    return new MemoryLog(ref, bytes, firstHeader(bytes.view()), mode);
  };
  return {
    async create(header, lines = [], name) {
      const ref = name ?? parsedHeader(header).id;
      if (sessions.has(ref)) {
        throw new SessionTreeError(
          "exists",
          `There is a session ${ref} already; give the new one another name.`,
        );
      }
      const bytes = new GrowingBytes(new Uint8Array());
      withLogErrors(() => {
        bytes.add(encodeLines([headerLine(header)]));
        for (const line of lines) {
          bytes.add(typeof line === "string" ? encodeLines([line]) : line);
          bytes.startLine();
        }
      });
      sessions.set(ref, bytes);
      return open(ref, "write");
    },
    async open(ref, mode) {
      return open(ref, mode);
    },
    async *list(): AsyncGenerator<SessionListing> {
      // Where the clock tells no difference, what was created later stands first.
      const newestFirst = [...sessions].reverse().sort(([, a], [, b]) => b.modified - a.modified);
      for (const [ref, bytes] of newestFirst) {
        const listing = listingOf(bytes.view(), { ref, modified: new Date(bytes.modified).toISOString() });
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
      sessions.delete(ref);
      return [ref];
    },
  };
}

const notFound = (ref: string) =>
  new SessionTreeError("not-found", `There is no session ${ref} in this store.`);
