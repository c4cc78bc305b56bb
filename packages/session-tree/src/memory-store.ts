import { type ByteView, bytesView, parseLine } from "@espalier/jsonl-stream";
import { listingOf } from "./listing.ts";
import { readPathWindow } from "./read-path-window.ts";
import { parseHeader, type SessionHeader } from "./session-header.ts";
import type { LogAppend, SessionListing, SessionLog, SessionStore } from "./session-store.ts";
import { SessionTreeError } from "./session-tree-error.ts";

/** A log whose bytes live in memory. Several of them on the same bytes behave as several writers of one file. */
class MemoryLog implements SessionLog {
  readonly ref: string;
  readonly header: SessionHeader | undefined;
  readonly #bytes: GrowingBytes;
  #seen: number;
  #closed = false;

  constructor(ref: string, bytes: GrowingBytes) {
    this.ref = ref;
    this.#bytes = bytes;
    this.#seen = bytes.size;
    this.header = headerIn(bytes.view());
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
    const from = this.#seen;
    const offset = this.#bytes.startLine();
    const length = this.#bytes.push(lines.join("\n"));
    this.#seen = this.#bytes.size;
    return { offset, length, from, to: this.#seen };
  }

  async takeIn() {
    const from = this.#seen;
    this.#seen = this.#bytes.size;
    return this.#seen > from ? { from, to: this.#seen } : null;
  }

  async close(): Promise<void> {
    this.#closed = true;
  }
}

class GrowingBytes {
  #buffer: Uint8Array;
  size = 0;

  constructor(initial: Uint8Array) {
    this.#buffer = initial;
    this.size = initial.length;
  }

  /** Bytes up to `size`, which never change again; a later, longer view may live in another buffer. */
  view(size = this.size): ByteView {
    return bytesView(this.#buffer.subarray(0, size));
  }

  /** Ends a line that has no end yet; returns where the next one begins. */
  startLine(): number {
    if (this.size > 0 && this.#buffer[this.size - 1] !== 10) this.#add(Uint8Array.of(10));
    return this.size;
  }

  push(text: string): number {
    const bytes = encoder.encode(`${text}\n`);
    this.#add(bytes);
    return bytes.length;
  }

  #add(bytes: Uint8Array): void {
    if (this.size + bytes.length > this.#buffer.length) {
      const larger = new Uint8Array(Math.max(1_024, (this.size + bytes.length) * 2));
      larger.set(this.#buffer.subarray(0, this.size));
      this.#buffer = larger;
    }
    this.#buffer.set(bytes, this.size);
    this.size += bytes.length;
  }
}

const encoder = new TextEncoder();

function headerIn(view: ByteView): SessionHeader | undefined {
  const head = view.read(0, view.size);
  const end = head.indexOf(10);
  const parsed = parseLine(end < 0 ? head : head.subarray(0, end));
  return parsed.ok ? parseHeader(parsed.value) : undefined;
}

/** A log over bytes at hand: a file dropped onto a page, a fixture. Appending extends a copy, never the given bytes. */
export function memoryLog(bytes: Uint8Array, ref = "memory"): SessionLog {
  return new MemoryLog(ref, new GrowingBytes(bytes));
}

/** Sessions that live as long as the process. */
export function memoryStore(): SessionStore {
  const sessions = new Map<string, { bytes: GrowingBytes; modified: string }>();
  return {
    async create(header, lines = [], ref = header.id) {
      if (sessions.has(ref)) {
        throw new SessionTreeError(
          "exists",
          `There is a session ${ref} already; give the new one another name.`,
        );
      }
      const bytes = new GrowingBytes(new Uint8Array());
      bytes.push(JSON.stringify(header));
      for (const line of lines) bytes.push(typeof line === "string" ? line : new TextDecoder().decode(line));
      sessions.set(ref, { bytes, modified: new Date().toISOString() });
      return new MemoryLog(ref, bytes);
    },
    async open(ref) {
      const session = sessions.get(ref);
      if (!session) throw notFound(ref);
      return new MemoryLog(ref, session.bytes);
    },
    async *list(): AsyncGenerator<SessionListing> {
      for (const [ref, { bytes, modified }] of [...sessions].reverse()) {
        const listing = listingOf(bytes.view(), { ref, modified });
        if (listing) yield listing;
      }
    },
    async delete(ref) {
      if (!sessions.delete(ref)) throw notFound(ref);
      return [ref];
    },
  };
}

const notFound = (ref: string) =>
  new SessionTreeError("not-found", `There is no session ${ref} in this store.`);
