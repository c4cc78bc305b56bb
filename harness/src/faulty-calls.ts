import { type FileCalls, nodeFileCalls } from "@espalier/jsonl-stream/node";

/** How a call fails: with an error of the system, or by doing less than it was asked to. */
export type FaultKind = "ENOSPC" | "EIO" | "EINTR" | "short";

export const faultKinds: readonly FaultKind[] = ["ENOSPC", "EIO", "EINTR", "short"];

/** The calls to the file system, of which one fails: the `at`-th, counted from 1, or none. */
export class FaultyCalls {
  /** Calls made so far. */
  made = 0;
  /** The name of the call that failed. */
  failed: string | undefined;
  /** Which call fails next; 0 for none. */
  at: number;
  readonly kind: FaultKind;
  readonly calls: FileCalls;

  constructor(at: number, kind: FaultKind) {
    this.at = at;
    this.kind = kind;
    const node = nodeFileCalls;
    this.calls = {
      openSync: (...args) => this.#call("openSync", () => node.openSync(...args)),
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
      fstatSync: (...args) => this.#call("fstatSync", () => node.fstatSync(...args)),
      fchmodSync: (...args) => this.#call("fchmodSync", () => node.fchmodSync(...args)),
      lstatSync: (...args) => this.#call("lstatSync", () => node.lstatSync(...args)),
      fdatasyncSync: (...args) => this.#call("fdatasyncSync", () => node.fdatasyncSync(...args)),
      fdatasync: async (...args) => this.#call("fdatasync", () => node.fdatasync(...args)),
      fsyncSync: (...args) => this.#call("fsyncSync", () => node.fsyncSync(...args)),
      linkSync: (...args) => this.#call("linkSync", () => node.linkSync(...args)),
      renameSync: (...args) => this.#call("renameSync", () => node.renameSync(...args)),
      unlinkSync: (...args) => this.#call("unlinkSync", () => node.unlinkSync(...args)),
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
