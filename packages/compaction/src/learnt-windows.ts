import { type CompactionEntry, compaction, type Entry, isMessage } from "@espalier/session-tree";
import { windowTold } from "./window-told.ts";

/** Windows in tokens, by `provider/model`. */
export type LearntWindows = Readonly<Record<string, number>>;

/** A path that was looked at, as far as it went then. Paths grow at their end, and are asked about at every step. */
interface Seen {
  entries: number;
  learnt: LearntWindows;
}
const seen = new WeakMap<readonly Entry[], Seen>();

/**
 * What providers said of their windows on a path, when they refused requests as too long. Each compaction records what
 * is known by then, so the newest one and what follows it know all of it. A path that has grown costs what it has
 * grown by.
 */
export function learntWindows(path: readonly Entry[]): LearntWindows {
  let { entries, learnt } = seen.get(path) ?? { entries: 0, learnt: {} };
  if (entries > path.length) [entries, learnt] = [0, {}];
  for (; entries < path.length; entries++) learnt = learntAfter(learnt, path[entries]!);
  seen.set(path, { entries, learnt });
  return learnt;
}

/** The window that counts: what was configured, or less, where the provider said so. In tokens. */
export function windowInForce(
  contextWindow: number,
  path: readonly Entry[],
  model: { provider: string; modelId: string } | null,
): number {
  const learnt = model && learntWindows(path)[`${model.provider}/${model.modelId}`];
  return learnt ? Math.min(contextWindow, learnt) : contextWindow;
}

function learntAfter(before: LearntWindows, entry: Entry): LearntWindows {
  if (compaction.is(entry)) return recordedIn(entry);
  if (!isMessage(entry, "assistant")) return before;
  const { provider, model } = entry.message;
  const told = windowTold(entry.message);
  return told === undefined ? before : { ...before, [`${provider}/${model}`]: told };
}

function recordedIn({ details }: CompactionEntry): LearntWindows {
  const recorded = (details as { learntWindows?: LearntWindows | null } | null | undefined)?.learntWindows;
  return Object.fromEntries(
    Object.entries(recorded ?? {}).filter(([, tokens]) => Number.isSafeInteger(tokens) && tokens > 0),
  );
}
