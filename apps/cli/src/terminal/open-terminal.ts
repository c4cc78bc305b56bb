// Separate from interactive.ts: it is loaded by the terminal alone.
import { accessSync, constants } from "node:fs";
import { isAbsolute } from "node:path";
import { setImmediate } from "node:timers/promises";
import { listSessions, searchSessions } from "@espalier/engine";
import {
  type BilledCall,
  billedCallAt,
  compareBranches,
  copiedRows,
  recordedCost,
  statsOf,
  totalWithRecorded,
} from "@espalier/engine/reading";
import { describeFound, foundSessions } from "@espalier/interop/node";
import { EspalierError } from "@espalier/jsonl-stream";
import { FORMAT_VERSION, type SessionLog, type SessionStore, Tree, tipRows } from "@espalier/session-tree";
import { oneAfterTheOther } from "@espalier/viewer/model";
import { subAgentCosts, sumOfBills } from "../commands/costs.ts";
import { formatMany } from "../numbers.ts";
import { currentSettings, storeInUse, storeOf, summarizerOf, tellSkipped } from "../opening.ts";
import { consoleTo, type Shell } from "../shell.ts";
import { plainLine } from "../text.ts";
import { actEffects } from "./effects/acts.ts";
import { collect, failure, followLog, LatestTask, type Performers, pauses } from "./effects/task.ts";
import { ACT_BINDINGS, shownKeys } from "./keys/act-bindings.ts";
import { GENERAL_BINDINGS, SESSIONS_BINDINGS } from "./keys/sessions-bindings.ts";
import { TREE_BINDINGS } from "./keys/tree-bindings.ts";
import { type Frame, fitLine, fitLines, type Line, line, lineWidth, span } from "./screen/frame.ts";
import { readInput } from "./screen/keys.ts";
import { handleSignals, Screen } from "./screen/screen.ts";
import { drawDialog } from "./state/dialog.ts";
import { firstState, type TabLines, type TerminalEffect, type TerminalState } from "./state/state.ts";
import { coveredAbove } from "./state/tree-cursor.ts";
import { type TerminalEvent, update } from "./state/update.ts";
import { firstModel, grownModel, type TreeModel, wholeModel } from "./tree/tree-model.ts";
import { bodyHeight, frameHeight, noticeTexts } from "./view/layout.ts";
import { sessionsHeading, viewSessions } from "./view/sessions.ts";
import { contextLines, readContext, readPathUsage, type SubAgentUsage, usageLines } from "./view/tabs.ts";
import { searchLine, treeHeading, viewTreeScreen } from "./view/tree.ts";

/** Milliseconds between two clock events. */
const TICK = 1_000;

/** Minimum number of milliseconds between two frames: at most 60 frames per second. */
const FRAME = 16;

/**
 * Opens the terminal's interface at the session `ref`, else at the list; resolves when the user quits. Only here the
 * state is changed and side effects are started; the rest of the terminal is pure.
 */
