import { existsSync, rmSync, type Stats } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { type ByteView, EspalierError } from "@espalier/jsonl-stream";
import {
  type AppendFile,
  createWholeAsync,
  discard,
  encodeBriefly,
  type FileCalls,
  nodeFileCalls,
  openAppendFile,
  replaceWhole,
  systemCode,
  uninterrupted,
  withView,
} from "@espalier/jsonl-stream/node";
import { readPathWindow } from "../context/window.ts";
import { type SessionHeader, type SessionRef, sessionRef } from "../entry/entry.ts";
import { grown } from "../entry/error.ts";
import { firstHeader, parsedHeader } from "../entry/line.ts";
import {
  isBelow,
  makeFolder,
  readDerived,
  refuseLinksBelow,
  sessionBelongings,
  sessionFiles,
  sessionPath,
  writeDerived,
} from "./files.ts";
import { wholeLines } from "./fork.ts";
import { leaseFiles, type Processes, systemProcesses, takeFileLease, takeFileLeaseSync } from "./lease.ts";
import { listingOf } from "./listing.ts";
import { SessionIds } from "./session-ids.ts";
import { SessionTree } from "./session-tree.ts";
import type {
  LineAppendOptions,
  LogAppend,
  OpenMode,
  SessionListing,
  SessionLog,
  SessionStore,
  StoreListOptions,
} from "./store.ts";
import { type UpgradedLog, upgradeLog } from "./upgrade.ts";
import { Turns } from "./write-queue.ts";

/** Options of a file store. */
export interface FileStoreOptions {
  /** Home of the store. New sessions are in `<home>/sessions/<project key>/`; ids are searched in `<home>/sessions`. */
  home: string;
  /** Folders to list, including their subfolders. Default: `<home>/sessions`. */
  folders?: readonly string[];
  /** Calls to the file system for reading and writing lines. Default: those of `node:fs`; tests pass calls that fail. */
  calls?: FileCalls;
  /** Processes that compete for leases. Default: those of this machine; tests pass several simulated ones. */
  processes?: Processes;
}

/** Returns a store of sessions in files of mode 0600, in folders of mode 0700. */
export function fileStore(options: FileStoreOptions): SessionStore {
  const { calls = nodeFileCalls, processes = systemProcesses } = options;
  const home = resolve(options.home);
  const own = join(home, "sessions");
  const folders = (options.folders ?? [own]).map((folder) => resolve(folder));
  const roots = [home, ...folders.filter((folder) => folder !== own)];
  const ids = new SessionIds(home, (path) => headerOfFile(path)?.id, processes);
  const find = (ref: SessionRef): string => {
    const asked = sessionRef(ref);
    if ("file" in asked && asked.file === "")
      throw new EspalierError("not-found", "The path of the session's file is empty; name an existing file.");
    const path = "id" in asked ? ids.find(asked.id) : resolve(asked.file);
    refuseLinksBelow(path, roots);
    return path;
  };
  return {
    async create(header, lines = [], ref) {
      const parsed = parsedHeader(header);
      const path = ref === undefined ? sessionPath(home, parsed) : resolve(ref);
      refuseLinksBelow(path, roots);
      makeFolder(dirname(path), calls);
      const make = () => FileLog.create(path, header, lines, calls);
      return creations.take(() => (ref === undefined ? ids.create(parsed.id, path, make) : make()));
    },
    async open(ref, mode): Promise<SessionLog> {
      const path = find(ref);
      await making.get(path);
      // Files of the store are private to their owner. A file elsewhere may be shared on purpose.
      return FileLog.open(path, mode, calls, { tighten: isBelow(path, [own]), processes });
    },
    async *list(how): AsyncGenerator<SessionListing> {
      const catalogue = new ListingCatalogue(home);
      const files = sessionFiles(folders, { home, ...how });
      try {
        for (const { path, facts } of files) {
          const known = catalogue.find(path, facts);
          const listing = known ?? (await listFile(path, facts.mtimeMs, calls, how));
          if (listing && !known) catalogue.set(path, facts, listing);
          if (listing) yield listing;
        }
      } finally {
        const present = new Set(files.map(({ path }) => path));
        catalogue.forget((path) => !present.has(path) && isBelow(path, folders));
        catalogue.save();
      }
    },
    async lease(ref, options) {
      const path = find(ref);
      await making.get(path);
      // Opening first, so that no lease file is put next to a file that is not a session.
      await FileLog.open(path, "read", calls).close();
      return takeFileLease(path, { ...options, calls, processes });
    },
    async delete(ref) {
      const path = find(ref);
      // Opening the file gives a clear error for a file that is not a session, which is then not deleted.
      const log = FileLog.open(path, "read", calls);
      const id = log.header?.id;
      await SessionTree.open(log).finally(() => log.close());
      const lease = await takeFileLease(path, { calls, processes });
      try {
        const removed = sessionBelongings(path).filter((file) => existsSync(file));
        // The session file is removed last. While it exists, a failed deletion can be repeated.
        for (const file of removed.toReversed()) removeWhole(file);
        if (id !== undefined) ids.forget(id);
        const catalogue = new ListingCatalogue(home);
        catalogue.forget((known) => known === path);
        catalogue.save();
        return removed;
      } finally {
        await lease.release();
        sweepLeases(path, calls);
      }
    },
  };
}

