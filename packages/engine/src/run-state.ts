import {
  custom,
  type Entry,
  isCustom,
  isMessage,
  type NewEntry,
  type SessionTree,
} from "@espalier/session-tree";

/** The `customType` of the entry that says, before a request goes out, that it does. */
export const SENT = "espalier.sent";

/** How far the conversation at the leaf has come. */
export type RunState =
  /** Nothing waits for a model: nothing was said yet, or what was said is answered. */
  | { state: "answered" }
  /** Something was said, or a tool gave a result, that was never sent. */
  | { state: "unsent"; entryId: string }
  /** A request went out and no answer came: it may have been received, carried out and billed. */
  | { state: "outcome-unknown"; entryId: string; model: string | null; sentAt: string };

/**
 * The entry to append, at `fsync`, before a request goes out for the context at the leaf. After a crash it tells what
 * was never sent from what may have been billed.
 */
export function sentEntry(leafId: string | null, model: string): NewEntry {
  return custom.of({ customType: SENT, data: { leafId, model } });
}

/** How far the conversation at a session's leaf has come, by its entries alone: the same for every reader. */
export function runStateOf(session: Pick<SessionTree, "window" | "getBranch">): RunState {
  const { entries, complete } = session.window;
  return stateOn(entries) ?? (complete ? undefined : stateOn(session.getBranch())) ?? { state: "answered" };
}

/** By the newest entry that says something of it; undefined when none does. */
function stateOn(path: readonly Entry[]): RunState | undefined {
  for (let at = path.length - 1; at >= 0; at -= 1) {
    const entry = path[at]!;
    if (isCustom(entry, SENT)) {
      const { model } = (entry.data ?? {}) as { model?: unknown };
      const sent = { entryId: entry.id, sentAt: entry.timestamp };
      return { state: "outcome-unknown", model: typeof model === "string" ? model : null, ...sent };
    }
    // The outcome of one that failed is known too.
    if (isMessage(entry, "assistant")) return { state: "answered" };
    if (isMessage(entry, "user") || isMessage(entry, "toolResult"))
      return { state: "unsent", entryId: entry.id };
  }
  return undefined;
}