export async function openTerminal(shell: Shell, ref?: string, ascii = false): Promise<void> {
  const { stdin, stdout } = process;
  const isColoured = shell.colours.isColorSupported;
  const screen = new Screen(stdin, stdout, { colours: isColoured, ascii });
  let state = firstState({ size: screen.size, now: Date.now(), isColoured });
  let shownAt = 0;
  let drawing: NodeJS.Timeout | undefined;
  const draw = () => {
    clearTimeout(drawing);
    drawing = undefined;
    screen.draw(view(state), state.size.columns);
    shownAt = performance.now();
  };
  const redraw = () => {
    screen.clear();
    draw();
  };
  const perform = (effect: TerminalEffect) =>
    (performers[effect.type] as (effect: TerminalEffect) => void)(effect);
  const dispatch = (event: TerminalEvent) => {
    // The list is read until a session has opened, because opening it can fail.
    if (event.type === "opened") lists.end();
    const before = state;
    const next = update(before, event);
    state = next.state;
    for (const effect of next.effects) perform(effect);
    // One frame shows several events in a short time.
    if (state !== before) drawing ??= setTimeout(draw, shownAt + FRAME - performance.now());
  };
  const lists = listEffects(shell, dispatch);
  const sessions = sessionEffects(shell, dispatch);
  const acts = actEffects(shell, dispatch, { ref: () => state.tree?.ref ?? "", refresh: sessions.refresh });
  const signals = handleSignals(screen, draw);
  let quit = () => {};
  const ended = new Promise<void>((resolve) => {
    quit = resolve;
  });
  const performers: Performers = {
    ...lists.performers,
    ...sessions.performers,
    ...acts.performers,
    copy({ text, what }) {
      screen.copy(text);
      dispatch({ type: "warned", message: `Copied ${what}.` });
    },
    suspend: signals.suspend,
    redraw,
    quit,
  };
  const input = readInput(stdin, dispatch);
  const clock = setInterval(() => dispatch({ type: "tick", now: Date.now() }), TICK);
  const resized = () => {
    screen.clear();
    dispatch({ type: "resize", ...screen.size });
  };
  stdout.on("resize", resized);
  consoleTo((message) => dispatch({ type: "warned", message }));
  try {
    screen.enter();
    perform(ref === undefined ? { type: "list-sessions", filter: {} } : { type: "open", ref });
    // A short session is read before this resolves, so the list is not drawn first.
    await setImmediate();
    draw();
    await ended;
  } finally {
    clearInterval(clock);
    stdout.off("resize", resized);
    input.end();
    sessions.performers.close({ type: "close" });
    await acts.end();
    // An aborted import begins to read the list again.
    lists.end();
    screen.leave();
    consoleTo();
    signals.forget();
  }
}

/** Draws the screen of a state: heading, body, and the keys. */
export function view(state: TerminalState): Frame {
  const { tree, dialog, size } = state;
  const heading = tree ? treeHeading(tree, size.columns) : sessionsHeading(state);
  const body = fitLines(tree ? viewTreeScreen(state, tree) : viewSessions(state), bodyHeight(state));
  if (dialog) return fitFrame(state, [heading, ...drawDialog(body, dialog, size.columns), footer(state)]);
  const notice = noticeTexts(state).map((text) =>
    line(span(` ${text}`, state.notice?.isError ? "error" : "label")),
  );
  const foot = notice.length > 0 ? notice : [footer(state)];
  const above = coveredAbove(state);
  const shown = body.slice(above, above + body.length - foot.length + 1);
  return fitFrame(state, [heading, ...shown, ...foot]);
}

const fitFrame = (state: TerminalState, frame: readonly Line[]): Frame =>
  fitLines(frame, frameHeight(state)).map((one) => fitLine(one, state.size.columns));

/** Draws the last line: the query of a search, else the notice, else the running work, else the keys. */
function footer(state: TerminalState): Line {
  const { notice, work, dialog, tree, now, sessions } = state;
  if (tree?.search && !dialog) return searchLine(tree, tree.search.field);
  if (notice) return line(span(` ${plainLine(notice.text)}`, notice.isError ? "error" : "label"));
  if (work) {
    const seconds = Math.max(0, Math.round((now - work.started) / 1_000));
    const tokens = work.tokens > 0 ? `, ${formatMany(work.tokens, "token")}` : "";
    const end = work.isAborting ? "is being aborted …" : "Esc aborts it";
    const detail = work.detail && ` (${work.detail})`;
    return line(span(` ${work.title}${detail} … ${seconds} s${tokens}  `, "label"), span(end, "dim"));
  }
  if (dialog?.field) return keys([dialog.hasLines ? "Ctrl-S" : "Enter", "confirm"], ["Esc", "cancel"]);
  if (dialog && dialog.choices.length > 0)
    return keys(["Enter", "choose"], ["↑↓", "move"], ["Esc", "cancel"]);
  if (dialog) return keys(["↑↓", "scroll"], ["Esc", "back"]);
  if (!tree && sessions.query) return keys(["Enter", "open"], ["↑↓", "choose"], ["Esc", "end the search"]);
  if (tree?.isReading) return keys(...READING_KEYS);
  const own = tree ? [...ACT_BINDINGS, ...TREE_BINDINGS] : SESSIONS_BINDINGS;
  const hinted = [...own, ...GENERAL_BINDINGS].flatMap((binding): [string, string][] =>
    // The list is the first screen, so there is no way back.
    binding.hint && (tree || binding.hint !== "back")
      ? [[shownKeys(binding).split(" ")[0]!, binding.hint]]
      : [],
  );
  return fitKeys(hinted, state.size.columns);
}

