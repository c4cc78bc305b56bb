import { constants } from "node:fs";
import type { FileCalls, FileFacts } from "@espalier/jsonl-stream/node";
import type { Processes, ProcessIdentity } from "@espalier/session-tree/node";
import { passingCalls, SystemError } from "../../stores.ts";

/** The one folder of a simulated disk. */
export const FOLDER = "/simulated";

/** A call that a process makes, with what it was given at that moment. */
export interface Call {
  name: keyof FileCalls | "mayBeRunning" | "pause";
  args: readonly unknown[];
}

/** Result of a call: a value, or the code of an error. */
export type Outcome = { value: unknown } | { error: string };

interface Inode {
  bytes: Uint8Array;
  mode: number;
  /** Writes so far, which stand for its time. */
  writes: number;
}

interface Opened {
  inode: number;
  flags: number;
  /** Offset of the next write, for a file that was not opened to append. */
  position: number;
}

/** Numbers of each process for its inodes and descriptors, so that they do not depend on the order of steps. */
const HUNDRED = 100;

/** Thrown by every call of a process that was stopped; its results are ignored from there on. */
class Stopped extends Error {}

/** A disk and the processes that use it, at one moment. Immutable: a step returns another one. */
export class Moment {
  readonly #names = new Map<string, number>();
  readonly #inodes = new Map<number, Inode>();
  readonly #open = new Map<number, Opened>();
  readonly #dead = new Set<number>();
  #world: string | undefined;
  #key: string | undefined;

