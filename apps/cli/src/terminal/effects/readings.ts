import { accessSync, constants, type FSWatcher, watch } from "node:fs";
import { isAbsolute } from "node:path";
import { compareBranches, listSessions, searchSessions, statsOf, subAgentsOf } from "@espalier/engine";
import {
  addBill,
  billedCallAt,
  copiedRows,
  nothingBilled,
  recordedCost,
  type UsageTotals,
} from "@espalier/engine/reading";
import { type ByteView, EspalierError } from "@espalier/jsonl-stream";
import { FORMAT_VERSION, type SessionLog, type SessionStore, Tree, tipRows } from "@espalier/session-tree";
import { outlineOf } from "@espalier/viewer/model";
import { sumOfBills } from "../../commands/costs.ts";
import { currentSettings, storeInUse, storeOf, summarizerOf, tellSkipped } from "../../opening.ts";
import type { Shell } from "../../shell.ts";
import type { SessionFacts, TabLines } from "../state/state.ts";
import type { TerminalEvent } from "../state/update.ts";
import { bookkeepingOf, type TreeModel, treeModel } from "../tree/tree-model.ts";
import { contextLines, readContext, readPathUsage, type SubAgentUsage, usageLines } from "../view/tabs.ts";
import { collect, failure, LatestTask, type Pause, type Performers, pauses } from "./task.ts";

/** Milliseconds without a key before a search begins, so that a query is searched only when the user stops typing. */
const TYPING = 150;