/** Maximum number of sessions created at once. Each holds a descriptor while it waits for the disk. */
const MADE_AT_ONCE = 256;

const creations = new Turns(MADE_AT_ONCE);

/** Files that this process is creating, until their names are on disk. */
const making = new Map<string, Promise<unknown>>();

/**
 * Creates a file. An opening of the same file waits until its name is on disk. Otherwise an entry could be acknowledged
 * in a file that is lost at a power failure.
 */
async function makingOf(path: string, make: () => Promise<void>): Promise<void> {
  const made = make();
  const settled = Promise.allSettled([making.get(path), made]);
  making.set(path, settled);
  try {
    await made;
  } finally {
    if (making.get(path) === settled) making.delete(path);
  }
}

/** Removes all lease files of a deleted session. A failure is ignored, because the session is gone. */
function sweepLeases(path: string, calls: FileCalls): void {
  try {
    discard(leaseFiles(path), calls);
  } catch {
    // The folder cannot be read, or is gone too.
  }
}

/** Removes a file, or a folder with its content. @throws EspalierError `write-failed` */
function removeWhole(path: string): void {
  try {
    uninterrupted(() => rmSync(path, { recursive: true, force: true }));
  } catch (cause) {
    const message = `${path} could not be removed (${systemCode(cause) ?? "see cause"}); make its folder writable, and remove the session again.`;
    throw new EspalierError("write-failed", message, { cause });
  }
}

/** Returns the header of a file; undefined for a file that has none, is gone, or cannot be read. */
export function headerOfFile(path: string): SessionHeader | undefined {
  try {
    return withView(path, firstHeader);
  } catch (error) {
    // Same as for a list: a file that cannot be opened has no header.
    if (error instanceof EspalierError) return undefined;
    throw error;
  }
}

/** Returns the listing of a file; undefined for a file that is not a session or cannot be read, which a list skips. */
async function listFile(
  path: string,
  modified: number,
  calls: FileCalls,
  how: StoreListOptions | undefined,
): Promise<SessionListing | undefined> {
  let log: FileLog | undefined;
  try {
    log = FileLog.open(path, "read", calls);
    const at = { ref: path, modified: new Date(modified).toISOString(), bytes: log.upgraded?.original.size };
    return listingOf(log.view, at);
  } catch (error) {
    if (!(error instanceof EspalierError)) throw error;
    // Other errors: the file is no session, or was removed since the search.
    if (error.code === "unreadable") how?.onSkipped?.(path, error);
    return undefined;
  } finally {
    await log?.close();
  }
}

interface Known {
  /** Facts that change when the file is written or replaced. */
  facts: number[];
  listing: SessionListing;
}

/** Version of the cache file's format. A cache file of another version is ignored. */
const SHAPE = 7;

/**
 * Cache of listings, in `<home>/listings.json` (mode 0600). With it, a list opens only files that have changed: the
 * last name and the last compaction of a session can require reading the whole file. Derived data: a list is the same
 * without it, or when it is damaged, only slower.
 */