  #copy(): Moment {
    const copy = new Moment();
    for (const [name, inode] of this.#names) copy.#names.set(name, inode);
    for (const [number, inode] of this.#inodes) copy.#inodes.set(number, inode);
    for (const [fd, opened] of this.#open) copy.#open.set(fd, opened);
    for (const process of this.#dead) copy.#dead.add(process);
    return copy;
  }

  /** A disk with these files. */
  static of(files: Readonly<Record<string, Uint8Array>>): Moment {
    const moment = new Moment();
    for (const [at, [name, bytes]] of Object.entries(files).entries()) {
      moment.#names.set(`${FOLDER}/${name}`, at);
      moment.#inodes.set(at, { bytes, mode: 0o600, writes: 0 });
    }
    return moment;
  }

  /** Names the state that processes can see of each other. */
  get world(): string {
    if (this.#world === undefined) {
      const files = [...this.#names].sort(([a], [b]) => (a < b ? -1 : 1));
      const said = files.map(([name, inode]) => `${name}:${inode}`).join(" ");
      const bytes = [...this.#inodes].sort(([a], [b]) => a - b).map(([at, each]) => `${at}=${nameOf(each)}`);
      this.#world = `${said}|${bytes.join(" ")}|${[...this.#dead].sort().join()}`;
    }
    return this.#world;
  }

  /** Names the whole state. */
  get key(): string {
    if (this.#key === undefined) {
      const open = [...this.#open].sort(([a], [b]) => a - b);
      this.#key = `${this.world}|${open.map(([fd, { inode, position }]) => `${fd}:${inode}:${position}`).join()}`;
    }
    return this.#key;
  }

  /** Names in the folder. */
  get files(): string[] {
    return [...this.#names.keys()].map((path) => path.slice(FOLDER.length + 1)).sort();
  }

  bytesOf(name: string): Uint8Array | undefined {
    const inode = this.#names.get(`${FOLDER}/${name}`);
    return inode === undefined ? undefined : this.#inodes.get(inode)!.bytes;
  }

  /** Returns the moment after a process has died. */
  without(process: number): Moment {
    const next = this.#copy();
    for (const fd of next.#open.keys()) if (Math.floor(fd / HUNDRED) === process) next.#open.delete(fd);
    next.#dead.add(process);
    return next;
  }

  /** Returns the moment after a call, and the call's outcome. Inodes that nothing leads to any more are free then. */
  after(process: number, call: Call): { moment: Moment; outcome: Outcome } {
    const next = this.#copy();
    try {
      const value = next.#make(process, call);
      const used = new Set([...next.#names.values(), ...[...next.#open.values()].map(({ inode }) => inode)]);
      for (const inode of next.#inodes.keys()) if (!used.has(inode)) next.#inodes.delete(inode);
      return { moment: next, outcome: { value } };
    } catch (error) {
      if (!(error instanceof SystemError)) throw error;
      return { moment: this, outcome: { error: error.code } };
    }
  }

  #make(process: number, { name, args }: Call): unknown {
    const [fd, second, third, length, position] = args as [number, number, number, number, number];
    const [path, to] = args as [string, string];
    switch (name) {
      case "openSync":
        return this.#openFile(process, path, second, third ?? 0o600);
      case "closeSync":
        this.#open.delete(fd);
        return undefined;
      case "writeSync":
        return this.#write(fd, (args[1] as Uint8Array).subarray(third, third + length));
      case "readSync":
        return this.#inodes.get(this.#opened(fd).inode)!.bytes.slice(position, position + length);
      case "fstatSync":
        return this.#facts(this.#opened(fd).inode);
      case "lstatSync":
        return this.#names.has(path) ? this.#facts(this.#names.get(path)!) : undefined;
      case "fchmodSync":
        this.#change(this.#opened(fd).inode, { mode: second });
        return undefined;
      case "ftruncateSync":
        this.#write(fd, new Uint8Array(), second);
        return undefined;
      case "linkSync":
        return this.#link(path, to, false);
      case "renameSync":
        return this.#link(path, to, true);
      case "unlinkSync":
        if (!this.#names.delete(path)) throw new SystemError("ENOENT");
        return undefined;
      case "readdirSync":
        return this.files;
      case "mayBeRunning":
        return !this.#dead.has((args[0] as ProcessIdentity).pid);
      default:
        // Syncing and waiting change nothing that a process could see.
        return undefined;
    }
  }

  #openFile(process: number, path: string, flags: number, mode: number): number {
    let inode = path === FOLDER ? -1 : this.#names.get(path);
    if (inode !== undefined && flags & constants.O_CREAT && flags & constants.O_EXCL)
      throw new SystemError("EEXIST");
    if (inode === undefined) {
      if (!(flags & constants.O_CREAT)) throw new SystemError("ENOENT");
      inode = free(process, this.#inodes);
      this.#inodes.set(inode, { bytes: new Uint8Array(), mode, writes: 0 });
      this.#names.set(path, inode);
    } else if (flags & constants.O_TRUNC) this.#change(inode, { bytes: new Uint8Array() });
    const fd = free(process, this.#open);
    this.#open.set(fd, { inode, flags, position: 0 });
    return fd;
  }

  #write(fd: number, added: Uint8Array, from?: number): number {
    const opened = this.#opened(fd);
    const { bytes } = this.#inodes.get(opened.inode)!;
    const start = from ?? (opened.flags & constants.O_APPEND ? bytes.length : opened.position);
    const end = start + added.length;
    const rest = from === undefined ? bytes.subarray(end) : new Uint8Array();
    this.#change(opened.inode, { bytes: Buffer.concat([bytes.subarray(0, start), added, rest]) });
    if (!(opened.flags & constants.O_APPEND)) this.#open.set(fd, { ...opened, position: end });
    return added.length;
  }

  #link(from: string, to: string, isRename: boolean): undefined {
    const inode = this.#names.get(from);
    if (inode === undefined) throw new SystemError("ENOENT");
    if (!isRename && this.#names.has(to)) throw new SystemError("EEXIST");
    this.#names.set(to, inode);
    if (isRename) this.#names.delete(from);
    return undefined;
  }

  #change(inode: number, change: Partial<Inode>): void {
    const before = this.#inodes.get(inode)!;
    this.#inodes.set(inode, { ...before, ...change, writes: before.writes + ("bytes" in change ? 1 : 0) });
  }

  #opened(fd: number): Opened {
    const opened = this.#open.get(fd);
    if (!opened) throw new SystemError("EBADF");
    return opened;
  }

  #facts(inode: number): FileFacts {
    const { bytes, mode, writes } = this.#inodes.get(inode)!;
    return {
      dev: 1n,
      ino: BigInt(inode),
      size: BigInt(bytes.length),
      uid: BigInt(process.geteuid?.() ?? 0),
      mode: BigInt(constants.S_IFREG | mode),
      mtimeNs: BigInt(writes),
    };
  }
}

/** Returns the lowest number of a process that is free, as systems give them out: a number is used again. */
function free(process: number, taken: ReadonlyMap<number, unknown>): number {
  let number = process * HUNDRED;
  while (taken.has(number)) number += 1;
  return number;
}

const contents = new Map<string, number>();
const named = new WeakMap<Inode, string>();

/** A short name for what a file holds. */
function nameOf(inode: Inode): string {
  let name = named.get(inode);
  if (name === undefined) {
    const text = Buffer.from(inode.bytes).toString("latin1");
    if (!contents.has(text)) contents.set(text, contents.size);
    name = `${contents.get(text)}/${inode.mode}/${inode.writes}`;
    named.set(inode, name);
  }
  return name;
}

/** Machine of a process: calls that pass through `step`, one after the other. */
export interface Machine {
  calls: FileCalls;
  processes: Processes;
}

/** Identity of a process by its number. */
export const identityOf = (number: number): ProcessIdentity => ({
  pid: number,
  processStart: "1",
  boot: "1",
  host: "simulated",
  pidSpace: "1",
});

/** The machine of process `number`, each of whose calls gets its outcome from `step`. */
function machineOf(number: number, step: (call: Call) => Outcome): Machine {
  const make = (name: Call["name"], ...args: unknown[]): unknown => {
    const outcome = step({ name, args });
    if ("error" in outcome) throw new SystemError(outcome.error);
    return outcome.value;
  };
  let names = 0;
  const calls: FileCalls = {
    ...passingCalls((name, _, args) => make(name as keyof FileCalls, ...args)),
    writeSync: (fd, bytes, ...rest) => make("writeSync", fd, bytes.slice(), ...rest) as number,
    readSync(fd, target, offset, ...rest) {
      const found = make("readSync", fd, undefined, offset, ...rest) as Uint8Array;
      target.set(found, offset);
      return found.length;
    },
    randomName: () => `${number}${names++}`.padStart(12, "0"),
  };
  const processes: Processes = {
    own: () => identityOf(number),
    mayBeRunning: (other) => make("mayBeRunning", other) as boolean,
    now: () => 0,
    pause: async () => void make("pause"),
    abandoned: new Set(),
  };
  return { calls, processes };
}

/** Program of a process; it reports what is acknowledged, and whether it holds the lease. */
export type Script = (work: Machine & Say) => Promise<void>;

interface Say {
  acknowledge(id: string): void;
  hold(isHeld: boolean): void;
}

/** Progress of a process. */
export interface Progress {
  acknowledged: readonly string[];
  isHolding: boolean;
  /** The call it is about to make; none when it has ended. */
  next?: Call;
  /** The error that it ended with. */
  failure?: unknown;
}

/**
 * Runs a process again from its beginning, its calls answered with their earlier outcomes, up to the first one that was
 * not made yet. A process knows nothing but these answers, so it does the same each time.
 */
export function replay(script: Script, number: number, past: readonly Outcome[]): Promise<Progress> {
  return new Promise((resolve) => {
    const acknowledged: string[] = [];
    let [isHolding, made] = [false, 0];
    // Only the first stop counts.
    const stop = (end: Pick<Progress, "next" | "failure">) =>
      resolve({ acknowledged: [...acknowledged], isHolding, ...end });
    const machine = machineOf(number, (next) => {
      const outcome = past[made];
      made += 1;
      if (outcome) return outcome;
      stop({ next });
      throw new Stopped();
    });
    const work = {
      ...machine,
      acknowledge: (id: string) => void acknowledged.push(id),
      hold: (isHeld: boolean) => {
        isHolding = isHeld;
      },
    };
    // Work that it left for later may still make calls.
    const end = (how: { failure?: unknown }) => setImmediate(stop, how);
    void script(work).then(
      () => end({}),
      (failure: unknown) => end({ failure }),
    );
  });
}

/** Runs a process to its end without another beside it; returns its result. */
export async function alone<Result>(
  from: Moment,
  number: number,
  script: (work: Machine) => Promise<Result>,
): Promise<Result> {
  let moment = from;
  return script(
    machineOf(number, (call) => {
      const after = moment.after(number, call);
      moment = after.moment;
      return after.outcome;
    }),
  );
}
