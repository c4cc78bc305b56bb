import { constants } from "node:fs";
import type { FileCalls, FileFacts } from "@espalier/jsonl-stream/node";
import type { Processes, ProcessIdentity } from "@espalier/session-tree/node";
import { passingCalls } from "../../stores.ts";

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

class Refusal extends Error {
  readonly code: string;
  constructor(code: string) {
    super(code);
    this.code = code;
  }
}

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
      if (!(error instanceof Refusal)) throw error;
      return { moment: this, outcome: { error: error.code } };
    }
  }

  #make(process: number, { name, args }: Call): unknown {
    const [fd, second, third] = args as [number, number, number];
    const [path, to] = args as [string, string];
    switch (name) {
      case "openSync":
        return this.#openFile(process, path, second, third ?? 0o600);
      case "closeSync":
        this.#open.delete(fd);
        return undefined;
      case "writeSync":
        return this.#write(fd, args[1] as Uint8Array);
      case "readSync":
        // `second` is the length, `third` the position.
        return this.#inodes.get(this.#opened(fd).inode)!.bytes.slice(third, third + second);
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
        if (!this.#names.delete(path)) throw new Refusal("ENOENT");
        return undefined;
      case "readdirSync":
        return this.files;
      case "mayBeRunning":
        return !this.#dead.has(fd);
      default:
        // Syncing and waiting change nothing that a process could see.
        return undefined;
    }
  }

  #openFile(process: number, path: string, flags: number, mode: number): number {
    let inode = path === FOLDER ? -1 : this.#names.get(path);
    if (inode !== undefined && flags & constants.O_CREAT && flags & constants.O_EXCL)
      throw new Refusal("EEXIST");
    if (inode === undefined) {
      if (!(flags & constants.O_CREAT)) throw new Refusal("ENOENT");
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
    if (inode === undefined) throw new Refusal("ENOENT");
    if (!isRename && this.#names.has(to)) throw new Refusal("EEXIST");
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
    if (!opened) throw new Refusal("EBADF");
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

/** The machine of process `number`, each of whose calls is answered by `step`. */
function machineOf(number: number, step: (call: Call) => unknown): Machine {
  let names = 0;
  const calls: FileCalls = {
    ...passingCalls((name, _, args) => step({ name: name as keyof FileCalls, args })),
    writeSync: (fd, bytes, offset, length) =>
      step({ name: "writeSync", args: [fd, bytes.slice(offset, offset + length)] }) as number,
    readSync(fd, target, offset, length, position) {
      const found = step({ name: "readSync", args: [fd, length, position] }) as Uint8Array;
      target.set(found, offset);
      return found.length;
    },
    randomName: () => `${number}${names++}`.padStart(12, "0"),
  };
  const own: ProcessIdentity = {
    pid: number + 1,
    processStart: "1",
    boot: "1",
    host: "simulated",
    pidSpace: "1",
  };
  return {
    calls,
    processes: {
      own: () => own,
      mayBeRunning: ({ pid }) => step({ name: "mayBeRunning", args: [pid - 1] }) as boolean,
      now: () => 0,
      pause: async () => void step({ name: "pause", args: [] }),
      abandoned: new Set(),
    },
  };
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
export async function replay(script: Script, number: number, past: readonly Outcome[]): Promise<Progress> {
  const acknowledged: string[] = [];
  let [isHolding, made] = [false, 0];
  let stop: (call: Call) => void = () => undefined;
  const stopped = new Promise<Call>((resolve) => {
    stop = resolve;
  });
  let isStopped = false;
  const step = (call: Call): unknown => {
    if (isStopped) throw new Stopped();
    const outcome = past[made];
    made += 1;
    if (outcome && "error" in outcome) throw new Refusal(outcome.error);
    if (outcome) return outcome.value;
    isStopped = true;
    stop(call);
    throw new Stopped();
  };
  const say: Say = {
    acknowledge: (id) => void (isStopped || acknowledged.push(id)),
    hold: (isHeld) => {
      if (!isStopped) isHolding = isHeld;
    },
  };
  let failure: unknown;
  const ended = script({ ...machineOf(number, step), ...say })
    .catch((error: unknown) => {
      failure = error;
    })
    // Work that it left for later may still make calls.
    .then(() => new Promise<undefined>((resolve) => setImmediate(resolve, undefined)));
  const next = await Promise.race([stopped, ended]);
  const progress = { acknowledged: [...acknowledged], isHolding };
  if (next) return { ...progress, next };
  return failure === undefined ? progress : { ...progress, failure };
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
      const { moment: next, outcome } = moment.after(number, call);
      moment = next;
      if ("error" in outcome) throw new Refusal(outcome.error);
      return outcome.value;
    }),
  );
}
