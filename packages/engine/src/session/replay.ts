import { jsonText } from "@espalier/jsonl-stream";
import {
  buildSessionContext,
  contextOfPath,
  custom,
  type Entry,
  extendContext,
  isCustom,
  isMessage,
  leafRowAt,
  type NewEntry,
  pathRows,
  pathWindowAt,
  type SessionContext,
  type SessionTree,
  type Tree,
} from "@espalier/session-tree";

/** State of a session after one more of its entries, as a reader at that time would have seen it. */
export interface ReplayStep {
  /** Number of the step, from 1, in file order. */
  seq: number;
  entryId: string;
  type: string;
  /** Leaf after the step; null before the first entry. */
  leafId: string | null;
  /** Number of messages of the context at that leaf. */
  contextMessages: number;
  /** Size of these messages in tokens (characters / 4). */
  contextTokens: number;
  /** With `verify`: true when the context built from the whole path is the same. */
  verified?: boolean;
}

/** Options of a replay: its end, and its check. */
export interface ReplayOptions {
  /** Stops after this entry. Throws `unknown-entry` when it does not exist. */
  until?: string;
  /** Builds each step's context also from the whole path, and compares both. */
  verify?: boolean;
}

/**
 * Replays a session, entry by entry. A step takes time only for the added entry; a jump to another branch takes the
 * time to build that branch's context.
 */
export function* replay(tree: Tree, { until, verify = false }: ReplayOptions = {}): Generator<ReplayStep> {
  const last = until === undefined ? tree.length - 1 : tree.row(until);
  let leaf = -1;
  let context = contextOfPath([]);
  for (let row = 0; row <= last; row++) {
    const next = leafRowAt(tree, row);
    if (next !== leaf) {
      const follows = next === row && tree.index.parent(row) === leaf;
      if (!follows || !extendContext(context, tree.entryAt(row))) context = contextAtRow(tree, next);
      leaf = next;
    }
    yield {
      seq: row + 1,
      entryId: tree.idAt(row),
      type: tree.entryAt(row).type,
      leafId: leaf < 0 ? null : tree.idAt(leaf),
      contextMessages: context.messages.length,
      contextTokens: context.tokens,
      ...(verify ? { verified: isSame(context, rebuilt(tree, leaf)) } : {}),
    };
  }
}

function contextAtRow(tree: Tree, row: number): SessionContext {
  const window = pathWindowAt(tree, row);
  return contextOfPath(window.entries, window.before);
}

/** Builds the context from the whole path without earlier results: slow, for the check. */
function rebuilt(tree: Tree, row: number): SessionContext {
  return buildSessionContext(pathRows(tree, row).map((at) => tree.entryAt(at)));
}

function isSame(a: SessionContext, b: SessionContext): boolean {
  return (
    a.tokens === b.tokens &&
    a.messages.length === b.messages.length &&
    a.thinkingLevel === b.thinkingLevel &&
    jsonText(a.model) === jsonText(b.model) &&
    a.sources.every((source, at) => source === b.sources[at]) &&
    a.messages.every(
      (message, at) => message === b.messages[at] || jsonText(message) === jsonText(b.messages[at]),
    )
  );
}

/** Longest pause between two entries of a replay, in milliseconds. */
const LONGEST_PAUSE = 2_000;

/**
 * Yields the steps at the pace of the session, `speed` times as fast; no pause is longer than two seconds.
 *
 * @param sleep waits this number of milliseconds
 */
export async function* paced(
  steps: Iterable<ReplayStep>,
  tree: Tree,
  speed: number,
  sleep: (milliseconds: number) => Promise<unknown>,
): AsyncGenerator<ReplayStep> {
  let before: number | undefined;
  for (const step of steps) {
    const at = Date.parse(tree.getEntry(step.entryId)?.timestamp ?? "");
    const pause = Math.min((at - (before ?? at)) / speed, LONGEST_PAUSE);
    if (pause > 0) await sleep(pause);
    if (!Number.isNaN(at)) before = at;
    yield step;
  }
}

/** `customType` of the entry that is written before a request is sent. */
export const SENT = "espalier.sent";

/** State of the conversation at the leaf. */
export type RunState =
  /** No message waits for a model: there is none yet, or the last one is answered. */
  | { state: "answered" }
  /** A message, a tool's result or a paused answer waits, and was never sent. */
  | { state: "unsent"; entryId: string }
  /** A request was sent and no answer is recorded: the provider may have received, executed and billed it. */
  | { state: "outcome-unknown"; entryId: string; model: string | null; sentAt: string };

/**
 * Returns the entry to append, at `fsync`, before the request for the context at the leaf is sent. After a crash it
 * separates a request that was never sent from one that may have been billed.
 */
export function sentEntry(leafId: string | null, model: string): NewEntry {
  return custom.of({ customType: SENT, data: { leafId, model } });
}

/** Returns the state of the conversation at a session's leaf, from its entries alone: the same for every reader. */
export function runStateOf(session: Pick<SessionTree, "window" | "getBranch">): RunState {
  const { entries, complete } = session.window;
  return stateOn(entries) ?? (complete ? undefined : stateOn(session.getBranch())) ?? { state: "answered" };
}

function stateOn(path: readonly Entry[]): RunState | undefined {
  for (let at = path.length - 1; at >= 0; at -= 1) {
    const entry = path[at]!;
    if (isCustom(entry, SENT)) {
      const { model } = (entry.data ?? {}) as { model?: unknown };
      const sent = { entryId: entry.id, sentAt: entry.timestamp };
      return { state: "outcome-unknown", model: typeof model === "string" ? model : null, ...sent };
    }
    // The outcome of a failed answer is known too.
    if (isMessage(entry, "assistant")) {
      const isPaused = entry.message.stopReason === "deferred";
      return isPaused ? { state: "unsent", entryId: entry.id } : { state: "answered" };
    }
    if (isMessage(entry, "user") || isMessage(entry, "toolResult"))
      return { state: "unsent", entryId: entry.id };
  }
  return undefined;
}
