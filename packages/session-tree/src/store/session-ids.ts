// Separate from file-store.ts: it is a cache on disk, which the store can do without.
import { createHash } from "node:crypto";
import { appendFileSync, readdirSync, readFileSync, type Stats, statSync, utimesSync } from "node:fs";
import { basename, join, relative, resolve, sep } from "node:path";
import { EspalierError } from "@espalier/jsonl-stream";
import { createWhole, discard, nodeFileCalls, systemCode, uninterrupted } from "@espalier/jsonl-stream/node";
import { idTakenError } from "../entry/error.ts";
import { makeFolder, writeDerived } from "./files.ts";
import { type Processes, type ProcessIdentity, takeFileLease } from "./lease.ts";

/**
 * Maximum size of the list of known files, in bytes, with which the folders are read at every lookup: a few thousand
 * names, about one millisecond.
 */
const SMALL = 64 * 1024;

/**
 * Bytes of the list of known files for each millisecond until the folders are read again. Reading the folders then
 * takes about one percent of the time.
 */
const BYTES_A_MS = 400;

/** Number of new files whose headers are read at once. When there are more, ids in file names of the store are trusted. */
const READ_AT_ONCE = 1_000;

/** Milliseconds after which a claim without a session counts as left by a dead process. */
const CLAIM_MS = 60_000;
const STORE_NAME = /^\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d-\d{3}Z_([^_/\\]+)\.jsonl$/;

/**
 * Claim of an id: the files that have it. The first line of a claim file is this object as JSON; a second line says
 * that the files exist.
 */
interface Claim {
  id: string;
  files: string[];
  by: ProcessIdentity;
  isMade: boolean;
}

/** Files below a folder, as relative paths, by their ids. */
type FilesById = ReadonlyMap<string, string[]>;

/** Files found in this turn of the event loop, by folder, so that sessions created at the same time share one search. */
const looks = new Map<string, FilesById>();

/**
 * The ids of the sessions below a home. Every session whose file name the store chose has a claim on its id: a file in
 * `<home>/ids` that can be created only once. So an id is used once, and it is found without reading a folder.
 *
 * Files from other sources (copies, older programs, backups) are found by reading the folders; `ids/known` caches the
 * result. In a small store this happens at every lookup. In a large one it may take one percent of the time, so a copy
 * is noticed within seconds (40,000 sessions: 7 s). All files in `ids` are derived data: without them the folders are
 * read.
 */
export class SessionIds {
  readonly #folder: string;
  readonly #claims: string;
  readonly #known: string;
  readonly #idOf: (path: string) => string | undefined;
  readonly #processes: Processes;

  /** @param idOf returns the id in a file's header; undefined when the file has none or is gone */
  constructor(home: string, idOf: (path: string) => string | undefined, processes: Processes) {
    this.#processes = processes;
    this.#folder = join(home, "sessions");
    this.#claims = join(home, "ids");
    this.#known = join(this.#claims, "known");
    this.#idOf = idOf;
  }

  /**
   * Returns the path of the only file with this id.
   * @throws EspalierError `not-found`, `ambiguous`, `unreadable`
   */
  find(id: string): string {
    const files = this.#filesOf(id, true, true);
    if (files.length === 1) return files[0]!;
    if (files.length === 0) {
      const isPath = /[\\/]|\.jsonl$/.test(id);
      const cure = isPath ? "name a file by `{ file: path }`" : "`espalier list` shows all sessions";
      throw new EspalierError("not-found", `There is no session with the id ${JSON.stringify(id)}; ${cure}.`);
    }
    throw new EspalierError(
      "ambiguous",
      `${files.length} files have the id ${id}: ${files.sort().join(" and ")}; name one of them, or delete the one that is not wanted.`,
    );
  }

  /**
   * Creates a session with `make`, which writes the file at `path`, after claiming the id, which no other session below
   * the home may have. Frees the id when `make` fails.
   * @throws EspalierError `exists`, `write-failed`, `unreadable`, and the errors of `make`
   */
  async create<Made>(id: string, path: string, make: () => Promise<Made>): Promise<Made> {
    const claim = this.#claimOf(id);
    await this.#take(id, claim, path);
    let made: Made;
    try {
      made = await make();
    } catch (error) {
      remove(claim);
      throw error;
    }
    try {
      uninterrupted(() => appendFileSync(claim, "made\n"));
    } catch {
      // The session exists and is found by its file. The claim counts as unfinished for a minute.
    }
    return made;
  }

