import {
  type ByteView,
  bytesView,
  EspalierError,
  encodeLines,
  type LeaseHolder,
} from "@espalier/jsonl-stream";
import { readPathWindow } from "../context/window.ts";
import { type SessionHeader, type SessionRef, sessionRef } from "../entry/entry.ts";
import { busyError, closedError, grown, idTakenError, readOnlyError } from "../entry/error.ts";
import { firstHeader, parsedHeader } from "../entry/line.ts";
import { wholeLines } from "./fork.ts";
import { listingOf } from "./listing.ts";
import type {
  LeaseOptions,
  LineAppendOptions,
  LogAppend,
  OpenMode,
  SessionLease,
  SessionListing,
  SessionLog,
  SessionStore,
} from "./store.ts";
import { type UpgradedLog, upgradeLog } from "./upgrade.ts";

/** A session, or its original in an old format. The original is not listed, has no id, and is deleted with the session. */
interface StoredSession {
  /** Lines of the session. They grow, and are replaced by an upgrade of an old format or by a removal. */
  bytes: GrowingBytes;
  id?: string;
  originalOf?: string;
}

/** Returns a store of sessions in memory. They exist as long as the store. */
export function memoryStore(): SessionStore {
  const sessions = new Map<string, StoredSession>();
  const leases = new MemoryLeases();
  const assertFree = (ref: string) => {
    if (!sessions.has(ref)) return;
    throw new EspalierError("exists", `There is a session ${ref} already; give the new one another name.`);
  };
  /**
   * Returns the storage name that equals the id, if its session has the id; otherwise all storage names whose sessions
   * have it.
   */
  const refsOf = (id: string): string[] =>
    sessions.get(id)?.id === id
      ? [id]
      : [...sessions].filter(([, session]) => session.id === id).map(([ref]) => ref);
  const find = (named: SessionRef): string => {
    const asked = sessionRef(named);
    const refs = "id" in asked ? refsOf(asked.id) : sessions.has(asked.file) ? [asked.file] : [];
    if (refs.length === 1) return refs[0]!;
    const text = "id" in asked ? asked.id : asked.file;
    if (refs.length === 0)
      throw new EspalierError(
        "not-found",
        `There is no session ${text} in this store; its list names the existing ones.`,
      );
    const message = `Several sessions have the id ${text}: ${refs.join(" and ")}; name one of them by { file }.`;
    throw new EspalierError("ambiguous", message);
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
      for (const piece of wholeLines(header, lines)) bytes.add(piece);
      assertFree(ref);
      if (name === undefined && refsOf(id).length > 0) throw idTakenError(id);
      sessions.set(ref, { bytes, id });
      return open(ref, "write");
    },
    async open(ref, mode) {
      return open(find(ref), mode);
    },
    async *list(): AsyncGenerator<SessionListing> {
      // Of sessions with the same time, the later one comes first.
      const newestFirst = [...sessions]
        .filter(([, { originalOf }]) => originalOf === undefined)
        .reverse()
        .sort(([, { bytes: a }], [, { bytes: b }]) => b.modified - a.modified);
      for (const [ref, place] of newestFirst) {
        // A reader of the list may have deleted it.
        if (sessions.get(ref) !== place) continue;
        const { bytes } = place;
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
      for (const [name, place] of removed) {
        sessions.delete(name);
        place.bytes = new GrowingBytes(new Uint8Array());
      }
      return removed.map(([name]) => name);
    },
  };
}

const LINE_FEED = Uint8Array.of(10);

/** A log in memory. Several logs on the same place behave like several writers of one file. */
class MemoryLog implements SessionLog {
  readonly ref: string;
  readonly header: SessionHeader | undefined;
  upgraded: UpgradedLog | undefined;
  readonly #place: StoredSession;
  readonly #mode: OpenMode;
  readonly #keep: (name: string, original: GrowingBytes) => void;
  #bytes: GrowingBytes;
  #seen: number;
  #closed = false;

  /** @param keep called before an old format is replaced, with the name for the original and its bytes */
  constructor(
    ref: string,
    place: StoredSession,
    mode: OpenMode,
    keep: (name: string, original: GrowingBytes) => void,
  ) {
    this.ref = ref;
    this.#place = place;
    this.#mode = mode;
    this.#keep = keep;
    this.#bytes = place.bytes;
    this.#seen = place.bytes.size;
    const view = place.bytes.view();
    this.header = firstHeader(view);
    this.upgraded = upgradeLog(view, this.header);
  }

  get view(): ByteView {
    return this.upgraded?.view ?? this.#bytes.view(this.#seen);
  }

