import { readFileSync, readlinkSync } from "node:fs";
import { hostname } from "node:os";
import { systemCode, uninterrupted } from "@espalier/jsonl-stream/node";
import { SessionTreeError } from "../session-tree-error.ts";

/** What tells one process from all others, also from those that get its number later. Null where a system does not say. */
export interface ProcessIdentity {
  pid: number;
  /** When it was started, in ticks since the machine was; another process with the same number has another. */
  processStart: string | null;
  /** The start of the machine: a process number means nothing after the next one. */
  boot: string | null;
  host: string;
  /** The space in which the number counts: containers on one machine count for themselves. */
  pidSpace: string | null;
}

/** The processes of this machine and its clock; tests pass one in which they simulate several. */
export interface Processes {
  /** This process. */
  own(): ProcessIdentity;
  /**
   * Whether a process may still run. Of another machine, or another space of process numbers, nothing can be known
   * from here: it counts as running. What cannot be told at all counts so too.
   * @throws SessionTreeError `unreadable`
   */
  mayBeRunning(other: ProcessIdentity): boolean;
  /** Milliseconds since 1970. */
  now(): number;
  /** Waits. */
  pause(milliseconds: number): Promise<void>;
  /** Owners of leases that this process gave up and whose files it could not remove: they count as free. */
  readonly abandoned: Set<string>;
}

/** The processes and the clock of this machine. */
export const systemProcesses: Processes = {
  own: ownIdentity,
  mayBeRunning,
  now: () => Date.now(),
  pause: (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds)),
  abandoned: new Set(),
};

let known: ProcessIdentity | undefined;

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
  // Gone in between, or nothing here says when processes were started.
  if (start === null) return other.processStart === null || exists(other.pid);
  return other.processStart === null || other.processStart === start;
}

function exists(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    // A process of another user cannot be asked, but it is there.
    const { code } = error as NodeJS.ErrnoException;
    if (code === "EPERM") return true;
    if (code === "ESRCH") return false;
    throw new SessionTreeError("unreadable", `It cannot be told whether process ${pid} runs.`, {
      cause: error,
    });
  }
}

/** The 22nd field of `/proc/<pid>/stat`; counted behind the name, which may hold spaces and brackets. A zombie has ended. */
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
    // No such system, or not allowed to look: then all numbers of the machine are taken for one space.
    return null;
  }
}

/** What a system answers that says nothing about a process. */
const SILENT: ReadonlySet<string> = new Set(["ENOENT", "ENOTDIR", "ESRCH", "EACCES", "EPERM"]);

function read(path: string): string | undefined {
  try {
    return uninterrupted(() => readFileSync(path, "utf8"));
  } catch (cause) {
    const code = systemCode(cause) ?? "see cause";
    // A system without /proc, a process that has just ended, or one that may not be looked at.
    if (SILENT.has(code)) return undefined;
    // No descriptor left, for one: to go on as if nothing were known would be remembered as the truth.
    throw new SessionTreeError("unreadable", `${path} cannot be read (${code}); try again.`, { cause });
  }
}