class ListingCatalogue {
  readonly #path: string;
  readonly #known: Map<string, Known>;
  #hasChanged = false;

  constructor(home: string) {
    this.#path = join(home, "listings.json");
    const { shape, sessions } = (readDerived(this.#path) ?? {}) as {
      shape?: unknown;
      sessions?: Record<string, Known>;
    };
    this.#known = new Map(shape === SHAPE && sessions ? Object.entries(sessions) : []);
  }

  /** Returns the listing of a file with unchanged facts. */
  find(path: string, facts: Stats): SessionListing | undefined {
    const known = this.#known.get(path);
    const isSame = keyFacts(facts).every((fact, at) => fact === known?.facts?.[at]);
    return isSame && known?.listing?.ref === path ? known.listing : undefined;
  }

  set(path: string, facts: Stats, listing: SessionListing): void {
    this.#known.set(path, { facts: keyFacts(facts), listing });
    this.#hasChanged = true;
  }

  /** Removes the files for which `isGone` returns true. */
  forget(isGone: (path: string) => boolean): void {
    for (const path of this.#known.keys())
      if (isGone(path) && this.#known.delete(path)) this.#hasChanged = true;
  }

  /** Saves the cache for the next list. When two processes save at once, one of them wins. */
  save(): void {
    if (!this.#hasChanged) return;
    // Files in folders that are no longer listed are removed too.
    this.forget((path) => !existsSync(path));
    const sessions = Object.fromEntries(this.#known);
    writeDerived(this.#path, JSON.stringify({ shape: SHAPE, sessions }));
  }
}

const keyFacts = ({ size, mtimeMs, ctimeMs, ino }: Stats): number[] => [size, mtimeMs, ctimeMs, ino];

/** A session in a file. A file in an old format is read as the current one, and rewritten at the first append. */
export class FileLog implements SessionLog {
  readonly ref: string;
  readonly header: SessionHeader | undefined;
  upgraded: UpgradedLog | undefined;
  /** Size of the file from which {@link upgraded} was made. */
  readonly #openedSize: number;
  readonly #calls: FileCalls;
  readonly #processes: Processes;
  /** Set while this process rewrites the file in the current format. */
  #upgrading: Promise<void> | undefined;
  #file: AppendFile;
  /** Start of the bytes that were read and are not reported to the caller yet. */
  #untold: number | undefined;
  /** True when there are appended lines to sync. */
  #hasAppended = false;

  private constructor(
    file: AppendFile,
    header: SessionHeader | undefined,
    calls: FileCalls,
    processes: Processes,
  ) {
    const view = file.view();
    this.#calls = calls;
    this.#processes = processes;
    this.#file = file;
    this.#openedSize = view.size;
    this.ref = file.path;
    this.header = header;
    this.upgraded = upgradeLog(view, header);
  }

  /**
   * Opens the file of a session. With `tighten`, opening for writing removes the rights of other users on the file.
   * @throws EspalierError `not-found`, `not-a-file`, `unreadable`, `empty-file`; for writing `not-ours`, `read-only`
   */
  static open(
    path: string,
    mode: OpenMode,
    calls: FileCalls = nodeFileCalls,
    { tighten = false, processes = systemProcesses }: { tighten?: boolean; processes?: Processes } = {},
  ): FileLog {
    const file = openAppendFile(path, { mode, tighten, calls });
    try {
      const view = file.view();
      if (view.size === 0) {
        throw new EspalierError(
          "empty-file",
          `${file.path} is empty, but a session begins with a header line; replace it with a copy of the session, or remove it.`,
        );
      }
      return new FileLog(file, firstHeader(view), calls, processes);
    } catch (error) {
      file.close();
      throw error;
    }
  }

  /** Creates a file with a header and lines, durably and never over another file, and opens it. Throws `exists`. */
  static async create(
    path: string,
    header: SessionHeader | string,
    lines: Iterable<string | Uint8Array>,
    calls: FileCalls = nodeFileCalls,
  ): Promise<FileLog> {
    await makingOf(path, () => createWholeAsync(path, wholeLines(header, lines), { calls }));
    return FileLog.open(path, "write", calls);
  }

  get view(): ByteView {
    return this.upgraded?.view ?? this.#file.view();
  }

  async load(): Promise<ByteView> {
    return this.view;
  }

  async readPath(leafId?: string) {
    return readPathWindow(this.view, leafId);
  }

  async append(
    lines: readonly string[],
    { durability, ifUnchanged = false }: LineAppendOptions = {},
  ): Promise<LogAppend> {
    if (this.upgraded && encodeBriefly(lines).length > 0) {
      this.#upgrading ??= this.#upgradeOnDisk().finally(() => {
        this.#upgrading = undefined;
      });
      await this.#upgrading;
    }
    const at = ifUnchanged ? await this.#appendIfUnchanged(lines) : this.#append(lines);
    if (durability === "fsync") await this.flush();
    return at;
  }

  /** Same as {@link append} without options, but synchronous, for hosts whose calls cannot wait. {@link flush} syncs. */
  appendSync(lines: readonly string[]): LogAppend {
    if (this.upgraded && encodeBriefly(lines).length > 0) {
      this.#file.append(NOTHING);
      const release = takeFileLeaseSync(this.ref, this.#turn("upgrade"));
      try {
        this.#putUpgraded();
      } finally {
        release();
      }
    }
    return this.#append(lines);
  }

  /** Appends if the log is unchanged. A lease of its own makes such appends run one at a time, in all processes. */
  async #appendIfUnchanged(lines: readonly string[]): Promise<LogAppend> {
    const turn = await takeFileLease(this.ref, this.#turn("turn"));
    try {
      const came = this.#file.takeIn();
      if (came) {
        this.#untold ??= came.from;
        throw grown(this.ref);
      }
      return this.#append(lines);
    } finally {
      await turn.release();
    }
  }

  #append(lines: readonly string[]): LogAppend {
    const own = encodeBriefly(lines);
    if (this.upgraded) {
      const { size } = this.upgraded.view;
      return { offset: size, length: 0, from: size, to: size };
    }
    // Set before the write, because a part of the lines can be in the file after a failure.
    if (own.length > 0) this.#hasAppended = true;
    const { offset, length, from, to } = this.#file.append(own);
    const at = { offset, length, from: this.#untold ?? from, to };
    this.#untold = undefined;
    return at;
  }

  async flush(): Promise<void> {
    if (this.#hasAppended) await this.#file.synced();
  }

  async takeIn() {
    const came = this.#file.takeIn();
    // Lines that an older program appends in the meantime are read when the file is opened again.
    if (this.upgraded) return null;
    const from = this.#untold ?? came?.from;
    this.#untold = undefined;
    return from === undefined ? null : { from, to: came?.to ?? this.#file.view().size };
  }

  /** Closes the file. Nothing is written. */
  async close(): Promise<void> {
    this.#file.close();
  }

  async #upgradeOnDisk(): Promise<void> {
    // Appending nothing throws the error of an opening that cannot write, before anything is written.
    this.#file.append(NOTHING);
    const lease = await takeFileLease(this.ref, this.#turn("upgrade"));
    try {
      this.#putUpgraded();
    } finally {
      await lease.release();
    }
  }

  /**
   * Replaces the file with its upgraded content. The original is kept next to it as `<file>.v1` or `.v2`. When two
   * processes upgrade a file, the second one detects that the file was replaced, and throws `changed`.
   */
  #putUpgraded(): void {
    const calls = this.#calls;
    const { view, from } = this.upgraded!;
    this.#file.append(NOTHING);
    const keepAs = `${this.ref}.v${from}`;
    replaceWhole(this.ref, [view.read(0, view.size)], { keepAs, expectedSize: this.#openedSize, calls });
    // Opened before the old file is closed: if this fails, the next append reports that the file was replaced.
    const file = openAppendFile(this.ref, { mode: "write", calls });
    this.#file.close();
    this.#file = file;
    this.upgraded = undefined;
  }

  #turn(name: keyof typeof WAIT_MS) {
    return { name, waitMs: WAIT_MS[name], calls: this.#calls, processes: this.#processes };
  }
}

const NOTHING = new Uint8Array();

/** Milliseconds to wait for another comparing append (a few each), or for an upgrade, which rewrites the file. */
const WAIT_MS = { turn: 10_000, upgrade: 60_000 };