/** Keys of the reading pane. Acts are not listed, because they need the tree. */
const READING_KEYS = [
  ["↑↓", "scroll"],
  ["←→", "other rows"],
  ["z", "in full"],
  ["Tab", "preview"],
  ["Esc", "back"],
  ["?", "help"],
  ["q", "quit"],
] as const;

const keys = (...pairs: readonly (readonly [string, string])[]): Line => ({
  spans: pairs.flatMap(([key, title]) => [span(` ${key} `, "heading"), span(title, "dim"), span(" ")]),
});

/** Draws as many keys as fit; help and quit, the last ones, are always shown. */
function fitKeys(pairs: readonly [string, string][], columns: number): Line {
  const shown = [...pairs];
  while (shown.length > 2 && lineWidth(keys(...shown)) > columns) shown.splice(-3, 1);
  return keys(...shown);
}

/** Milliseconds without a key before a search begins, so that a query is searched only when the user stops typing. */
const TYPING = 150;

/** Maximum number of hits of a search in all sessions, and milliseconds between two partial results. */
const MOST_HITS = 500;
const TELLING = 100;

/** Maximum bytes of a session that is read for the list; a longer one is read only when it is opened. */
const MOST_BYTES = 64_000_000;

/** The same limit for a store that has to send the whole session. */
const MOST_FETCHED = 2_000_000;

