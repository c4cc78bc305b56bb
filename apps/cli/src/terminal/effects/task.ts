import { type FSWatcher, watch } from "node:fs";
import { isAbsolute } from "node:path";
import { setImmediate, setTimeout } from "node:timers/promises";
import type { SessionLog } from "@espalier/session-tree";
import { failureOf } from "../../failure.ts";
import type { TerminalEffect } from "../state/state.ts";
import type { TerminalEvent } from "../state/update.ts";

/** A function for each type of effect. */
export type Performers<Type extends TerminalEffect["type"] = TerminalEffect["type"]> = {
  readonly [Each in Type]: (effect: Extract<TerminalEffect, { type: Each }>) => void;
};

/** Event of an error. `wasWork` is true if the error ended the shown work, false for a reading beside it. */
export const failure = (error: unknown, wasWork = false): TerminalEvent => ({
  type: "failed",
  message: failureOf(error).message,
  wasWork,
});

/** Runs work of one kind, of which only the latest is needed: it aborts the work before, which then reports nothing. */
export class LatestTask {
  readonly #dispatch: (event: TerminalEvent) => void;
  readonly #isWork: boolean;
  #current: AbortController | undefined;
  #running: Promise<void> = Promise.resolve();

  /**
   * @param dispatch receives the events and the error of the latest work, but not of aborted work
   * @param isWork true for the running work of the screen, which an error ends
   */
  constructor(dispatch: (event: TerminalEvent) => void, isWork = false) {
    this.#dispatch = dispatch;
    this.#isWork = isWork;
  }

  /** @param delayMs waited first, for work that every key begins again */
  begin(
    work: (signal: AbortSignal, tell: (event: TerminalEvent) => void) => Promise<void>,
    delayMs = 0,
  ): void {
    this.end();
    this.#current = new AbortController();
    const { signal } = this.#current;
    const run = async () => {
      if (delayMs > 0) await setTimeout(delayMs, undefined, { signal });
      await work(signal, (event) => {
        if (!signal.aborted) this.#dispatch(event);
      });
    };
    this.#running = run().catch((error: unknown) => {
      if (!signal.aborted) this.#dispatch(failure(error, this.#isWork));
    });
  }

  end(): void {
    this.#current?.abort();
  }

  /** Resolves when the latest work has ended or failed. */
  settled(): Promise<void> {
    return this.#running;
  }
}

/** Milliseconds of work before keys are handled again. */
const SLICE = 8;

/** Function that long work calls often: after 8 ms of work it lets keys be handled, then throws if work was aborted. */
export type Pause = () => Promise<void>;

export function pauses(signal?: AbortSignal): Pause {
  let began = performance.now();
  return async () => {
    if (performance.now() - began < SLICE) return;
    await setImmediate();
    signal?.throwIfAborted();
    began = performance.now();
  };
}

/** Collects items. Reports all so far when one arrives, at most once per `interval` milliseconds, and at the end. */
export async function collect<Item>(
  items: AsyncIterable<Item>,
  interval: number,
  tell: (found: readonly Item[], isDone: boolean) => void,
): Promise<void> {
  const found: Item[] = [];
  let told = Date.now();
  for await (const item of items) {
    found.push(item);
    if (Date.now() - told < interval) continue;
    tell([...found], false);
    told = Date.now();
  }
  tell(found, true);
}

/** Milliseconds between two checks of a log. A log in a store, and some files, cannot be watched. */
const LOOK = 1_000;

/** Errors of a file that cannot be watched: too many watchers, no support, no file, no right. The timer remains. */
const UNWATCHED = /^(ENOSPC|EMFILE|ENOSYS|ENOENT|EACCES)$/;

/** Calls `look` every second, and at each change of a log that is a file; returns a function that stops this. */
export function followLog({ ref }: Pick<SessionLog, "ref">, look: () => void): () => void {
  const timer = setInterval(look, LOOK);
  const watcher = isAbsolute(ref) ? watchFile(ref, look) : undefined;
  return () => {
    clearInterval(timer);
    watcher?.close();
  };
}

function watchFile(file: string, look: () => void): FSWatcher | undefined {
  try {
    const watcher = watch(file, look);
    watcher.on("error", () => watcher.close());
    return watcher;
  } catch (error) {
    if (!UNWATCHED.test((error as NodeJS.ErrnoException).code ?? "")) throw error;
    return undefined;
  }
}
