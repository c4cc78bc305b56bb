import { createHash } from "node:crypto";
import {
  appendFileSync,
  closeSync,
  openSync,
  readdirSync,
  readFileSync,
  type Stats,
  statSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { basename, join, relative, resolve, sep } from "node:path";
import { EspalierError } from "@espalier/jsonl-stream";
import { discard, nodeFileCalls, systemCode, uninterrupted } from "@espalier/jsonl-stream/node";
import { idTakenError } from "../entry/error.ts";
import { makeFolder, writeDerived } from "./files.ts";
import { type Processes, type ProcessIdentity, takeFileLease } from "./lease.ts";

/** Bytes of the list of known files up to which folders are read at every question: some thousand names, one millisecond. */
const SMALL = 64 * 1024;

/** Bytes of that list for which reading the folders again waits a millisecond: it takes about a hundredth of the time then. */
const BYTES_A_MS = 400;

/** New files whose headers are read at once; where there are more, names that the store gives are believed. */
const READ_AT_ONCE = 1_000;

/** Milliseconds after which a claim without a session was left by a process that died. */
const CLAIM_MS = 60_000;
const STORE_NAME = /^\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d-\d{3}Z_([^_/\\]+)\.jsonl$/;

/** A claim: which files have an id. Its first line is this, as JSON; a second one says that the files are there. */
interface Claim {
  id: string;
  files: string[];
  by: ProcessIdentity;
  isMade: boolean;
}

/** Files below a folder, relative to it, by their ids. */
type FilesById = ReadonlyMap<string, string[]>;

/** What was found in this turn of the event loop, by folder: sessions that are made at once look once. */
const looks = new Map<string, FilesById>();

/**
 * The ids of the sessions below a home. A session whose place the store chose has a claim on its id, a file of its own
 * in `<home>/ids`, made by a call that fails where it exists: so an id is taken once, and found without reading a folder.
 *
 * Files that come by other ways (copies, older programs, backups) are found by reading the folders, which `ids/known`
 * remembers. In a small store that happens at every question; in a large one it may take one percent of the time, so that
 * a copy is noticed within seconds (40,000 sessions: 7). Everything here is derived: without it the folders are read.
 */
export class SessionIds {
  readonly #folder: string;
  readonly #claims: string;
  readonly #known: string;
  readonly #idOf: (path: string) => string | undefined;
  readonly #processes: Processes;

  /** @param idOf the id in a file's header; undefined where it has none, or is gone */
  constructor(home: string, idOf: (path: string) => string | undefined, processes: Processes) {
    this.#processes = processes;
    this.#folder = join(home, "sessions");
    this.#claims = join(home, "ids");
    this.#known = join(this.#claims, "known");
    this.#idOf = idOf;
  }

  /**
   * The one file with this id.
   * @throws EspalierError `not-found`, `ambiguous`, `unreadable`
   */
  find(id: string): string {
    const files = this.#filesOf(id, true, true);
    if (files.length === 1) return files[0]!;
    if (files.length === 0)
      throw new EspalierError(
        "not-found",
        `There is no session with the id ${JSON.stringify(id)}; \`espalier list\` shows the sessions there are.`,
      );
    throw new EspalierError(
      "ambiguous",
      `${files.length} files have the id ${id}: ${files.sort().join(" and ")}; name one of them, or delete the one that is not wanted.`,
    );
  }

  /**
   * Makes a session with an id that no other one below the home has.
   * @throws EspalierError `exists`, `write-failed`, and what `make` throws
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
      // The session is there, and found by its file; the claim counts as being made for a minute.
    }
    return made;
  }

  /** Gives an id back whose file was removed. */
  forget(id: string): void {
    // A claim that stays names a file that is gone, which is no claim.
    if (this.#claimed(id).length === 0) remove(this.#claimOf(id));
  }

  async #take(id: string, claim: string, path: string): Promise<void> {
    const text = `${JSON.stringify({ id, files: [path], by: this.#processes.own() })}\n`;
    for (let attempt = 1; ; attempt += 1) {
      const [taken] = this.#filesOf(id, false, attempt > 1);
      if (taken !== undefined) throw idTakenError(id, `in ${taken}`);
      try {
        makeFolder(this.#claims);
        putNew(claim, text);
        return;
      } catch (cause) {
        if (cause instanceof EspalierError) throw cause;
        const code = systemCode(cause);
        if (code !== "EEXIST")
          throw new EspalierError(
            "write-failed",
            `The id ${id} could not be taken in ${this.#claims} (${code ?? "see cause"}); make that folder writable.`,
            { cause },
          );
      }
      if (this.#isBeingMade(claim)) throw idTakenError(id, "which is being made");
      await this.#removeStale(claim);
    }
  }

  /** One at a time: of two that find a claim stale, the second looks again, and finds that of the first. */
  async #removeStale(claim: string): Promise<void> {
    const lease = await takeFileLease(claim, { waitMs: CLAIM_MS, processes: this.#processes });
    try {
      // A file that says something else by now, or nothing, is none of this id.
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
      // A folder that cannot be read is left to the program that makes it.
      return true;
    }
    if (!facts || Date.now() - facts.mtimeMs > CLAIM_MS) return false;
    const said = readClaim(claim);
    // Nothing is said yet by one that is being written.
    return said === undefined || (!said.isMade && this.#processes.mayBeRunning(said.by));
  }

  #claimOf(id: string): string {
    // Ids differ by case, and may hold what no file name can.
    return join(this.#claims, createHash("sha256").update(id).digest("hex").slice(0, 32));
  }

  /** Files that the claim of an id names, and that have it. */
  #claimed(id: string): string[] {
    const files = readClaim(this.#claimOf(id))?.files ?? [];
    return files.filter((file) => this.#idOf(file) === id);
  }

  /**
   * @param isSure whether folders are read rather than to answer that there is none
   * @param isFresh whether they are read again where another question of this turn of the event loop read them
   */
  #filesOf(id: string, isSure: boolean, isFresh: boolean): string[] {
    if (id === "") return [];
    let facts: Stats | undefined;
    try {
      facts = statSync(this.#known, { throwIfNoEntry: false });
    } catch {
      // An index that cannot be read is ignored: the folders are read.
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

  /** Files of the list of known ones that have an id; found in its bytes, without reading it as lines. */
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
    // A file that says something else by now: what was known is known no more.
    if (sound.length < found.length) remove(this.#known);
    return sound;
  }

  /** Reads the folders, and the headers of files that were not known. */
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
    // What could not be read now may be read by the next.
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
      // Damaged, as a power cut may leave it: it is made again.
      return new Map();
    }
  }

  /** Keeps what is known now; an id that several files have is claimed for all of them. */
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
      // Not ours to write, or gone: the folders are read again, which is all that is lost.
    }
  }

  #write(path: string, text: string): void {
    try {
      makeFolder(this.#claims);
    } catch {
      // Nothing can be written: the folders are read again.
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
    // None, or one that its maker has not written yet.
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

/** Makes a file that is not there yet. When it throws, the file is not this call's. */
function putNew(path: string, text: string): void {
  const fd = uninterrupted(() => openSync(path, "wx", 0o600));
  try {
    try {
      writeFileSync(fd, text);
    } finally {
      closeSync(fd);
    }
  } catch (error) {
    remove(path);
    throw error;
  }
}

const remove = (path: string): void => discard([path], nodeFileCalls);

/** The names of session files below a folder, without a look at any of them; no link is followed. */
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