/** Reads the list of sessions and the facts of the listed ones, and searches the messages of all sessions. */
export function listEffects(shell: Pick<Shell, "store">, dispatch: (event: TerminalEvent) => void) {
  const listing = new LatestTask(dispatch);
  const searching = new LatestTask(dispatch);
  const counting = new LatestTask(dispatch);
  const place = {
    ...storeOf(shell),
    ...tellSkipped({ complainOnce: (message) => dispatch({ type: "skipped", message }) }),
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

/**
 * Counts the branches of a session and its own cost, without calls that a fork copied. Undefined for a session that was
 * removed, and for one of more than 64 MB, or 2 MB in a store that has to send it.
 */
async function factsOf(store: SessionStore, ref: string, bytes: number, signal: AbortSignal) {
  const pause = pauses(signal);
  const log = await store.open({ file: ref }, "read").catch(goneSince);
  if (!log) return undefined;
  try {
    if (bytes > (log.view ? MOST_BYTES : MOST_FETCHED)) return undefined;
    const view = await log.load();
    const tree = new Tree(view);
    await pause();
    const calls = new Map<number, BilledCall>();
    const copies = copiedRows(tree);
    for (let row = 0; row < tree.length; row++) {
      const call = copies.has(row) ? undefined : billedCallAt(tree, row);
      if (call) calls.set(row, call);
      await pause();
    }
    return { branches: tipRows(tree).length, bill: totalWithRecorded(calls, recordedCost(tree)) };
  } finally {
    await log.close();
  }
}

/** Returns no facts for a session that was removed after it was listed, so that the others are still read. */
function goneSince(error: unknown): undefined {
  if (!(error instanceof EspalierError && error.code === "not-found")) throw error;
}

/** Milliseconds before content is read for a row, so that rows that the cursor only passes are not read. */
const PASSING = 60;

/** Maximum number of hits of a search in one session, and milliseconds between two partial results. */
const MOST_FOUND = 5_000;
const TELLING_FOUND = 150;

/** Pause after an automatic refresh, as a multiple of its duration. */
const REST = 10;

/** Reads the open session, follows it while it grows, searches it, and compares its branches. */
export function sessionEffects(shell: Shell, dispatch: (event: TerminalEvent) => void) {
  const reading = new LatestTask(dispatch);
  const finding = new LatestTask(dispatch);
  const looking = new LatestTask(dispatch);
  const failed = (error: unknown) => dispatch(failure(error));
  /** The open session. While none is open, no effect reads it. */
  let current: OpenedSession | undefined;
  let unfollow = () => {};
  /** Timer of the next refresh, and the earliest time of a refresh. */
  let growing: NodeJS.Timeout | undefined;
  let restedAt = 0;

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
  const refresh = oneAfterTheOther(async () => {
    const session = current;
    if (!session) return;
    const { ref } = session.log;
    try {
      const began = performance.now();
      await session.log.takeIn();
      const model = grownModel(session.model, session.log.view);
      restedAt = performance.now() + REST * (performance.now() - began);
      if (!model) return;
      session.model = model;
      if (current === session) dispatch({ type: "grown", ref, model });
    } catch (error) {
      if (!isReplaced(error) || current !== session) throw error;
      performers.open({ type: "open", ref });
      await reading.settled();
    }
  });

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
    const complainOnce = (message: string) => dispatch({ type: "skipped", message });
    const runs = await subAgentCosts(log, { store: shell.store, complainOnce }, (tree) => {
      signal.throwIfAborted();
      return statsOf(tree).total;
    });
    return { runs: runs.length, total: sumOfBills(runs.map(({ cost }) => cost)) };
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
        const cwd = log.header?.cwd ?? "";
        const opened = { type: "opened" as const, ref: log.ref, cwd, readOnly: whyReadOnly(log) };
        const nobody = { name: "", isBilled: false };
        tell({ ...opened, writer: nobody, isFinding: true, model: begun, entryId, editorText });
        if (begun.isPartial) session.model = await wholeModel(view, pauses(signal));
        const { model } = session;
        // The screen is already drawn, so no question about a changed project can be printed.
        const { values } = await currentSettings({ ...shell, interactive: false });
        const { summarizer } = summarizerOf(shell, values);
        const writer = { name: summarizer.name, isBilled: summarizer.name !== "extractive" };
        signal.throwIfAborted();
        // An entry that is not at the end of the log is shown when the whole log is read.
        const place = begun.isPartial ? entryId : undefined;
        const isFinding = values.rules;
        tell({ ...opened, writer, isFinding, model, entryId: place, editorText: undefined });
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
        const asked = { ...storeOf(shell), files: [current!.log.ref], limit: MOST_FOUND, signal };
        await collect(searchSessions(query, asked), TELLING_FOUND, (hits, isDone) =>
          tell({ type: "found", query, entryIds: hits.map(({ entryId }) => entryId), isDone }),
        );
      }, PASSING);
    },
    "read-tab"({ tab, row }) {
      looking.begin(async (signal, tell) => {
        const show = (lines: TabLines) => tell({ type: "tab", tab, row, lines });
        const session = current!;
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
      dispatch({ type: "compared", comparison: compareBranches(current!.model.tree, a, b) });
    },
  };
  return { performers, refresh };
}

/** A session for reading, followed while it grows. Changes nothing and takes no lease. */
interface OpenedSession {
  readonly log: SessionLog;
  /** Model of the part that has been read. */
  model: TreeModel;
  /** Cost of the session's sub-agents; undefined until it was read. */
  subAgents?: SubAgentUsage;
}

/** Returns the reason why a session cannot be changed here, in one sentence; undefined if none is known. */
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

/** Returns true when the file was replaced, shortened or removed, so that the session has to be opened again. */
const isReplaced = (error: unknown): boolean => error instanceof EspalierError && REPLACED.has(error.code);
const REPLACED: ReadonlySet<string> = new Set(["changed", "removed", "shrunk", "not-found"]);