/** Maximum number of hits of a search in all sessions, and milliseconds between two partial results. */
const MOST_HITS = 500;
const TELLING = 100;

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
    // Sessions are read one after another, in order.
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
function partView(view: ByteView, from: number, to: number): ByteView {
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
function lineBehind(view: ByteView, at: number): number {
  for (let offset = at; offset < view.size; offset += BLOCK) {
    const found = view.read(offset, BLOCK).indexOf(LINE_FEED);
    if (found >= 0) return offset + found + 1;
  }
  return view.size;
}

/** Milliseconds before content is read for a row, so that rows that the cursor only passes are not read. */
const PASSING = 60;

/** Maximum number of hits of a search in one session, and milliseconds between two partial results. */
const MOST_FOUND = 5_000;
const TELLING_FOUND = 150;

/** Pause after an automatic refresh, as a multiple of its duration. */
const REST = 10;

/** The open session: it is read, followed while it grows, and searched. */
export function sessionEffects(shell: Shell, dispatch: (event: TerminalEvent) => void) {
  const reading = new LatestTask(dispatch);
  const finding = new LatestTask(dispatch);
  const looking = new LatestTask(dispatch);
  const failed = (error: unknown) => dispatch(failure(error));
  let current: OpenedSession | undefined;
  let unfollow = () => {};
  let refreshing: Promise<void> | undefined;
  /** Timer of the next refresh, and the earliest time of a refresh. */
  let growing: NodeJS.Timeout | undefined;
  let restedAt = 0;

  const opened = (): OpenedSession => {
    if (!current) throw new Error("No session is open.");
    return current;
  };

  const replace = async (session: OpenedSession | undefined): Promise<void> => {
    const before = current;
    current = session;
    unfollow();
    unfollow = () => {};
    clearTimeout(growing);
    growing = undefined;
    await before?.log.close();
  };

  /** Reads new entries. A call during a refresh waits for it, and then reads again. */
  const refresh = async (): Promise<void> => {
    // The caller of the failed refresh receives its error.
    await refreshing?.catch(() => undefined);
    refreshing ??= takeIn().finally(() => {
      refreshing = undefined;
    });
    return refreshing;
  };

  const takeIn = async (): Promise<void> => {
    const session = current;
    if (!session) return;
    const { ref } = session.log;
    try {
      const began = performance.now();
      await session.log.takeIn();
      const model = grownModel(session);
      restedAt = performance.now() + REST * (performance.now() - began);
      if (!model) return;
      session.model = model;
      if (current === session) dispatch({ type: "grown", ref, model });
    } catch (error) {
      if (!isReplaced(error) || current !== session) throw error;
      performers.open({ type: "open", ref });
      await reading.settled();
    }
  };

  /** Reads entries of other writers. In a long session the refreshes are rare enough for keys to react. */
  const grow = (): void => {
    growing ??= setTimeout(
      () => {
        growing = undefined;
        refresh().catch(failed);
      },
      Math.max(0, restedAt - performance.now()),
    );
  };

  /** Sums up the cost of the sub-agents of a session, at any depth. */
  const readSubAgents = async ({ log }: OpenedSession, signal: AbortSignal): Promise<SubAgentUsage> => {
    const bills: UsageTotals[] = [];
    const told = tellSkipped({ complainOnce: (message) => dispatch({ type: "warned", message }) });
    const { header } = log;
    if (!header) return { runs: 0, total: sumOfBills([]) };
    for await (const { tree } of subAgentsOf({ header }, { ...storeOf(shell), ...told })) {
      bills.push(statsOf(tree).total);
      signal.throwIfAborted();
    }
    return { runs: bills.length, total: sumOfBills(bills) };
  };

  const performers: Performers<"open" | "close" | "find" | "read-tab" | "compare"> = {
    // Shows the part that can be shown at once, then the whole session, then every change.
    open({ ref, entryId, editorText }) {
      reading.begin(async (signal, tell) => {
        const log = await storeInUse(shell).open({ file: ref }, "read");
        // A session in a store is fetched completely first.
        if (!log.view) tell({ type: "warned", message: "Fetching the session from its store …" });
        const view = await log.load();
        // During the read, the user may have opened another session.
        if (signal.aborted) return log.close();
        const begun = firstModel(view);
        const session: OpenedSession = { log, model: begun };
        await replace(session);
        const opened = {
          type: "opened" as const,
          ref: log.ref,
          cwd: log.header?.cwd ?? "",
          readOnly: whyReadOnly(log),
        };
        const nobody = { name: "", isBilled: false };
        tell({ ...opened, writer: nobody, model: begun, entryId, editorText });
        if (begun.isPartial) session.model = await wholeModel(view, pauses(signal));
        const { model } = session;
        // The screen is already drawn, so no question about a changed project can be printed.
        const { values } = await currentSettings({ ...shell, interactive: false });
        const { summarizer } = summarizerOf(shell, values);
        const writer = { name: summarizer.name, isBilled: summarizer.name !== "extractive" };
        signal.throwIfAborted();
        // An entry that is not at the end of the log is shown when the whole log is read.
        const place = begun.isPartial ? entryId : undefined;
        tell({ ...opened, writer, model, entryId: place, editorText: undefined });
        unfollow = followLog(log, grow);
      });
    },
    close() {
      for (const task of [reading, finding, looking]) task.end();
      replace(undefined).catch(failed);
    },
    find({ query }) {
      finding.end();
      if (query === "") return;
      finding.begin(async (signal, tell) => {
        const asked = { ...storeOf(shell), files: [opened().log.ref], limit: MOST_FOUND, signal };
        await collect(searchSessions(query, asked), TELLING_FOUND, (hits, isDone) =>
          tell({ type: "found", query, entryIds: hits.map(({ entryId }) => entryId), isDone }),
        );
      }, PASSING);
    },
    "read-tab"({ tab, row }) {
      looking.begin(async (signal, tell) => {
        const show = (lines: TabLines) => tell({ type: "tab", tab, row, lines });
        const session = opened();
        const { tree } = session.model;
        if (tab === "context") {
          const context = readContext(tree, tree.idAt(row));
          return show((columns) => contextLines(context, columns));
        }
        const usage = await readPathUsage(session.model, row, pauses(signal));
        show((columns) => usageLines(usage, columns));
        session.subAgents ??= await readSubAgents(session, signal);
        const { subAgents } = session;
        if (subAgents.runs > 0) show((columns) => usageLines({ ...usage, subAgents }, columns));
      }, PASSING);
    },
    compare({ a, b }) {
      dispatch({ type: "compared", comparison: compareBranches(opened().model.tree, a, b) });
    },
  };
  return { performers, refresh };
}

/** A session for reading, followed while it grows. Changes nothing and takes no lease. */
interface OpenedSession {
  readonly log: SessionLog;
  /** Model of the part that has been read. */
  model: TreeModel;
  /** Cost of its sub-agents, once it was read. */
  subAgents?: SubAgentUsage;
}

/** Returns the reason why a session cannot be changed here, in one sentence. */
function whyReadOnly({ header, ref }: SessionLog): string | undefined {
  if (!header) return "This file has no session header; it is opened read-only.";
  if (header.version > FORMAT_VERSION)
    return `This session has format version ${header.version}, newer than this program writes; it is opened read-only.`;
  // A store reports its own error when it is written.
  if (!isAbsolute(ref)) return undefined;
  try {
    accessSync(ref, constants.W_OK);
    return undefined;
  } catch {
    // The system gives no reason.
    return "You have no right to write this file; it is opened read-only.";
  }
}

/** A log of up to this many bytes is indexed before anything is shown, which takes a few milliseconds. */
const SHORT = 4_000_000;

/** Bytes at the end of a longer log that are shown until the whole log is read. */
const END = 400_000;

/** Bytes that are indexed before keys are handled again. */
const SLICE = 1_500_000;

/** Returns the model that can be shown at once: all of a short log, the end of a long one. */
function firstModel(view: ByteView): TreeModel {
  const from = view.size <= SHORT ? 0 : lineBehind(view, view.size - END);
  const isPartial = from > 0 && from < view.size;
  return treeModel(new Tree(isPartial ? partView(view, from, view.size) : view), { isPartial });
}

/** Returns the model of the whole log; pauses so that keys are handled. */
async function wholeModel(view: ByteView, pause: Pause): Promise<TreeModel> {
  const tree = new Tree(partView(view, 0, 0));
  let kinds = "";
  let bookkeeping: Uint8Array = new Uint8Array();
  for (let end = 0; end < view.size; ) {
    end = lineBehind(view, Math.min(view.size, end + SLICE));
    tree.takeIn(end < view.size ? partView(view, 0, end) : view);
    kinds += outlineOf(tree, kinds.length).kinds;
    bookkeeping = bookkeepingOf(tree, kinds, bookkeeping);
    await pause();
  }
  return treeModel(tree, { kinds, bookkeeping });
}

/** Returns the model of a log that has grown; undefined without new entries. */
function grownModel({ log: { view }, model }: OpenedSession): TreeModel | undefined {
  const { tree, gists, isPartial } = model;
  if (!view || isPartial || tree.view.size === view.size) return undefined;
  tree.takeIn(view);
  const kinds = model.kinds + outlineOf(tree, model.kinds.length).kinds;
  return treeModel(tree, { kinds, bookkeeping: bookkeepingOf(tree, kinds, model.bookkeeping), gists });
}

/** Returns true when the file was replaced, so that the session has to be opened again. */
const isReplaced = (error: unknown): boolean => error instanceof EspalierError && REPLACED.has(error.code);
const REPLACED: ReadonlySet<string> = new Set(["changed", "removed", "shrunk", "not-found"]);

/** Milliseconds between two checks of a log that cannot be watched: in a store, or on some systems. */
const LOOK = 1_000;

/**
 * Error codes of systems that cannot watch a file: too many watchers, no support, no file. The timer replaces the
 * watcher.
 */
const UNWATCHED: ReadonlySet<string | undefined> = new Set([
  "ENOSPC",
  "EMFILE",
  "ENOSYS",
  "ENOENT",
  "EACCES",
]);

/** Calls `look` whenever a log may have grown; returns a function that stops this. */
function followLog({ ref }: Pick<SessionLog, "ref">, look: () => void): () => void {
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
    if (!UNWATCHED.has((error as NodeJS.ErrnoException).code)) throw error;
    return undefined;
  }
}
