import { EspalierError, type EspalierErrorCode } from "@espalier/jsonl-stream";
import type { SessionLog, SessionStore } from "../store/store.ts";

/** A call to a log, as a plan of faults is asked about it. */
export interface FaultPoint {
  call: "append" | "flush" | "takeIn" | "load" | "readPath";
  /** From 1, over all logs of the store. */
  number: number;
}

/** Fault of one call. */
export type Fault =
  /** Nothing is done. */
  | { fail: EspalierErrorCode }
  /** It is done, and fails all the same: the caller cannot know. */
  | { failAfter: EspalierErrorCode }
  /** Of an append, only so many lines are written; it fails with `short-write`. */
  | { shorten: number }
  /** It is done, and answers so many milliseconds later; who asks next may be answered before. */
  | { delay: number };

/**
 * A store whose calls go wrong where a plan says so. Wraps any store: with a plan that only delays, it keeps every rule
 * of a session store.
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
  new EspalierError(code, "This call fails, as the plan of faults has it.");
