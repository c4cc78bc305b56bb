import { type FileCalls, nodeFileCalls } from "@espalier/jsonl-stream/node";

/** The ways in which a call fails: with an error of the system, or by doing less than it was asked to. */
export const faultKinds = [
  "short",
  "EINTR",
  "EIO",
  "ENOSPC",
  "EDQUOT",
  "EMFILE",
  "ENFILE",
  "EACCES",
  "EPERM",
  "EROFS",
  "ESTALE",
  "EBUSY",
  "ENOMEM",
] as const;

export type FaultKind = (typeof faultKinds)[number];

/** The calls to the file system, of which one fails: the `at`-th, counted from 1, or none. */
export class FaultyCalls {
  /** Calls made so far. */
  made = 0;
  /** The name of the call that failed. */
  failed: string | undefined;
  /** The call that fails next; 0 for none. */
  at: number;
  readonly kind: FaultKind;
  readonly calls: FileCalls;

  constructor(at: number, kind: FaultKind) {
    this.at = at;
    this.kind = kind;
    const node = nodeFileCalls;
    this.calls = {
      ...failing(node, (name, call) => this.#call(name, call)),
      // A descriptor is gone after its close, whatever that says.
      closeSync: (fd) => {
        node.closeSync(fd);
        this.#call("closeSync", () => undefined);
      },
      writeSync: (fd, bytes, offset, length, position) =>
        this.#call(
          "writeSync",
          () => node.writeSync(fd, bytes, offset, length, position),
          () => node.writeSync(fd, bytes, offset, length >> 1, position),
        ),
      readSync: (fd, target, offset, length, position) =>
        this.#call(
          "readSync",
          () => node.readSync(fd, target, offset, length, position),
          () => node.readSync(fd, target, offset, Math.max(1, length >> 1), position),
        ),
      fdatasync: async (fd) => this.#call("fdatasync", () => node.fdatasync(fd)),
      randomName: () => node.randomName(),
    };
  }

  #call<Result>(name: string, call: () => Result, short?: () => Result): Result {
    this.made += 1;
    if (this.made !== this.at) return call();
    this.failed = name;
    if (this.kind === "short") return short ? short() : call();
    throw Object.assign(new Error(this.kind), { code: this.kind });
  }
}

/** Calls each of which passes through `make`. */
function failing(calls: FileCalls, make: <Result>(name: string, call: () => Result) => Result): FileCalls {
  const wrapped = Object.entries(calls).map(([name, call]: [string, (...args: never[]) => unknown]) => [
    name,
    (...args: never[]) => make(name, () => call(...args)),
  ]);
  return Object.fromEntries(wrapped) as FileCalls;
}
