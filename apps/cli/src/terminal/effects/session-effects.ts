import { accessSync, constants, type FSWatcher, watch } from "node:fs";
import { isAbsolute } from "node:path";
import { compareBranches, searchSessions, statsOf, subAgentsOf } from "@espalier/engine";
import type { UsageTotals } from "@espalier/engine/reading";
import type { ByteView } from "@espalier/jsonl-stream";
import { EspalierError } from "@espalier/jsonl-stream";
import { FORMAT_VERSION, type SessionLog, Tree } from "@espalier/session-tree";
import { outlineOf } from "@espalier/viewer/model";
import { sumOfBills } from "../../commands/costs.ts";
import { storeInUse, storeOf, tellSkipped } from "../../opening.ts";
import type { Shell } from "../../shell.ts";
import type { TabLines, TerminalEffect, TerminalEvent } from "../state/state.ts";
import { bookkeepingOf, type TreeModel, treeModel } from "../tree/tree-model.ts";
import { contextLines, readContext } from "../view/context.ts";
import { readPathUsage, type SubAgentUsage, usageLines } from "../view/usage.ts";
import { lineBehind, partView } from "./list-effects.ts";
import { collect, LatestTask, type Pause, type Performers, pauses } from "./task.ts";

/** Milliseconds before content is read for a row, so that rows that the cursor only passes are not read. */
const PASSING = 60;

/** Milliseconds between two partial results of a search, and the maximum number of hits. */
const TELLING = 150;
const MOST_FOUND = 5_000;

/** Pause after an automatic refresh, as a multiple of its duration. */
const REST = 10;

/** The open session: it is read, followed while it grows, and searched. */
export class SessionEffects {
  readonly #shell: Pick<Shell, "store">;
  readonly #dispatch: (event: TerminalEvent) => void;
  readonly #writer: () => Promise<{ name: string; isBilled: boolean }>;
  readonly #failed: (error: unknown) => void;
  readonly #reading: LatestTask;
  readonly #finding: LatestTask;
  readonly #looking: LatestTask;
  #session: OpenedSession | undefined;
  #unfollow: () => void = () => {};
  #refreshing: Promise<void> | undefined;
  /** Timer of the next refresh, and the earliest time of a refresh. */
  #growing: NodeJS.Timeout | undefined;
  #restedAt = 0;

  constructor(
    shell: Pick<Shell, "store">,
    dispatch: (event: TerminalEvent) => void,
    writer: () => Promise<{ name: string; isBilled: boolean }>,
    failed: (error: unknown) => void,
  ) {
    this.#shell = shell;
    this.#dispatch = dispatch;
    this.#writer = writer;
    this.#failed = failed;
    this.#reading = new LatestTask(dispatch, failed);
    this.#finding = new LatestTask(dispatch, failed);
    this.#looking = new LatestTask(dispatch, failed);
  }