  async load(): Promise<ByteView> {
    return this.view;
  }

  async readPath(leafId?: string) {
    return readPathWindow(this.view, leafId);
  }

  async append(
    lines: readonly string[],
    { ifUnchanged = false }: LineAppendOptions = {},
  ): Promise<LogAppend> {
    if (this.#closed) throw closedError();
    if (this.#mode === "read") throw readOnlyError();
    const own = encodeLines(lines);
    const { size: from } = this.view;
    if (own.length === 0) return { offset: from, length: 0, from, to: from };
    if (ifUnchanged && this.#bytes.size !== this.#seen) throw grown(this.ref);
    this.#makeCurrent();
    this.#bytes.startLine();
    const offset = this.#bytes.size;
    this.#bytes.add(own);
    this.#seen = this.#bytes.size;
    return { offset, length: own.length, from, to: this.#seen };
  }

  async takeIn() {
    this.#assertSame();
    const from = this.#seen;
    if (this.upgraded) return null;
    this.#seen = this.#bytes.size;
    return this.#seen > from ? { from, to: this.#seen } : null;
  }

  async flush(): Promise<void> {
    if (this.#closed) throw closedError();
  }

  async close(): Promise<void> {
    this.#closed = true;
  }

  #assertSame(): void {
    if (this.#place.bytes === this.#bytes) return;
    const message = `${this.ref} was removed or upgraded to the current format; open it again.`;
    throw new EspalierError("changed", message);
  }

  #makeCurrent(): void {
    this.#assertSame();
    if (!this.upgraded) return;
    const { view, from } = this.upgraded;
    this.#keep(`${this.ref}.v${from}`, this.#bytes);
    this.#bytes = new GrowingBytes(view.read(0, view.size));
    this.#place.bytes = this.#bytes;
    this.#seen = view.size;
    this.upgraded = undefined;
  }
}

/**
 * Returns a log over given bytes, such as a file dropped onto a page or a fixture. Bytes of an old format are read as
 * the current one. Appending extends a copy, never the given bytes.
 */
export function memoryLog(bytes: Uint8Array, ref = "memory"): SessionLog {
  const view = bytesView(bytes);
  return new MemoryLog(ref, { bytes: new GrowingBytes(view.read(0, view.size)) }, "write", () => undefined);
}

/**
 * Leases within one process, whose owners cannot crash alone. Use them for `SessionStore.lease` in a store whose
 * sessions no other process writes.
 */
export class MemoryLeases {
  readonly #holders = new Map<string, LeaseHolder>();

  /**
   * Takes the lease of the session stored under `ref`. Waits up to `waitMs` milliseconds (default 0) until its owner
   * releases it.
   * @throws EspalierError `busy` with the `holder`
   */
  async take(ref: string, { waitMs = 0 }: LeaseOptions = {}): Promise<SessionLease> {
    const deadline = performance.now() + waitMs;
    for (let holder = this.#holders.get(ref); holder; holder = this.#holders.get(ref)) {
      if (performance.now() >= deadline) throw busyError(ref, holder);
      await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
    }
    const own = { pid: 0, host: "this process", since: new Date().toISOString() };
    this.#holders.set(ref, own);
    return {
      release: async () => {
        if (this.#holders.get(ref) === own) this.#holders.delete(ref);
      },
    };
  }
}

/** Milliseconds between two attempts to take a lease. */
const PAUSE_MS = 2;

/** Bytes in memory that only grow. A view of them never changes. */
export class GrowingBytes {
  #buffer: Uint8Array;
  /** Number of used bytes. */
  size: number;
  /** Time of the last addition, in epoch milliseconds. */
  modified = Date.now();

  constructor(initial: Uint8Array) {
    this.#buffer = initial;
    this.size = initial.length;
  }

  /** Returns the bytes up to `size`, which never change. A later, longer view can use another buffer. */
  view(size = this.size): ByteView {
    return bytesView(this.#buffer.subarray(0, size));
  }

  /** Adds a newline unless the bytes end in one or are empty. */
  startLine(): void {
    if (this.size > 0 && this.#buffer[this.size - 1] !== 10) this.add(LINE_FEED);
  }

  /** Adds a copy of bytes at the end. */
  add(bytes: Uint8Array): void {
    if (this.size + bytes.length > this.#buffer.length) {
      const larger = new Uint8Array(Math.max(1_024, (this.size + bytes.length) * 2));
      larger.set(this.#buffer.subarray(0, this.size));
      this.#buffer = larger;
    }
    this.#buffer.set(bytes, this.size);
    this.size += bytes.length;
    this.modified = Date.now();
  }
}
