import type { Tree } from "@espalier/session-tree";

/** Long work on sessions, the most urgent first: a user waits for a search, and breaks of the cache are small marks. */
const LONG_WORK = ["search", "bills", "growth", "breaks"] as const;

type LongWork = (typeof LONG_WORK)[number];

/** Lets other work of the thread run, and waits for work that is more urgent. Mostly there is nothing to wait for. */
type Breathe = () => Promise<void> | undefined;

/** Milliseconds of work after which others get their turn: less than a person notices. */
const WORK = 10;

/**
 * Runs a function after the events that wait. Node runs timers in a loop of their own: two long works that take turns by
 * timers would let no request through.
 */
const afterEvents: (run: () => void) => void =
  "setImmediate" in globalThis ? globalThis.setImmediate : (run) => setTimeout(run, 0);

/** Long work that is being done, by its place in {@link LONG_WORK}. */
const running = LONG_WORK.map(() => 0);

/** Does long work, which breathes again and again. */
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
