import { constants, readdirSync, readFileSync, readlinkSync } from "node:fs";
import { hostname } from "node:os";
import { basename, dirname, join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { EspalierError } from "@espalier/jsonl-stream";
import {
  closeFile,
  discard,
  type FileCalls,
  type FileFacts,
  linkNew,
  nodeFileCalls,
  systemCode,
  uninterrupted,
  withView,
} from "@espalier/jsonl-stream/node";
import { busyError } from "../entry/error.ts";
import type { LeaseOptions, SessionLease } from "./store.ts";

interface Lease extends ProcessIdentity {
  /** ISO 8601, UTC. */
  since: string;
  /** Distinguishes two leases of one process. */
  owner: string;
}

/**
 * Kinds of leases. `lease`: write the session. `upgrade`: rewrite its file in the current format. `turn`: one append
 * that compares first.
 */
const NAMES = ["lease", "upgrade", "turn"] as const;

/** Options of a lease of a file. */
export interface FileLeaseOptions extends LeaseOptions {
  /** Kind of lease. Default `lease`. */
  name?: (typeof NAMES)[number];
  /** Calls to the file system. Default: those of `node:fs`. */
  calls?: FileCalls;
  /** Processes that compete for the lease. Default: those of this machine. */
  processes?: Processes;
}

/** Milliseconds after which a rival that neither takes the lease nor withdraws its candidate is reported as the owner. */
const RIVALS_MS = 5_000;

/** Milliseconds after which an unfinished draft counts as left by a process that died while writing it. */
const DRAFT_MS = 60_000;

/** Attempts to remove a file, so that a single failing call leaves nothing behind. */
const REMOVALS = 3;

/**
 * Takes the lease of a session file, `<file>.lease`, or another one of `NAMES`.
 *
 * A process (1) creates its own complete candidate next to the file, `<file>.lease-<12 hex digits>`. It (2) looks for
 * candidates of other living processes. If there are none, it (3) reads the lease. If the lease has no living owner, it
 * (4) renames its candidate to the lease. Two processes never both get the lease: of two that reach (4), let A be the one
 * that created its candidate first. The candidate exists until A's (4). So B, which looks later, either finds it in (2)
 * and stops, or looks after A's (4) and finds A's lease in (3). When two processes find each other's candidates, the
 * one with the smaller name keeps its candidate and looks again, and the other withdraws its own for a moment.
 *
 * If there is no lease file, a simpler step comes first and no folder is read: the candidate is linked to the name of
 * the lease, which fails if another process was faster. Renaming is needed only to replace the lease of a dead owner.
 *
 * @throws EspalierError `busy` with the `holder`, after `waitMs` or 5 s of rivals that neither take the lease nor
 * withdraw; `not-found` when the folder is gone; `write-failed` for all other failures
 */
export async function takeFileLease(path: string, options: FileLeaseOptions = {}): Promise<SessionLease> {
  const { processes = systemProcesses } = options;
  const steps = takingLease(path, options);
  for (;;) {
    const step = steps.next();
    if (step.done) return { release: async () => step.value() };
    await processes.pause(step.value);
  }
}

/**
 * Same as `takeFileLease`, but synchronous, for hosts whose calls cannot wait. Returns the function that releases the
 * lease. Blocks the thread: for a few milliseconds while two processes want the lease at once, and up to `waitMs` while
 * another writer holds it.
 */
export function takeFileLeaseSync(path: string, options: FileLeaseOptions = {}): () => void {
  const steps = takingLease(path, options);
  const never = new Int32Array(new SharedArrayBuffer(4));
  for (;;) {
    const step = steps.next();
    if (step.done) return step.value;
    Atomics.wait(never, 0, 0, step.value);
  }
}

/** Takes a lease. Yields the milliseconds to wait before the next attempt; returns the function that releases the lease. */
function* takingLease(
  path: string,
  { waitMs = 0, name = "lease", calls = nodeFileCalls, processes = systemProcesses }: FileLeaseOptions,
): Generator<number, () => void> {
  const files = new LeaseFiles(`${path}.${name}`, calls, processes);
  const owner = calls.randomName();
  const own = `${files.path}-${owner}`;
  try {
    let waited = 0;
    const since = new Date(processes.now()).toISOString();
    const lease: Lease = { ...processes.own(), since, owner };
    let facts: FileFacts | undefined;
    const withdraw = () => {
      files.remove(own, owner);
      facts = undefined;
    };
    let canLink = true;
    for (;;) {
      // Created once and then not touched, so that every listing of the folder contains it.
      facts ??= files.put(own, lease);
      const linked: boolean | undefined = canLink ? files.link(own) : undefined;
      if (linked) {
        const held = facts;
        discard([own], calls);
        return () => release(files, owner, held);
      }
      canLink = linked === false;
      const rivals = files.rivalsOf(own);
      const holder = files.read(files.path);
      let pause: number;
      if (files.isLive(holder)) {
        withdraw();
        if (waited >= waitMs) throw busy(files, path, holder);
        pause = 10;
      } else if (rivals.length === 0) {
        // Released after it was read.
        if (canLink && !files.isThere()) continue;
        const held = facts;
        uninterrupted(() => calls.renameSync(own, files.path));
        return () => release(files, owner, held);
      } else {
        if (waited > RIVALS_MS) throw busy(files, path, rivals[0]!.lease);
        if (rivals.some((rival) => rival.path < own)) withdraw();
        pause = 1 + Math.random() * 4;
      }
      waited += pause;
      yield pause;
    }
  } catch (error) {
    try {
      files.remove(own, owner);
    } catch {
      // The lease counts as free in this process now, and the first error says more.
    }
    if (error instanceof EspalierError && error.code === "busy") throw error;
    throw leaseError(path, name, error);
  }
}

/**
 * Returns the lease files of a session: its leases, candidates for them, and drafts of processes that died while
 * writing them.
 */
export function leaseFiles(path: string): string[] {
  const beside = readdirSync(dirname(path)).map((name) => join(dirname(path), name));
  return NAMES.flatMap((name) => {
    const beginning = `${path}.${name}`;
    const isOurs = (file: string) => /^(?:|-[0-9a-f]{12}(?:\.tmp)?)$/.test(file.slice(beginning.length));
    return beside.filter((file) => file.startsWith(beginning) && isOurs(file));
  });
}

/** Removes the lease. A second call does nothing; a call after a failure tries again. */
function release(files: LeaseFiles, owner: string, { dev, ino, mtimeNs }: FileFacts): void {
  try {
    // No process takes a lease from a living owner. If the file is another one now, a person or our successor created
    // it.
    files.remove(
      files.path,
      owner,
      (facts) => facts.ino === ino && facts.dev === dev && facts.mtimeNs === mtimeNs,
    );
  } catch (cause) {
    const code = systemCode(cause) ?? "see cause";
    const message = `${files.path} could not be removed (${code}). For this process the session is free; remove that file for others.`;
    throw new EspalierError("write-failed", message, { cause });
  }
}

class LeaseFiles {
  /** Path of the lease itself. */
  readonly path: string;
  readonly #calls: FileCalls;
  readonly processes: Processes;

  constructor(path: string, calls: FileCalls, processes: Processes) {
    this.path = path;
    this.#calls = calls;
    this.processes = processes;
  }

  /** Writes a lease under another name and renames it, so that a reader sees either all of it or nothing. */
  put(path: string, lease: Lease): FileFacts {
    const calls = this.#calls;
    const draft = `${path}.tmp`;
    const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL;
    try {
      const fd = uninterrupted(() => calls.openSync(draft, flags, 0o600));
      let facts: FileFacts;
      try {
        const bytes = Buffer.from(`${JSON.stringify(lease)}\n`);
        const count = uninterrupted(() => calls.writeSync(fd, bytes, 0, bytes.length, null));
        if (count < bytes.length) throw new EspalierError("short-write", `${draft} did not fit on its disk.`);
        facts = uninterrupted(() => calls.fstatSync(fd));
      } finally {
        closeFile(draft, fd, calls);
      }
      uninterrupted(() => calls.renameSync(draft, path));
      return facts;
    } catch (error) {
      discard([draft], calls);
      throw error;
    }
  }

  /**
   * Links a candidate to the name of the lease. Returns false when there is a lease, undefined when the file system has
   * no links.
   */
  link(candidate: string): boolean | undefined {
    try {
      return linkNew(candidate, this.path, this.#calls) || undefined;
    } catch (error) {
      if (error instanceof EspalierError && error.code === "exists") return false;
      throw error;
    }
  }

  /** Returns whether a file with the name of the lease exists. */
  isThere(): boolean {
    return uninterrupted(() => this.#calls.lstatSync(this.path)) !== undefined;
  }

  /**
   * Returns a lease; undefined when there is none or when it is not readable: a lease that a power failure damaged has
   * no living owner.
   */
  read(path: string): Lease | undefined {
    let text: string;
    try {
      text = withView(path, (view) => Buffer.from(view.read(0, view.size)).toString(), {
        calls: this.#calls,
      });
    } catch (error) {
      // Reading a FIFO would block, and a link leads to a file that is not ours.
      if (error instanceof EspalierError && ["not-found", "not-a-file", "shrunk"].includes(error.code))
        return undefined;
      throw error;
    }
    try {
      const lease = JSON.parse(text) as Lease;
      if (!isProcessNumber(lease?.pid) || typeof lease.host !== "string") return undefined;
      // Another version may have written fewer fields; the process number and the host are enough.
      return { ...lease, since: typeof lease.since === "string" ? lease.since : "" };
    } catch {
      // Never written like this by a living owner: see `put`.
      return undefined;
    }
  }

  isLive(lease: Lease | undefined): lease is Lease {
    return (
      lease !== undefined && !this.processes.abandoned.has(lease.owner) && this.processes.mayBeRunning(lease)
    );
  }

  /** Returns the candidates of other living processes. Removes those of dead processes. */
  rivalsOf(own: string): { path: string; lease: Lease }[] {
    const rivals = [];
    const beginning = `${basename(this.path)}-`;
    const folder = dirname(this.path);
    for (const name of uninterrupted(() => this.#calls.readdirSync(folder))) {
      if (!name.startsWith(beginning)) continue;
      const ending = name.slice(beginning.length);
      const path = join(folder, name);
      if (/^[0-9a-f]{12}\.tmp$/.test(ending)) this.#sweepDraft(path);
      if (path === own || !/^[0-9a-f]{12}$/.test(ending)) continue;
      const lease = this.read(path);
      if (this.isLive(lease)) rivals.push({ path, lease });
      else discard([path], this.#calls);
    }
    return rivals;
  }

  /**
   * Removes a file. If that fails, empties it, so that it has no owner. If that fails too, `owner` counts as free in
   * this process, and the error is thrown.
   */
  remove(path: string, owner: string, isOurs: (facts: FileFacts) => boolean = () => true): void {
    let failure: unknown;
    for (let attempt = 0; attempt < REMOVALS; attempt += 1) {
      try {
        const there = uninterrupted(() => this.#calls.lstatSync(path));
        if (there && isOurs(there)) uninterrupted(() => this.#calls.unlinkSync(path));
        return;
      } catch (error) {
        if (systemCode(error) === "ENOENT") return;
        failure = error;
      }
    }
    try {
      this.#empty(path, isOurs);
    } catch {
      this.processes.abandoned.add(owner);
      throw failure;
    }
  }

  #empty(path: string, isOurs: (facts: FileFacts) => boolean): void {
    const flags = constants.O_WRONLY | (constants.O_NOFOLLOW ?? 0) | (constants.O_NONBLOCK ?? 0);
    const fd = uninterrupted(() => this.#calls.openSync(path, flags));
    try {
      if (isOurs(uninterrupted(() => this.#calls.fstatSync(fd))))
        uninterrupted(() => this.#calls.ftruncateSync(fd, 0));
    } finally {
      closeFile(path, fd, this.#calls);
    }
  }

  #sweepDraft(path: string): void {
    const there = uninterrupted(() => this.#calls.lstatSync(path));
    const age = this.processes.now() - Number((there?.mtimeNs ?? 0n) / 1_000_000n);
    if (there && age > DRAFT_MS) discard([path], this.#calls);
  }
}

/**
 * Returns whether a value is a process number. The system takes 0 and negative numbers for groups of processes,
 * including our own.
 */
const isProcessNumber = (pid: unknown): boolean => Number.isInteger(pid) && (pid as number) > 0;

function busy(files: LeaseFiles, path: string, { pid, host, since }: Lease): EspalierError {
  const own = files.processes.own();
  const isHere = host === own.host;
  const isOurs = isHere && pid === own.pid;
  return busyError(
    path,
    { pid, host, since },
    {
      ...(files.path.endsWith(".upgrade") ? { act: "upgraded to the current format" } : {}),
      ...(isHere ? {} : { cure: `or, if that machine no longer uses it, remove ${files.path}` }),
      ...(isOurs ? { cure: "or close it: that process is this one" } : {}),
    },
  );
}

function leaseError(path: string, name: string, cause: unknown): EspalierError {
  const code = systemCode(cause);
  const gone = `${path} or its folder no longer exists; name an existing session.`;
  if (code === "ENOENT") return new EspalierError("not-found", gone, { cause });
  const message = `The ${name} of ${path} could not be taken (${code ?? "see cause"}); check the permissions of its folder and the free space on the disk, or copy the session to another folder.`;
  return new EspalierError("write-failed", message, { cause });
}

/**
 * Identity of a process, distinct from later processes with the same number. Fields are null when the system does not
 * provide them.
 */
export interface ProcessIdentity {
  pid: number;
  /**
   * Start of the process, in ticks since the start of the machine. Another process with the same number has another
   * value.
   */
  processStart: string | null;
  /** Start of the machine. After the next one, a process number has no meaning. */
  boot: string | null;
  host: string;
  /** Namespace of the process number: each container on a machine has its own. */
  pidSpace: string | null;
}

let known: ProcessIdentity | undefined;

/** Error codes that give no information about a process. */
const SILENT: ReadonlySet<string> = new Set(["ENOENT", "ENOTDIR", "ESRCH", "EACCES", "EPERM"]);

/** The processes and the clock of a machine; tests pass simulated ones. */
export type Processes = typeof systemProcesses;

/** The processes and the clock of this machine. */
export const systemProcesses = {
  /** Identity of this process. */
  own: ownIdentity,
  /**
   * Returns whether a process may still be running. A process on another machine or in another namespace of process
   * numbers cannot be checked from here, so it counts as running. So does a process in an unknown state.
   * @throws EspalierError `unreadable`
   */
  mayBeRunning,
  /** Returns the current time in milliseconds since 1970. */
  now: (): number => Date.now(),
  /** Waits for a number of milliseconds. */
  pause: (milliseconds: number): Promise<void> => setTimeout(milliseconds),
  /** Owners of leases that this process released and whose files it could not remove. They count as free. */
  abandoned: new Set<string>(),
};

function ownIdentity(): ProcessIdentity {
  known ??= {
    pid: process.pid,
    processStart: startOf(process.pid),
    boot: read("/proc/sys/kernel/random/boot_id")?.trim() ?? null,
    host: hostname(),
    pidSpace: pidSpace(),
  };
  return known;
}

function mayBeRunning(other: ProcessIdentity): boolean {
  const own = ownIdentity();
  if (other.host !== own.host) return true;
  if (other.boot !== null && own.boot !== null && other.boot !== own.boot) return false;
  if (other.pidSpace !== own.pidSpace) return true;
  if (!exists(other.pid)) return false;
  const start = startOf(other.pid);
  // The process has ended in the meantime, or the system does not tell when processes were started.
  if (start === null) return other.processStart === null || exists(other.pid);
  return other.processStart === null || other.processStart === start;
}

function exists(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    // A process of another user cannot be signalled, but it exists.
    const { code } = error as NodeJS.ErrnoException;
    if (code === "EPERM") return true;
    if (code === "ESRCH") return false;
    throw new EspalierError("unreadable", `The state of process ${pid} cannot be read; try again.`, {
      cause: error,
    });
  }
}

/**
 * Returns the 22nd field of `/proc/<pid>/stat`. Fields are counted after the name, which can contain spaces and
 * brackets. A zombie counts as ended.
 */
function startOf(pid: number): string | null {
  const stat = read(`/proc/${pid}/stat`);
  if (stat === undefined) return null;
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return fields[0] === "Z" || fields[0] === "X" ? "ended" : (fields[19] ?? null);
}

function pidSpace(): string | null {
  try {
    return readlinkSync("/proc/self/ns/pid");
  } catch {
    // Not Linux, or not permitted. All numbers of the machine then count as one namespace.
    return null;
  }
}

function read(path: string): string | undefined {
  try {
    return uninterrupted(() => readFileSync(path, "utf8"));
  } catch (cause) {
    const code = systemCode(cause) ?? "see cause";
    // A system without /proc, a process that has just ended, or one that this user may not read.
    if (SILENT.has(code)) return undefined;
    // For example, no descriptors are left. Undefined would be remembered as the truth, so this throws.
    throw new EspalierError("unreadable", `${path} cannot be read (${code}); try again.`, { cause });
  }
}
