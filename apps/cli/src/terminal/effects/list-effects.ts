import { listSessions, searchSessions } from "@espalier/engine";
import { addBill, billedCallAt, copiedRows, nothingBilled, recordedCost } from "@espalier/engine/reading";
import type { ByteView } from "@espalier/jsonl-stream";
import { EspalierError } from "@espalier/jsonl-stream";
import { type SessionStore, Tree, tipRows } from "@espalier/session-tree";
import { storeInUse, storeOf, tellSkipped } from "../../opening.ts";
import type { Shell } from "../../shell.ts";
import type { SessionFacts } from "../state/state.ts";
import type { TerminalEvent } from "../state/update.ts";
import { collect, LatestTask, type Performers, pauses } from "./task.ts";

/** Milliseconds without a key before a search begins, so that a query is searched only when the user stops typing. */
const TYPING = 150;

/** Milliseconds between two partial results of a search. */
const TELLING = 100;

/** Maximum number of hits of a search. */
const MOST_HITS = 500;

/** Longer sessions, in bytes, are read only when they are opened. */
const MOST_BYTES = 64_000_000;

/** The same limit for a store, which has to send the whole session. */
const MOST_FETCHED = 2_000_000;

/** Reads the list of sessions, and searches it. */
export function listEffects(shell: Pick<Shell, "store">, dispatch: (event: TerminalEvent) => void) {
  const listing = new LatestTask(dispatch);
  const searching = new LatestTask(dispatch);
  const counting = new LatestTask(dispatch);
  const place = {
    ...storeOf(shell),
    ...tellSkipped({ complainOnce: (message) => dispatch({ type: "warned", message }) }),
  };
  const performers: Performers<"list-sessions" | "search" | "read-facts"> = {
    "list-sessions"({ filter }) {
      listing.begin(async (signal, tell) => {
        const pause = pauses(signal);
        let ownCount = 0;
        async function* listed() {
          for await (const session of listSessions({ ...place, ...filter, subAgents: true })) {
            if (session.agent !== "pi") ownCount++;
            yield session;
            await pause();
          }
        }
        await collect(listed(), TELLING, (sessions, isDone) => tell({ type: "sessions", sessions, isDone }));
        if (shell.store || Object.keys(filter).length > 0) return;
        const { describeFound, foundSessions } = await import("@espalier/interop/node");
        tell({ type: "others", text: ownCount > 0 ? "" : describeFound(foundSessions()) });
      });
    },
    search({ query, filter }) {
      searching.end();
      if (query === "") return;
      searching.begin(async (signal, tell) => {
        const asked = { ...place, ...filter, limit: MOST_HITS, signal };
        await collect(searchSessions(query, asked), TELLING, (hits, isDone) =>
          // An entry that forks copied is shown once.
          tell({ type: "hits", query, hits: hits.filter(({ sameAs }) => !sameAs), isDone }),
        );
      }, TYPING);
    },
    // One after another, in order.
    "read-facts"({ sessions }) {
      counting.begin(async (signal, tell) => {
        const store = storeInUse(shell);
        for (const { ref, bytes } of sessions) {
          const facts = await factsOf(store, ref, bytes, signal);
          if (facts) tell({ type: "facts", ref, facts });
        }
      }, TYPING);
    },
  };
  const end = () => {
    for (const task of [listing, searching, counting]) task.end();
  };
  return { performers, end };
}

/** Counts the branches of a session and its own cost; undefined for a session that is too long. */
async function factsOf(
  store: SessionStore,
  ref: string,
  bytes: number,
  signal: AbortSignal,
): Promise<SessionFacts | undefined> {
  const pause = pauses(signal);
  const log = await store.open({ file: ref }, "read").catch(goneSince);
  if (!log) return undefined;
  try {
    if (bytes > (log.view ? MOST_BYTES : MOST_FETCHED)) return undefined;
    const view = await log.load();
    const tree = new Tree(view);
    await pause();
    const bill = nothingBilled();
    const later = nothingBilled();
    const recorded = recordedCost(tree);
    const copies = copiedRows(tree);
    for (let row = 0; row < tree.length; row++) {
      const call = copies.has(row) ? undefined : billedCallAt(tree, row);
      if (call) addBill(bill, call.usage, call);
      if (call && recorded && row > recorded.row) addBill(later, call.usage, call);
      await pause();
    }
    const branches = tipRows(tree).length;
    if (!recorded) return { branches, bill };
    // The agent's figure covers all earlier calls, so only later calls are estimated.
    const { estimated, unpriced } = later;
    return { branches, bill: { ...bill, cost: recorded.cost + later.cost, estimated, unpriced } };
  } finally {
    await log.close();
  }
}

/** Returns no facts for a session that was removed after it was listed, so that the others are still read. */
function goneSince(error: unknown): undefined {
  if (!(error instanceof EspalierError && error.code === "not-found")) throw error;
}

const LINE_FEED = 10;

/** Bytes that are read at once to find the end of a line. */
const BLOCK = 64 * 1024;

/** Returns a part of a view as a view. */
export function partView(view: ByteView, from: number, to: number): ByteView {
  const size = to - from;
  const within = (offset: number, length: number) => Math.max(0, Math.min(length, size - offset));
  return {
    size,
    read: (offset, length) => view.read(from + offset, within(offset, length)),
    readInto: (offset, target) =>
      view.readInto(from + offset, target.subarray(0, within(offset, target.length))),
  };
}

/** Returns the offset of the first line that begins after `at`; the end of the view without one. */
export function lineBehind(view: ByteView, at: number): number {
  for (let offset = at; offset < view.size; offset += BLOCK) {
    const found = view.read(offset, BLOCK).indexOf(LINE_FEED);
    if (found >= 0) return offset + found + 1;
  }
  return view.size;
}
