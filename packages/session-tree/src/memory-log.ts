import { type ByteView, bytesView, encodeLines } from "@espalier/jsonl-stream";
import { firstHeader } from "./first-header.ts";
import { GrowingBytes } from "./growing-bytes.ts";
import { grown, withLogErrors } from "./log-errors.ts";
import { readPathWindow } from "./read-path-window.ts";
import type { SessionHeader } from "./session-header.ts";
import type { LineAppendOptions, LogAppend, OpenMode, SessionLog } from "./session-store.ts";
import { SessionTreeError } from "./session-tree-error.ts";
import { type UpgradedLog, upgradeLog } from "./upgrade.ts";

/** What stands under a name: bytes that grow, and others in their place once an old format was brought to the current one. */
export interface MemoryPlace {
  bytes: GrowingBytes;
}

/** A log whose bytes live in memory. Several of them on the same place behave as several writers of one file. */
export class MemoryLog implements SessionLog {
  readonly ref: string;
  readonly header: SessionHeader | undefined;
  upgraded: UpgradedLog | undefined;
  readonly #place: MemoryPlace;
  readonly #mode: OpenMode;
  readonly #keep: (name: string, original: GrowingBytes) => void;
  #bytes: GrowingBytes;
  #seen: number;
  #closed = false;

  /** @param keep called with what stood there, and the name it is to be kept under, before an old format is replaced */
  constructor(
    ref: string,
    place: MemoryPlace,
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
    if (this.#closed) throw new SessionTreeError("closed", "The session was closed; open it again to write.");
    if (this.#mode === "read")
      throw new SessionTreeError("read-only", "The session was opened for reading; open it for writing.");
    const own = withLogErrors(() => encodeLines(lines));
    const { size: from } = this.view;
    if (own.length === 0) return { offset: from, length: 0, from, to: from };
    if (ifUnchanged && !this.upgraded && this.#bytes.size !== this.#seen) throw grown(this.ref);
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
    if (this.#closed) throw new SessionTreeError("closed", "The session was closed; open it again to write.");
  }

  async close(): Promise<void> {
    this.#closed = true;
  }

  #assertSame(): void {
    if (this.#place.bytes === this.#bytes) return;
    const message = `${this.ref} was brought to the current format by somebody else; open it again.`;
    throw new SessionTreeError("changed", message);
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
 * A log over bytes at hand: a file dropped onto a page, a fixture. Bytes of an old format are read as the current one.
 * Appending extends a copy, never the given bytes.
 */
export function memoryLog(bytes: Uint8Array, ref = "memory"): SessionLog {
  const view = bytesView(bytes);
  return new MemoryLog(ref, { bytes: new GrowingBytes(view.read(0, view.size)) }, "write", () => undefined);
}
