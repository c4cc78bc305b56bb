import type { LeaseOptions, SessionLease } from "./session-store.ts";
import { type LeaseHolder, SessionTreeError } from "./session-tree-error.ts";

/**
 * The leases of a store within one process, where no owner can be dead: what `SessionStore.lease` needs for a store whose
 * sessions no other process writes.
 */
export class MemoryLeases {
  readonly #held = new Map<string, { holder: LeaseHolder; released: Promise<void> }>();

  /**
   * Takes the lease of what is kept under `ref`; waits for its owner as `waitMs` says.
   * @throws SessionTreeError `busy` with the `holder`
   */
  async take(ref: string, { waitMs = 0 }: LeaseOptions = {}): Promise<SessionLease> {
    const deadline = Date.now() + waitMs;
    for (let held = this.#held.get(ref); held; held = this.#held.get(ref)) {
      const left = deadline - Date.now();
      if (left <= 0) throw busy(ref, held.holder);
      await releasedWithin(held.released, left);
    }
    let settle: () => void = () => undefined;
    const released = new Promise<void>((resolve) => {
      settle = resolve;
    });
    const holder = { pid: 0, host: "this process", since: new Date().toISOString() };
    const own = { holder, released };
    this.#held.set(ref, own);
    return {
      release: async () => {
        if (this.#held.get(ref) === own) this.#held.delete(ref);
        settle();
      },
    };
  }
}

/** Returns when that is over, or so many milliseconds; no timer is left that would keep a program from its end. */
async function releasedWithin(released: Promise<void>, milliseconds: number): Promise<void> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise((resolve) => {
    timer = setTimeout(resolve, milliseconds);
  });
  await Promise.race([released, late]);
  clearTimeout(timer);
}

function busy(ref: string, holder: LeaseHolder): SessionTreeError {
  const message = `${ref} is being written since ${holder.since}; read it only, fork it, or share it.`;
  return new SessionTreeError("busy", message, { holder });
}