  readonly performers: Performers<"open" | "close" | "find" | "read-tab" | "compare"> = {
    open: (effect) => this.#reading.begin((...task) => this.#load(effect, ...task)),
    close: () => this.close(),
    find: ({ query }) => {
      this.#finding.end();
      if (query === "") return;
      this.#finding.begin(async (signal, tell) => {
        const asked = { ...storeOf(this.#shell), files: [this.#open.log.ref], limit: MOST_FOUND, signal };
        await collect(searchSessions(query, asked), TELLING, (hits, isDone) =>
          tell({ type: "found", query, entryIds: hits.map(({ entryId }) => entryId), isDone }),
        );
      }, PASSING);
    },
    "read-tab": ({ tab, row }) => {
      this.#looking.begin((signal, tell) => {
        const show = (lines: TabLines) => tell({ type: "tab", tab, row, lines });
        return tab === "context" ? this.#readContext(row, show) : this.#readUsage(row, show, signal);
      }, PASSING);
    },
    compare: ({ a, b }) =>
      this.#dispatch({ type: "compared", comparison: compareBranches(this.#open.model.tree, a, b) }),
  };

  /** Shows the part that can be shown at once, then the whole session, then every change. */
  async #load(
    { ref, entryId, editorText }: Extract<TerminalEffect, { type: "open" }>,
    signal: AbortSignal,
    tell: (event: TerminalEvent) => void,
  ): Promise<void> {
    const log = await storeInUse(this.#shell).open({ file: ref }, "read");
    // A session in a store is fetched completely first.
    if (!log.view) tell({ type: "warned", message: "Fetching the session from its store …" });
    const view = await log.load();
    // The user may have opened another session meanwhile.
    if (signal.aborted) return log.close();
    const begun = firstModel(view);
    const session: OpenedSession = { log, model: begun };
    await this.#replace(session);
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
    const writer = await this.#writer();
    signal.throwIfAborted();
    // An entry that is not at the end of the log is shown when the whole log is read.
    const place = begun.isPartial ? entryId : undefined;
    tell({ ...opened, writer, model, entryId: place, editorText: undefined });
    this.#unfollow = followLog(log, () => this.#grow());
  }

  close(): void {
    for (const task of [this.#reading, this.#finding, this.#looking]) task.end();
    this.#replace(undefined).catch(this.#failed);
  }

  async #readContext(row: number, tell: (lines: TabLines) => void): Promise<void> {
    const { tree } = this.#open.model;
    const context = readContext(tree, tree.idAt(row));
    tell((columns) => contextLines(context, columns));
  }

  async #readUsage(row: number, tell: (lines: TabLines) => void, signal: AbortSignal): Promise<void> {
    const session = this.#open;
    const usage = await readPathUsage(session.model, row, pauses(signal));
    tell((columns) => usageLines(usage, columns));
    session.subAgents ??= await this.#readSubAgents(session, signal);
    const { subAgents } = session;
    if (subAgents.runs > 0) tell((columns) => usageLines({ ...usage, subAgents }, columns));
  }

  /** Sums up the cost of the sub-agents of a session, at any depth. */
  async #readSubAgents({ log }: OpenedSession, signal: AbortSignal): Promise<SubAgentUsage> {
    const bills: UsageTotals[] = [];
    const told = tellSkipped({ complainOnce: (message) => this.#dispatch({ type: "warned", message }) });
    const { header } = log;
    if (!header) return { runs: 0, total: sumOfBills([]) };
    for await (const { tree } of subAgentsOf({ header }, { ...storeOf(this.#shell), ...told })) {
      bills.push(statsOf(tree).total);
      signal.throwIfAborted();
    }
    return { runs: bills.length, total: sumOfBills(bills) };
  }

  /** Reads new entries. A call during a refresh waits for it, and then reads again. */
  async refresh(): Promise<void> {
    // The caller of the failed refresh receives its error.
    await this.#refreshing?.catch(() => undefined);
    this.#refreshing ??= this.#refresh().finally(() => {
      this.#refreshing = undefined;
    });
    return this.#refreshing;
  }

  /** Reads entries of other writers. In a long session the refreshes are rare enough for keys to react. */
  #grow(): void {
    if (this.#growing) return;
    this.#growing = setTimeout(
      () => {
        this.#growing = undefined;
        this.refresh().catch(this.#failed);
      },
      Math.max(0, this.#restedAt - performance.now()),
    );
  }

  async #refresh(): Promise<void> {
    const session = this.#session;
    if (!session) return;
    const { ref } = session.log;
    try {
      const began = performance.now();
      await session.log.takeIn();
      const model = grownModel(session);
      this.#restedAt = performance.now() + REST * (performance.now() - began);
      if (!model) return;
      session.model = model;
      if (this.#session === session) this.#dispatch({ type: "grown", ref, model });
    } catch (error) {
      if (!isReplaced(error) || this.#session !== session) throw error;
      this.performers.open({ type: "open", ref });
      await this.#reading.settled();
    }
  }

  get #open(): OpenedSession {
    if (!this.#session) throw new Error("No session is open.");
    return this.#session;
  }

  async #replace(session: OpenedSession | undefined): Promise<void> {
    const before = this.#session;
    this.#session = session;
    this.#unfollow();
    this.#unfollow = () => {};
    clearTimeout(this.#growing);
    this.#growing = undefined;
    await before?.log.close();
  }
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
