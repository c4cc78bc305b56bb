import type { Tree } from "@espalier/session-tree";

/**
 * Kinds of long work on sessions, the most urgent first. A user waits for a search; breaks of the cache are only
 * small marks.
 */
const LONG_WORK = ["search", "bills", "growth", "breaks"] as const;

type LongWork = (typeof LONG_WORK)[number];

/**
 * Pauses so that other work of the thread runs, and waits for more urgent work. Returns undefined when no pause is
 * due.
 */
type Breathe = () => Promise<void> | undefined;

/** Milliseconds of work before a pause for other work: too short for a person to notice. */
const WORK = 10;

/**
 * Runs a function after the pending events. Node runs timers in a loop of their own: two long works that take turns
 * by timers would let no request through.
 */
const afterEvents: (run: () => void) => void =
  "setImmediate" in globalThis ? globalThis.setImmediate : (run) => setTimeout(run, 0);

/** Number of running works of each kind, in the order of {@link LONG_WORK}. */
const running = LONG_WORK.map(() => 0);

/** Runs long work, which calls `breathe` regularly. */
export async function longWork<Result>(
  work: LongWork,
  run: (breathe: Breathe) => Promise<Result>,
): Promise<Result> {
  const urgency = LONG_WORK.indexOf(work);
  let since = performance.now();
  const pause = async () => {
    do await new Promise<void>(afterEvents);
    while (running.some((count, other) => count > 0 && other < urgency));
    since = performance.now();
  };
  running[urgency]!++;
  try {
    return await run(() => (performance.now() - since < WORK ? undefined : pause()));
  } finally {
    running[urgency]!--;
  }
}

/**
 * Continues long work on a tree that may have grown, from the state that the last call kept. Calls for one tree run one
 * after the other, because they share their state.
 */
export function continued<Kept>(
  work: LongWork,
  kept: WeakMap<Tree, Promise<Kept>>,
  tree: Tree,
  run: (earlier: Kept | undefined, breathe: Breathe) => Promise<Kept>,
): Promise<Kept> {
  const before = kept.get(tree);
  // The caller of a failed call received its error; this call starts again.
  const going = (async () => {
    const earlier = await before?.catch(() => undefined);
    return longWork(work, (breathe) => run(earlier, breathe));
  })();
  kept.set(tree, going);
  return going;
}

/** Returns a function whose runs follow one another. All calls during a run share the next run and its error. */
export function oneAfterTheOther(run: () => Promise<void>): () => Promise<void> {
  let running: Promise<void> = Promise.resolve();
  let next: Promise<void> | undefined;
  return () => {
    next ??= running.then(() => {
      next = undefined;
      const begun = run();
      // The caller receives the error; the next call tries again.
      running = begun.catch(() => undefined);
      return begun;
    });
    return next;
  };
}
