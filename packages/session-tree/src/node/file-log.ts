import { type ByteView, encodeLines } from "@espalier/jsonl-stream";
import {
  type AppendFile,
  createWhole,
  encodeBriefly,
  type FileCalls,
  nodeFileCalls,
  openAppendFile,
  replaceWhole,
} from "@espalier/jsonl-stream/node";
import { firstHeader } from "../first-header.ts";
import { ForkLines } from "../fork-lines.ts";
import { headerLine } from "../given-header.ts";
import { grown, withAsyncLogErrors, withLogErrors } from "../log-errors.ts";
import { readPathWindow } from "../read-path-window.ts";
import type { SessionHeader } from "../session-header.ts";
import type { LineAppendOptions, LogAppend, OpenMode, SessionLog } from "../session-store.ts";
import { SessionTreeError } from "../session-tree-error.ts";
import { type UpgradedLog, upgradeLog } from "../upgrade.ts";
import { takeFileLease } from "./file-lease.ts";
import { type Processes, systemProcesses } from "./process-identity.ts";

/** A session in a file. An old format is read as the current one, and becomes it on disk with the first append. */
export class FileLog implements SessionLog {
  readonly ref: string;
  readonly header: SessionHeader | undefined;
  upgraded: UpgradedLog | undefined;
  /** Bytes of the file that {@link upgraded} was made from. */
  readonly #openedSize: number;
  readonly #calls: FileCalls;
  readonly #processes: Processes;
  /** Set while this process brings the file to the current format. */
  #upgrading: Promise<void> | undefined;
  #file: AppendFile;
  /** Where what was taken in and not told of begins. */
  #untold: number | undefined;
  /** Whether there is something that a sync could be for. */
  #hasAppended = false;

  private constructor(
    file: AppendFile,
    header: SessionHeader | undefined,
    calls: FileCalls,
    processes: Processes,
  ) {
    const view = withSessionErrors(file.view());
    this.#calls = calls;
    this.#processes = processes;
    this.#file = file;
    this.#openedSize = view.size;
    this.ref = file.path;
    this.header = header;
    this.upgraded = upgradeLog(view, header);
  }

  /**
   * Opens the file of a session. With `tighten` others lose whatever rights they have on it when it is opened for writing.
   *
   * @throws SessionTreeError `not-found`, `not-a-file`, `unreadable`, `empty-file`
   */
  static open(
    path: string,
    mode: OpenMode,
    calls: FileCalls = nodeFileCalls,
    { tighten = false, processes = systemProcesses }: { tighten?: boolean; processes?: Processes } = {},
  ): FileLog {
    const file = withLogErrors(() => openAppendFile(path, { mode, tighten, calls }));
    try {
      const view = file.view();
      if (view.size === 0) {
        throw new SessionTreeError(
          "empty-file",
          `${file.path} is empty, and a session begins with a header line; put a copy of it in its place, or remove it.`,
        );
      }
      return withLogErrors(() => new FileLog(file, firstHeader(view), calls, processes));
    } catch (error) {
      file.close();
      throw error;
    }
  }

  /** Makes a file that holds a header and lines, durable and never over another one, and opens it. Throws `exists`. */
  static create(
    path: string,
    header: SessionHeader | string,
    lines: Iterable<string | Uint8Array>,
    calls: FileCalls = nodeFileCalls,
  ): FileLog {
    withLogErrors(() => createWhole(path, wholeLines(header, lines), { calls }));
    return FileLog.open(path, "write", calls);
  }

