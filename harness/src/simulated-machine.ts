import { constants } from "node:fs";
import { type FileCalls, type FileFacts, nodeFileCalls } from "@espalier/jsonl-stream/node";
import type { Processes, ProcessIdentity } from "@espalier/session-tree/node";

/** The one folder of a simulated disk. */
export const FOLDER = "/simulated";

/** A call that a process makes, with what it was given at that moment. */
export interface Call {
  name: keyof FileCalls | "mayBeRunning" | "pause";
  args: readonly unknown[];
}

/** What a call came to: a value, or the code of an error. */
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
  /** Where the next write of a file goes that was not opened to append. */
  position: number;
}

/** Inode numbers and process numbers: each process takes those of its own hundred, so that no order of steps shows. */
const HUNDRED = 100;

/** A system's error. */
class Refusal extends Error {
  readonly code: string;
  constructor(code: string) {
    super(code);
    this.code = code;
  }
}

/** Thrown by every call of a process that was stopped: nothing it does from there on counts. */
class Stopped extends Error {}

/** A disk and the processes that use it, at one moment. A step gives another one and leaves this as it is. */
export class Moment {
  readonly #names: ReadonlyMap<string, number>;
  readonly #inodes: ReadonlyMap<number, Inode>;
  readonly #open: ReadonlyMap<number, Opened>;
  /** Processes that have died. */
  readonly #dead: ReadonlySet<number>;
  #world: string | undefined;
  #key: string | undefined;

  constructor(
    names: ReadonlyMap<string, number> = new Map(),
    inodes: ReadonlyMap<number, Inode> = new Map(),
    open: ReadonlyMap<number, Opened> = new Map(),
    dead: ReadonlySet<number> = new Set(),
  ) {
    this.#names = names;
    this.#inodes = inodes;
    this.#open = open;
    this.#dead = dead;
  }

  /** A disk that holds these files. */
  static of(files: Readonly<Record<string, Uint8Array>>): Moment {
    const names = Object.keys(files).map((name, at): [string, number] => [`${FOLDER}/${name}`, at]);
    const inodes = Object.values(files).map((bytes, at): [number, Inode] => [
      at,
      { bytes, mode: 0o600, writes: 0 },
    ]);
    return new Moment(new Map(names), new Map(inodes));
  }

