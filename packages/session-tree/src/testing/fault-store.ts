import { EspalierError, type EspalierErrorCode } from "@espalier/jsonl-stream";
import type { SessionLog, SessionStore } from "../store/store.ts";

/** A call to a log, as a fault plan receives it. */
export interface FaultPoint {
  call: "append" | "flush" | "takeIn" | "load" | "readPath";
  /** Number of the call, from 1, counted over all logs of the store. */
  number: number;
}

/** Fault of one call. */
export type Fault =
  /** Does nothing and fails. */
  | { fail: EspalierErrorCode }
  /** Does the work and fails, so that the caller cannot know the result. */
  | { failAfter: EspalierErrorCode }
  /** Writes only this number of lines of an append and fails with `short-write`. */
  | { shorten: number }
  /** Does the work and returns the result after this number of milliseconds. A later call can return earlier. */
  | { delay: number };

/**
 * Returns a store whose calls fail according to a plan. It wraps any store. With a plan that only delays calls, it
 * keeps every rule of a session store.
 */
export function faultStore(
  store: SessionStore,
  plan: (point: FaultPoint) => Fault | undefined,
): SessionStore {
  let number = 0;
  const run = async <Result>(
    call: FaultPoint["call"],
    act: () => Promise<Result>,
    shortened?: (count: number) => Promise<unknown>,
  ): Promise<Result> => {
    number += 1;
    const fault = plan({ call, number });
    if (fault && "fail" in fault) throw failure(fault.fail);
    if (fault && "shorten" in fault) {
      await shortened?.(fault.shorten);
      throw failure("short-write");
    }
    const result = await act();
    if (fault && "failAfter" in fault) throw failure(fault.failAfter);
    if (fault && "delay" in fault) await new Promise((resolve) => setTimeout(resolve, fault.delay));
    return result;
  };
  const faulty = (log: SessionLog): SessionLog => ({
    ref: log.ref,
    header: log.header,
    get view() {
      return log.view;
    },
    get upgraded() {
      return log.upgraded;
    },
    load: () => run("load", () => log.load()),
    readPath: (leafId) => run("readPath", () => log.readPath(leafId)),
    append: (lines, options) =>
      run(
        "append",
        () => log.append(lines, options),
        (count) => log.append(lines.slice(0, count)),
      ),
    takeIn: () => run("takeIn", () => log.takeIn()),
    flush: () => run("flush", () => log.flush()),
    close: () => log.close(),
  });
  return {
    create: async (...args) => faulty(await store.create(...args)),
    open: async (...args) => faulty(await store.open(...args)),
    list: () => store.list(),
    lease: (...args) => store.lease(...args),
    delete: (ref) => store.delete(ref),
  };
}

const failure = (code: EspalierErrorCode) =>
  new EspalierError(code, "This call fails according to the fault plan.");