  get view(): ByteView {
    return this.upgraded?.view ?? withSessionErrors(this.#file.view());
  }

  async load(): Promise<ByteView> {
    return this.view;
  }

  async readPath(leafId?: string) {
    return withLogErrors(() => readPathWindow(this.view, leafId));
  }

  async append(
    lines: readonly string[],
    { durability, ifUnchanged = false }: LineAppendOptions = {},
  ): Promise<LogAppend> {
    if (this.upgraded && withLogErrors(() => encodeBriefly(lines).length) > 0) {
      this.#upgrading ??= this.#upgradeOnDisk().finally(() => {
        this.#upgrading = undefined;
      });
      await this.#upgrading;
    }
    const at = ifUnchanged ? await this.#appendIfUnchanged(lines) : this.#append(lines);
    if (durability === "fsync") await this.flush();
    return at;
  }

  /** One at a time among all that append so, by a lease of its own. */
  async #appendIfUnchanged(lines: readonly string[]): Promise<LogAppend> {
    const [calls, processes] = [this.#calls, this.#processes];
    const turn = await takeFileLease(this.ref, { name: "turn", waitMs: TURN_MS, calls, processes });
    try {
      const came = withLogErrors(() => this.#file.takeIn());
      if (came && !this.upgraded) {
        this.#untold ??= came.from;
        throw grown(this.ref);
      }
      return this.#append(lines);
    } finally {
      await turn.release();
    }
  }

  #append(lines: readonly string[]): LogAppend {
    return withLogErrors(() => {
      const own = encodeBriefly(lines);
      if (this.upgraded) {
        const { size } = this.upgraded.view;
        return { offset: size, length: 0, from: size, to: size };
      }
      // Counted before it is known: after a failure a part of it may stand in the file.
      if (own.length > 0) this.#hasAppended = true;
      const { offset, length, from, to } = this.#file.append(own);
      const at = { offset, length, from: this.#untold ?? from, to };
      this.#untold = undefined;
      return at;
    });
  }

  async flush(): Promise<void> {
    if (this.#hasAppended) await withAsyncLogErrors(() => this.#file.synced());
  }

  async takeIn() {
    const came = withLogErrors(() => this.#file.takeIn());
    // What a program of that time appends meanwhile is read by who opens the file again.
    if (this.upgraded) return null;
    const from = this.#untold ?? came?.from;
    this.#untold = undefined;
    return from === undefined ? null : { from, to: came?.to ?? this.#file.view().size };
  }

  /** Lets go of the file; nothing is written. */
  async close(): Promise<void> {
    withLogErrors(() => this.#file.close());
  }

  /**
   * Puts the upgraded whole in the file's place; the original stays beside it as `<file>.v1` or `.v2`. One process at a
   * time: of two that want to, the second finds another file in the place of the one it opened, and throws `changed`.
   */
  async #upgradeOnDisk(): Promise<void> {
    const { view, from } = this.upgraded!;
    // Appending nothing says why this opening cannot write, before anything is written.
    withLogErrors(() => this.#file.append(NOTHING));
    const [calls, processes] = [this.#calls, this.#processes];
    const lease = await takeFileLease(this.ref, { name: "upgrade", waitMs: UPGRADE_MS, calls, processes });
    try {
      withLogErrors(() => {
        this.#file.append(NOTHING);
        replaceWhole(this.ref, [view.read(0, view.size)], {
          keepAs: `${this.ref}.v${from}`,
          expectedSize: this.#openedSize,
          calls,
        });
        // Before the old one is closed: where this fails, the next append says that another file is here, and what to do.
        const file = openAppendFile(this.ref, { mode: "write", calls });
        const old = this.#file;
        this.#file = file;
        this.upgraded = undefined;
        old.close();
      });
    } finally {
      await lease.release();
    }
  }
}

/** Reading may fail long after opening, and is the session's trouble then. */
function withSessionErrors(view: ByteView): ByteView {
  return {
    size: view.size,
    read: (offset, length) => withLogErrors(() => view.read(offset, length)),
    readInto: (offset, target) => withLogErrors(() => view.readInto(offset, target)),
  };
}

function* wholeLines(
  header: SessionHeader | string,
  lines: Iterable<string | Uint8Array>,
): Generator<Uint8Array> {
  yield encodeLines([headerLine(header)]);
  if (lines instanceof ForkLines) return yield* lines.pieces();
  for (const line of lines) {
    if (typeof line === "string") yield encodeLines([line]);
    else {
      yield line;
      yield LINE_FEED;
    }
  }
}

const LINE_FEED = Uint8Array.of(10);
const NOTHING = new Uint8Array();

/** Milliseconds to wait for another append that compares: each takes a few. */
const TURN_MS = 10_000;

/** Milliseconds to wait for another process that brings the file to the current format: it writes and syncs all of it. */
const UPGRADE_MS = 60_000;