  /** All that processes can see of each other. */
  get world(): string {
    if (this.#world === undefined) {
      const files = [...this.#names].sort(([a], [b]) => (a < b ? -1 : 1));
      const said = files.map(([name, inode]) => `${name}:${inode}`).join(" ");
      const bytes = [...this.#inodes].sort(([a], [b]) => a - b).map(([at, each]) => `${at}=${nameOf(each)}`);
      this.#world = `${said}|${bytes.join(" ")}|${[...this.#dead].sort().join()}`;
    }
    return this.#world;
  }

  get key(): string {
    if (this.#key === undefined) {
      const open = [...this.#open].sort(([a], [b]) => a - b);
      this.#key = `${this.world}|${open.map(([fd, { inode, position }]) => `${fd}:${inode}:${position}`).join()}`;
    }
    return this.#key;
  }

  isDead(process: number): boolean {
    return this.#dead.has(process);
  }

  /** Names in the folder. */
  get files(): string[] {
    return [...this.#names.keys()].map((path) => path.slice(FOLDER.length + 1)).sort();
  }

  bytesOf(name: string): Uint8Array | undefined {
    const inode = this.#names.get(`${FOLDER}/${name}`);
    return inode === undefined ? undefined : this.#inodes.get(inode)!.bytes;
  }

  /** The moment after a process has died. */
  without(process: number): Moment {
    const open = new Map([...this.#open].filter(([fd]) => Math.floor(fd / HUNDRED) !== process));
    return new Moment(this.#names, this.#inodes, open, new Set(this.#dead).add(process));
  }

  /** The moment after a call, and what the call came to. */
  after(process: number, call: Call): { moment: Moment; outcome: Outcome } {
    const next = new Change(
      process,
      new Map(this.#names),
      new Map(this.#inodes),
      new Map(this.#open),
      this.#dead,
    );
    try {
      const value = next.make(call);
      return { moment: next.moment(), outcome: { value } };
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      return { moment: this, outcome: { error: error.code } };
    }
  }
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

/** One call, carried out on copies. */
class Change {
  readonly #process: number;
  readonly #names: Map<string, number>;
  readonly #inodes: Map<number, Inode>;
  readonly #open: Map<number, Opened>;
  readonly #dead: ReadonlySet<number>;

  constructor(
    process: number,
    names: Map<string, number>,
    inodes: Map<number, Inode>,
    open: Map<number, Opened>,
    dead: ReadonlySet<number>,
  ) {
    this.#process = process;
    this.#names = names;
    this.#inodes = inodes;
    this.#open = open;
    this.#dead = dead;
  }

  /** What nothing leads to any more is gone, and its number free. */
  moment(): Moment {
    const used = new Set([...this.#names.values(), ...[...this.#open.values()].map(({ inode }) => inode)]);
    for (const inode of this.#inodes.keys()) if (!used.has(inode)) this.#inodes.delete(inode);
    return new Moment(this.#names, this.#inodes, this.#open, this.#dead);
  }

  make({ name, args }: Call): unknown {
    switch (name) {
      case "openSync":
        return this.#openFile(args[0] as string, args[1] as number, (args[2] as number) ?? 0o600);
      case "closeSync":
        this.#open.delete(args[0] as number);
        return undefined;
      case "writeSync":
        return this.#write(args[0] as number, args[1] as Uint8Array);
      case "readSync": {
        const [fd, length, position] = args as [number, number, number];
        return this.#inodes.get(this.#opened(fd).inode)!.bytes.slice(position, position + length);
      }
      case "fstatSync":
        return this.#facts(this.#opened(args[0] as number).inode);
      case "lstatSync": {
        const inode = this.#names.get(args[0] as string);
        return inode === undefined ? undefined : this.#facts(inode);
      }
      case "fchmodSync":
        this.#change(this.#opened(args[0] as number).inode, { mode: args[1] as number });
        return undefined;
      case "ftruncateSync":
        this.#write(args[0] as number, new Uint8Array(), args[1] as number);
        return undefined;
      case "linkSync":
        return this.#link(args[0] as string, args[1] as string, false);
      case "renameSync":
        return this.#link(args[0] as string, args[1] as string, true);
      case "unlinkSync":
        if (!this.#names.delete(args[0] as string)) throw new Refusal("ENOENT");
        return undefined;
      case "readdirSync":
        return [...this.#names.keys()].map((path) => path.slice(FOLDER.length + 1)).sort();
      case "mayBeRunning":
        return !this.#dead.has(args[0] as number);
      default:
        // Syncing and waiting change nothing that a process could see.
        return undefined;
    }
  }

  #openFile(path: string, flags: number, mode: number): number {
    let inode = path === FOLDER ? -1 : this.#names.get(path);
    if (inode !== undefined && flags & constants.O_CREAT && flags & constants.O_EXCL)
      throw new Refusal("EEXIST");
    if (inode === undefined) {
      if (!(flags & constants.O_CREAT)) throw new Refusal("ENOENT");
      inode = this.#free(this.#inodes);
      this.#inodes.set(inode, { bytes: new Uint8Array(), mode, writes: 0 });
      this.#names.set(path, inode);
    } else if (flags & constants.O_TRUNC) this.#change(inode, { bytes: new Uint8Array() });
    const fd = this.#free(this.#open);
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

  /** The lowest number of this process that is free, as systems give them out: a number is used again. */
  #free(taken: ReadonlyMap<number, unknown>): number {
    let number = this.#process * HUNDRED;
    while (taken.has(number)) number += 1;
    return number;
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

/** What a process works with: calls that pass through `step`, one after the other. */
export interface Surroundings {
  calls: FileCalls;
  processes: Processes;
}

/** The surroundings of process `number`, each of whose calls is answered by `step`. */
function surroundings(number: number, step: (call: Call) => unknown): Surroundings {
  let names = 0;
  const passing =
    (name: keyof FileCalls) =>
    (...args: unknown[]) =>
      step({ name, args });
  const calls: FileCalls = {
    ...(Object.fromEntries(
      Object.keys(nodeFileCalls).map((name) => [name, passing(name as keyof FileCalls)]),
    ) as unknown as FileCalls),
    writeSync: (fd, bytes, offset, length) =>
      step({ name: "writeSync", args: [fd, bytes.slice(offset, offset + length)] }) as number,
    readSync(fd, target, offset, length, position) {
      const found = step({ name: "readSync", args: [fd, length, position] }) as Uint8Array;
      target.set(found, offset);
      return found.length;
    },
    fdatasync: async (fd) => void step({ name: "fdatasync", args: [fd] }),
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

/** What a process does; it says what is acknowledged, and whether it holds what only one may hold. */
export type Script = (work: Surroundings & Say) => Promise<void>;

interface Say {
  acknowledge(id: string): void;
  hold(isHeld: boolean): void;
}

/** How far a process has come. */
export interface Progress {
  acknowledged: readonly string[];
  isHolding: boolean;
  /** The call it is about to make; none when it has ended. */
  next?: Call;
  /** What it ended with, where that was an error. */
  failure?: unknown;
}

/**
 * Runs a process again from its beginning, its calls answered with what they came to before, up to the first one that
 * was not made yet. A process knows nothing but these answers, so it does the same each time.
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
  const ended = script({ ...surroundings(number, step), ...say })
    .catch((error: unknown) => {
      failure = error;
    })
    // What it left behind to be done later may still make calls.
    .then(() => new Promise<undefined>((resolve) => setImmediate(resolve, undefined)));
  const next = await Promise.race([stopped, ended]);
  const progress = { acknowledged: [...acknowledged], isHolding };
  if (next) return { ...progress, next };
  return failure === undefined ? progress : { ...progress, failure };
}

/** Runs a process to its end with nobody beside it; gives what its script gives. */
export async function alone<Result>(
  from: Moment,
  number: number,
  script: (work: Surroundings) => Promise<Result>,
): Promise<Result> {
  let moment = from;
  return script(
    surroundings(number, (call) => {
      const { moment: next, outcome } = moment.after(number, call);
      moment = next;
      if ("error" in outcome) throw new Refusal(outcome.error);
      return outcome.value;
    }),
  );
}