  /** Frees the id of a removed file, unless another file still has the id. */
  forget(id: string): void {
    // A claim that stays is harmless: it names a file that is gone, and so does not count.
    if (this.#claimed(id).length === 0) remove(this.#claimOf(id));
  }

  async #take(id: string, claim: string, path: string): Promise<void> {
    const bytes = Buffer.from(`${JSON.stringify({ id, files: [path], by: this.#processes.own() })}\n`);
    for (let attempt = 1; ; attempt += 1) {
      const [taken] = this.#filesOf(id, false, attempt > 1);
      if (taken !== undefined) throw idTakenError(id, `in ${taken}`);
      makeFolder(this.#claims);
      try {
        // The file gets its name together with its text, so that a killed process leaves no empty claim. Only file
        // systems without links show an empty file for a moment.
        return createWhole(claim, [bytes], { isDurable: false });
      } catch (cause) {
        if (!(cause instanceof EspalierError && cause.code === "exists"))
          throw new EspalierError(
            "write-failed",
            `The id ${id} could not be taken in ${this.#claims} (${systemCode(cause) ?? "see cause"}); check the permissions of that folder and the free space on the disk.`,
            { cause },
          );
      }
      if (this.#isBeingMade(claim)) throw idTakenError(id, "which is being made");
      await this.#removeStale(claim);
    }
  }

  /**
   * Removes a claim without a session, one process at a time: a second process that found it checks again, and finds
   * the new claim of the first.
   */
  async #removeStale(claim: string): Promise<void> {
    const lease = await takeFileLease(claim, { waitMs: CLAIM_MS, processes: this.#processes });
    try {
      // A file whose header has another id, or none, does not count.
      const said = readClaim(claim);
      const isFree = !said?.files.some((file) => this.#idOf(file) === said.id);
      if (isFree && !this.#isBeingMade(claim)) remove(claim);
    } finally {
      await lease.release();
    }
  }

  #isBeingMade(claim: string): boolean {
    let facts: Stats | undefined;
    try {
      facts = uninterrupted(() => statSync(claim, { throwIfNoEntry: false }));
    } catch {
      // A claim that cannot be read is left to the program that is creating it.
      return true;
    }
    if (!facts || Date.now() - facts.mtimeMs > CLAIM_MS) return false;
    const said = readClaim(claim);
    // A claim that is still being written is empty.
    return said === undefined || (!said.isMade && this.#processes.mayBeRunning(said.by));
  }

  #claimOf(id: string): string {
    // A digest, because ids can differ only in case, and can hold characters that file names cannot.
    return join(this.#claims, createHash("sha256").update(id).digest("hex").slice(0, 32));
  }

  /** Returns the files that are named in the claim of an id and that still have the id. */
  #claimed(id: string): string[] {
    const files = readClaim(this.#claimOf(id))?.files ?? [];
    return files.filter((file) => this.#idOf(file) === id);
  }

  /**
   * Returns the files with an id.
   *
   * @param isSure true to read the folders before returning an empty list
   * @param isFresh true to read the folders again, even if another lookup in this turn of the event loop did
   */
  #filesOf(id: string, isSure: boolean, isFresh: boolean): string[] {
    if (id === "") return [];
    let facts: Stats | undefined;
    try {
      facts = statSync(this.#known, { throwIfNoEntry: false });
    } catch {
      // An index that cannot be read is ignored, and the folders are read.
    }
    const isDue =
      !facts || facts.size <= SMALL || Math.abs(Date.now() - facts.mtimeMs) >= facts.size / BYTES_A_MS;
    if (!isDue) {
      const claimed = this.#claimed(id);
      if (claimed.length > 0) return claimed;
      const known = this.#knownFiles(id);
      if (known.length > 0) this.#write(this.#claimOf(id), claimText(id, known, this.#processes));
      if (known.length > 0 || !isSure) return known;
    }
    return this.#look(id, isFresh);
  }

  /** Returns the known files that have an id. Searches the bytes of the list without parsing its lines. */
  #knownFiles(id: string): string[] {
    const bytes = readIfThere(this.#known);
    const beginning = Buffer.from(`\n[${JSON.stringify(id)},`);
    const files: string[] = [];
    for (let at = bytes.indexOf(beginning); at >= 0; at = bytes.indexOf(beginning, at + 1)) {
      const line = bytes.subarray(at + 1, bytes.indexOf(10, at + 1)).toString();
      files.push(resolve(this.#folder, (JSON.parse(line) as [string, string])[1]));
    }
    return files.filter((file) => this.#idOf(file) === id);
  }

  #look(id: string, isFresh: boolean): string[] {
    const shared = isFresh ? undefined : looks.get(this.#folder);
    const { files, unreadable } = shared ? { files: shared } : this.#read();
    const found = (files.get(id) ?? []).map((file) => join(this.#folder, file));
    const sound = found.filter((file) => this.#idOf(file) === id);
    if (sound.length === 0 && unreadable) throw unreadable;
    // A file has another id now, so the list of known files is outdated.
    if (sound.length < found.length) remove(this.#known);
    return sound;
  }

  /** Reads the folders, and the headers of new files. */
  #read(): { files: FilesById; unreadable?: EspalierError | undefined } {
    const { files, unreadable } = filesBelow(this.#folder);
    const known = this.#readKnown();
    const isBelieved = files.filter((file) => !known.has(file)).length > READ_AT_ONCE;
    const ids = new Map<string, string>();
    let hasChanged = files.length < known.size;
    for (const file of files) {
      const before = known.get(file);
      const named = isBelieved ? STORE_NAME.exec(basename(file))?.[1] : undefined;
      const now = before || named || (this.#idOf(join(this.#folder, file)) ?? "");
      if (now !== before) hasChanged = true;
      ids.set(file, now);
    }
    const byId = new Map<string, string[]>();
    for (const [file, id] of ids) {
      const others = byId.get(id);
      if (others) others.push(file);
      else byId.set(id, [file]);
    }
    if (hasChanged) this.#keep(byId);
    else this.#touch();
    // A file that cannot be read now may be readable at the next lookup.
    if (!unreadable) {
      looks.set(this.#folder, byId);
      setImmediate(() => looks.delete(this.#folder));
    }
    return { files: byId, unreadable };
  }

  #readKnown(): Map<string, string> {
    try {
      const lines = readIfThere(this.#known).toString().split("\n");
      const pairs = lines.filter(Boolean).map((line) => JSON.parse(line) as [string, string]);
      return new Map(pairs.map(([id, file]) => [file, id]));
    } catch {
      // Damaged, for example by a power failure: it is built again.
      return new Map();
    }
  }

  /** Saves the list of known files. An id that several files have gets a claim with all of them. */
  #keep(byId: FilesById): void {
    let text = "\n";
    for (const [id, files] of byId) {
      for (const file of files) text += `${JSON.stringify([id, file])}\n`;
      if (files.length === 1 || id === "") continue;
      const paths = files.map((file) => join(this.#folder, file));
      this.#write(this.#claimOf(id), claimText(id, paths, this.#processes));
    }
    this.#write(this.#known, text);
  }

  #touch(): void {
    try {
      utimesSync(this.#known, new Date(), new Date());
    } catch {
      // Not writable, or gone: the folders are read again.
    }
  }

  #write(path: string, text: string): void {
    try {
      makeFolder(this.#claims);
    } catch {
      // Not writable: the folders are read again.
      return;
    }
    writeDerived(path, text);
  }
}

const claimText = (id: string, files: string[], processes: Processes): string =>
  `${JSON.stringify({ id, files, by: processes.own() })}\nmade\n`;

function readClaim(path: string): Claim | undefined {
  const [first = "", second] = readIfThere(path).toString().split("\n");
  try {
    const { id, files, by } = JSON.parse(first) as Claim;
    return { id, files, by, isMade: second === "made" };
  } catch {
    // No claim, or one that is not written yet.
    return undefined;
  }
}

function readIfThere(path: string): Buffer {
  try {
    return uninterrupted(() => readFileSync(path));
  } catch (error) {
    if (systemCode(error) === "ENOENT") return Buffer.alloc(0);
    throw new EspalierError("unreadable", `${path} cannot be read; check its permissions, or remove it.`, {
      cause: error,
    });
  }
}

const remove = (path: string): void => discard([path], nodeFileCalls);

/** Returns the names of session files below a folder, without opening any of them. Links are not followed. */
function filesBelow(folder: string) {
  const files: string[] = [];
  let unreadable: EspalierError | undefined;
  const waiting = [folder];
  for (let at = waiting.pop(); at !== undefined; at = waiting.pop()) {
    try {
      const place = at === folder ? "" : relative(folder, at) + sep;
      for (const entry of uninterrupted(() => readdirSync(at, { withFileTypes: true }))) {
        if (entry.isDirectory()) waiting.push(join(at, entry.name));
        else if (entry.isFile() && entry.name.endsWith(".jsonl")) files.push(place + entry.name);
      }
    } catch (cause) {
      const code = systemCode(cause);
      if (code === "ENOENT") continue;
      const message = `${at} cannot be read as a folder (${code ?? "see cause"}); check its permissions.`;
      unreadable ??= new EspalierError("unreadable", message, { cause });
    }
  }
  return { files, unreadable };
}
