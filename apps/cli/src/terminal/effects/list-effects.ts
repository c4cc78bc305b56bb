import { type ListedSession, listSessions, searchSessions } from "@espalier/engine";
import { addBill, billedCallAt, copiedRows, nothingBilled, recordedCost } from "@espalier/engine/reading";
import type { ByteView } from "@espalier/jsonl-stream";
import { EspalierError } from "@espalier/jsonl-stream";
import { type SessionStore, Tree, tipRows } from "@espalier/session-tree";
import { storeInUse, storeOf } from "../../opening.ts";
import type { Shell } from "../../shell.ts";
import type { SessionFacts, SessionFilter, TerminalEvent } from "../state/state.ts";
import { collect, LatestTask, pauses } from "./task.ts";

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

/** Reads the list of sessions. */
export class ListEffects {
  readonly #shell: Pick<Shell, "store">;
  readonly #dispatch: (event: TerminalEvent) => void;
  readonly #listing: LatestTask;
  readonly #searching: LatestTask;
  readonly #facts: LatestTask;

  constructor(
    shell: Pick<Shell, "store">,
    dispatch: (event: TerminalEvent) => void,
    failed: (error: unknown) => void,
  ) {
    this.#shell = shell;
    this.#dispatch = dispatch;
    this.#listing = new LatestTask(failed);
    this.#searching = new LatestTask(failed);
    this.#facts = new LatestTask(failed);
  }

  list(filter: SessionFilter): void {
    this.#listing.begin(async (signal) => {
      const pause = pauses(signal);
      const options = { ...storeOf(this.#shell), ...filter, subAgents: true, onSkipped: this.#onSkipped };
      let ownCount = 0;
      async function* listed() {
        for await (const session of listSessions(options)) {
          if (session.agent !== "pi") ownCount++;
          yield session;
          await pause();
        }
      }
      await collect(listed(), TELLING, (sessions, isDone) =>
        this.#dispatch({ type: "sessions", sessions, isDone }),
      );
      if (this.#shell.store || Object.keys(filter).length > 0) return;
      const { describeFound, foundSessions } = await import("@espalier/interop/node");
      this.#dispatch({ type: "others", text: ownCount > 0 ? "" : describeFound(foundSessions()) });
    });
  }

  search(query: string, filter: SessionFilter): void {
    this.#searching.end();
    if (query === "") return;
    this.#searching.begin(async (signal) => {
      const asked = {
        ...storeOf(this.#shell),
        ...filter,
        limit: MOST_HITS,
        signal,
        onSkipped: this.#onSkipped,
      };
      await collect(searchSessions(query, asked), TELLING, (hits, isDone) =>
        // An entry that forks copied is shown once.
        this.#dispatch({ type: "hits", query, hits: hits.filter(({ sameAs }) => !sameAs), isDone }),
      );
    }, TYPING);
  }

  readonly #onSkipped = (_place: string, { message }: Error): void =>
    this.#dispatch({ type: "warned", message });

  /** Reads the facts of sessions one after another, in order. */
  readFacts(sessions: readonly ListedSession[]): void {
    this.#facts.begin(async (signal) => {
      const store = storeInUse(this.#shell);
      for (const { ref, bytes } of sessions) {
        const facts = await factsOf(store, ref, bytes, signal);
        if (facts) this.#dispatch({ type: "facts", ref, facts });
      }
    }, TYPING);
  }

  end(): void {
    this.#listing.end();
    this.#searching.end();
    this.#facts.end();
  }
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
    const tree = new Tree(partView(view, 0, view.size));
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
