// Separate from open-terminal.ts: it is pure: an event in, the next state out.
import type { CompactionPlan, CompactionPreparation } from "@espalier/compaction";
import type { ListedSession, SearchHit } from "@espalier/engine";
import type { BranchComparison, BranchSide } from "@espalier/engine/reading";
import type { Change } from "../../commands/changes.ts";
import { viewPlan } from "../../commands/compact.ts";
import { previewEntry } from "../../entry-preview.ts";
import { wrapText } from "../../markdown/markdown.ts";
import { formatCount, formatMany, formatPrice } from "../../numbers.ts";
import { cutToColumns, plainLine } from "../../text.ts";
import type { Act } from "../effects/acts.ts";
import {
  ACT_BINDINGS,
  askAgainToUndo,
  askBusy,
  beginAct,
  bindingOf,
  showContinued,
  withFocus,
} from "../keys/act-bindings.ts";
import {
  generalKey,
  listAgain,
  moveInList,
  SESSIONS_BINDINGS,
  searchFor,
  searchKey,
} from "../keys/sessions-bindings.ts";
import {
  READING_BINDINGS,
  searchTree,
  TREE_BINDINGS,
  toFirstHit,
  toHit,
  typeSearch,
} from "../keys/tree-bindings.ts";
import { beside, EMPTY, type Line, line, span } from "../screen/frame.ts";
import { kindOfRow, type TreeModel, treeView } from "../tree/tree-model.ts";
import { treeLayout } from "../view/layout.ts";
import { isSameRow, sessionsRows } from "../view/sessions.ts";
import { CANCEL, openDialog, updateDialog } from "./dialog.ts";
import {
  type Choice,
  effect,
  type Question,
  type ReadTab,
  type SessionFacts,
  type SessionsState,
  say,
  type TabLines,
  type TerminalEffect,
  type TerminalState,
  type TreeState,
  withTree,
} from "./state.ts";
import { insertText, textField } from "./text-field.ts";
import {
  coveredAbove,
  moveTo,
  positionOf,
  reveal,
  shownOnScreen,
  toggleBookkeeping,
  withModel,
  withView,
} from "./tree-cursor.ts";

/** Returns the next state after an event, and the effects to run. Pure, except that it reads the log. */
export function update(
  state: TerminalState,
  { type, ...fields }: TerminalEvent,
): { state: TerminalState; effects: readonly TerminalEffect[] } {
  const handle: Handler = HANDLERS[type];
  const changed = handle(state, fields as never);
  const { effects } = changed;
  const rested = effects.length > 0 ? { ...changed, effects: [] } : changed;
  return { state: rested, effects: [...effects, ...readsFor(state, changed)] };
}

function updateByKey(state: TerminalState, key: string): TerminalState {
  const { dialog, tree, sessions } = state;
  if (dialog) return updateDialog(state, dialog, key);
  if (tree?.search) return typeSearch(state, tree, tree.search, key);
  if (tree) {
    const binding =
      (tree.isReading ? bindingOf(READING_BINDINGS, key) : undefined) ??
      bindingOf(TREE_BINDINGS, key) ??
      bindingOf(ACT_BINDINGS, key);
    return binding?.run(state, tree) ?? generalKey(state, key) ?? state;
  }
  const searched = searchKey(state, sessions, key);
  return (
    searched ?? bindingOf(SESSIONS_BINDINGS, key)?.run(state, sessions) ?? generalKey(state, key) ?? state
  );
}

/** Number of lines above the body. */
const HEADING = 1;

function updateByClick(state: TerminalState, row: number): TerminalState {
  const { dialog, tree, sessions } = state;
  if (dialog) return state;
  if (!tree) {
    const at = sessions.top + row - HEADING - 1;
    const isRow = row > HEADING && at < sessionsRows(sessions).length;
    return isRow ? { ...state, sessions: moveInList(state, sessions, at) } : state;
  }
  if (tree.isReading) return state;
  const at = row - HEADING + coveredAbove(state);
  const position = row < HEADING ? undefined : shownOnScreen(tree, treeLayout(state, false).treeHeight)[at];
  return position === undefined ? state : { ...state, tree: moveTo(state, tree, position) };
}

/** Returns effects that read content for newly visible rows. */
function readsFor(before: TerminalState, { tree, sessions }: TerminalState): TerminalEffect[] {
  if (tree) {
    const isShownAnew =
      tree.cursor !== before.tree?.cursor ||
      tree.tab !== before.tree.tab ||
      tree.view.model !== before.tree.view.model;
    if (!isShownAnew || tree.cursor < 0 || tree.tab === "entry") return [];
    return [{ type: "read-tab", tab: tree.tab, row: tree.cursor }];
  }
  const isSameList =
    before.sessions.listed === sessions.listed &&
    before.sessions.showsSubAgents === sessions.showsSubAgents &&
    before.sessions.top === sessions.top;
  if (isSameList && !before.tree) return [];
  const unread = sessionsRows(sessions)
    .slice(sessions.top, sessions.top + 100)
    .flatMap((row) => (row.type === "session" && !sessions.facts.has(row.session.ref) ? [row.session] : []));
  return unread.length === 0 ? [] : [{ type: "read-facts", sessions: unread }];
}

/** Returns the state with a changed list. A cursor on the first row stays at the top, others stay on their row. */
function withSessions(state: TerminalState, sessions: SessionsState): TerminalState {
  const before = state.sessions;
  const kept = before.cursor === 0 ? undefined : sessionsRows(before)[before.cursor];
  const at = kept ? sessionsRows(sessions).findIndex((row) => isSameRow(row, kept)) : -1;
  return { ...state, sessions: moveInList(state, sessions, at < 0 ? sessions.cursor : at) };
}

/** A state without dialog, notice and work. */
const CLOSED: Pick<TerminalState, "dialog" | "notice" | "work"> = {
  dialog: undefined,
  notice: undefined,
  work: undefined,
};

type Handler = (state: TerminalState, event: never) => TerminalState;

/** All events of the terminal, each with its fields. */
const HANDLERS = {
  /** `key` is a character, or a name such as `up` and `ctrl-c`. */
  key: (state, { key }: { key: string }) => updateByKey({ ...state, notice: undefined }, key),
  paste(state, { text }: { text: string }) {
    const { dialog, tree, sessions } = state;
    const pasted = dialog?.hasLines ? text : text.replace(/\s*\n\s*/g, " ");
    if (dialog) {
      const field = dialog.field && insertText(dialog.field, pasted);
      return field ? { ...state, dialog: { ...dialog, field } } : state;
    }
    if (tree?.search)
      return searchTree(state, tree, { ...tree.search, field: insertText(tree.search.field, pasted) });
    if (tree || !sessions.query) return state;
    return searchFor(state, sessions, insertText(sessions.query, pasted));
  },
  click: (state, { row }: { row: number }) => updateByClick(state, row),
  resize(state, size: TerminalState["size"]) {
    const sized = { ...state, size };
    const resized = withTree(sized, (tree) => withView(sized, tree, tree.view));
    return withSessions(resized, resized.sessions);
  },
  tick: (state, { now }: { now: number }) => ({ ...state, now }),
  sessions(state, { sessions, isDone }: { sessions: readonly ListedSession[]; isDone: boolean }) {
    const { listed } = state.sessions;
    // A list that is read again is replaced when all of it was read.
    const known = isDone || sessions.length >= listed.length ? sessions : listed;
    return withSessions(state, { ...state.sessions, listed: known, isListing: !isDone });
  },
  /** Sessions of other agents that can be imported, in words. */
  others: (state, { text }: { text: string }) => ({
    ...state,
    sessions: { ...state.sessions, others: text },
  }),
  /** An import from other agents has ended. After a failure or an abort, some sessions may have been imported. */
  imported(state, { message, isFailure }: { message: string; isFailure: boolean }) {
    const { sessions } = state;
    return listAgain(say({ ...state, work: undefined }, message, isFailure), { ...sessions, others: "" });
  },
  facts(state, { ref, facts }: { ref: string; facts: SessionFacts }) {
    const sessions = { ...state.sessions, facts: new Map(state.sessions.facts).set(ref, facts) };
    return sessions.sort === "cost" ? withSessions(state, sessions) : { ...state, sessions };
  },
  hits(state, { query, hits, isDone }: { query: string; hits: readonly SearchHit[]; isDone: boolean }) {
    const { sessions } = state;
    if (sessions.query?.text.trim() !== query) return state;
    return withSessions(state, { ...sessions, hits, isSearching: !isDone });
  },
  opened: handleOpened,
  grown(state, { ref, model }: { ref: string; model: TreeModel }) {
    const { tree } = state;
    if (tree?.ref !== ref) return state;
    return { ...state, tree: withModel(state, tree, model) };
  },
  found: handleFound,
  tab: (state, { tab, row, lines }: { tab: ReadTab; row: number; lines: TabLines }) =>
    withTree(state, (tree) => ({ ...tree, tabs: { ...tree.tabs, [tab]: { row, lines } } })),
  planned(state, { plan }: { plan: CompactionPlan }) {
    const done = { ...state, work: undefined };
    if (!plan.eligible) return say(done, plan.reason);
    return state.tree ? askToCompact(done, state.tree, plan) : done;
  },
  compared: (state, { comparison }: { comparison: BranchComparison }) =>
    state.tree ? showComparison(state, state.tree, comparison) : state,
  progress(state, { tokens = 0, detail }: { tokens?: number; detail?: string }) {
    const { work } = state;
    if (!work) return state;
    const told = { tokens: Math.max(work.tokens, tokens), detail: detail ?? work.detail };
    return { ...state, work: { ...work, ...told } };
  },
  acted: handleActed,
  busy: (state, { act, holder }: { act: Act; holder: string }) =>
    askBusy({ ...state, work: undefined }, act, holder),
  /** The action that an undo would have undone is no longer the newest one. */
  outdated: (state, { message }: { message: string }) =>
    askAgainToUndo({ ...state, work: undefined }, message),
  /** A session file of another agent was written. `command` continues it. */
  continued: (state, { lines, command }: { lines: readonly string[]; command: string | null }) =>
    showContinued({ ...state, ...CLOSED }, lines, command),
  /** An error of the running work (`wasWork`), or of another reading. */
  failed: (state, { message, wasWork }: { message: string; wasWork: boolean }) =>
    say(wasWork ? { ...state, work: undefined } : state, message, true),
  told: (state, { message }: { message: string }) => say({ ...state, work: undefined }, message),
  /** A warning about work that continues. */
  warned: (state, { message }: { message: string }) => say(state, message),
  /** A list skips a session or a folder. The notice that is shown, such as the result of an import, stays. */
  skipped(state, { message }: { message: string }) {
    const { text, isError } = state.notice ?? { text: "", isError: false };
    return text.includes(message) ? state : say(state, `${text} ${message}`.trim(), isError);
  },
  /** An extension asks a question and waits for the answer. */
  asked: (state, { question }: { question: Question }) => ask(state, question),
  /** A question of an extension is obsolete. */
  withdrawn: (state, { question }: { question: number }) =>
    state.dialog?.question === question ? { ...state, dialog: undefined } : state,
} satisfies Record<string, Handler>;

/** An event of the terminal: a {@link TerminalInput}, or a result of an effect. */
export type TerminalEvent = {
  [Type in keyof typeof HANDLERS]: { type: Type } & Parameters<(typeof HANDLERS)[Type]>[1];
}[keyof typeof HANDLERS];

/** Takes in the entries of the open session that contain the query, as found so far. */
function handleFound(
  state: TerminalState,
  { query, entryIds, isDone }: { query: string; entryIds: readonly string[]; isDone: boolean },
): TerminalState {
  const { tree } = state;
  if (!tree || tree.query !== query) return state;
  const { model } = tree.view;
  const rows = entryIds.flatMap((id) => (model.tree.has(id) ? [model.tree.row(id)] : []));
  // Rows without a line cannot be selected.
  const hits = rows
    .filter((row) => model.order.movesLeaf(row))
    .sort((a, b) => positionOf(model, a) - positionOf(model, b));
  const found = { ...tree, hits };
  if (tree.search) return { ...state, tree: toFirstHit(state, found) };
  const isAwaited = isDone && tree.cursor === tree.awaits;
  return isAwaited ? toHit({ ...state, tree: found }, found, 0) : { ...state, tree: found };
}

/** A session that was opened. A second event follows when all of it and the settings were read. */
interface Opened extends Pick<TreeState, "ref" | "cwd" | "readOnly" | "writer" | "isFinding"> {
  model: TreeModel;
  /** Entry at the cursor. Default: the leaf; if this session is already shown, the current cursor. */
  entryId: string | undefined;
  /** Text that the user can edit and send here. */
  editorText: string | undefined;
}

function handleOpened(state: TerminalState, { model, entryId, editorText, ...facts }: Opened): TerminalState {
  const before = state.tree?.ref === facts.ref ? state.tree : undefined;
  const made: TreeState = before
    ? { ...withModel(state, before, model), ...facts }
    : {
        ...facts,
        view: treeView(model),
        cursor: -1,
        top: -1,
        mark: undefined,
        search: undefined,
        query: "",
        hits: [],
        tab: "entry",
        isReading: false,
        isDetailed: false,
        scroll: 0,
        tabs: {},
        awaits: undefined,
        onBusy: undefined,
      };
  const wanted = entryId !== undefined && model.tree.has(entryId) ? model.tree.row(entryId) : -1;
  // While bookkeeping is folded, an entry of it has no line.
  const isFolded = model.bookkeeping[wanted] === 1 && !made.view.model.order.movesLeaf(wanted);
  const tree = isFolded ? toggleBookkeeping(state, made) : made;
  const row = wanted >= 0 ? wanted : before ? tree.cursor : model.leafRow;
  const position = positionOf(tree.view.model, row);
  const placed = position < 0 ? moveTo(state, tree, -1) : reveal(state, tree, position);
  // When the rest of a partly read session arrives, the dialog stays. For another session it is closed; work goes on.
  const { dialog, notice, work } = before ? state : { ...CLOSED, work: state.work };
  const opened = { ...state, dialog, notice, work, tree: placed };
  return editorText === undefined ? opened : edit(opened, editorText);
}

/** Shows the result of an act: a notice, the changed entry, a dialog for a fork or the text of a reopened prompt. */
function handleActed(state: TerminalState, { outcome }: { outcome: Change }): TerminalState {
  const { sentences, entryId, editorText, ref } = outcome;
  const message = sentences.join(" ");
  let done: TerminalState = say({ ...state, work: undefined }, message);
  const { tree } = done;
  if (tree && entryId && tree.cursor === tree.awaits && tree.view.model.tree.has(entryId)) {
    const { model } = tree.view;
    const position = positionOf(model, model.tree.row(entryId));
    if (position >= 0) done = { ...done, tree: reveal(done, tree, position) };
  }
  if (ref !== undefined) return askAboutFork(done, message, ref, editorText);
  return editorText == null ? done : edit(done, editorText);
}

/** Shows the plan of a compaction for confirmation: its totals, and the first and last entries of each part. */
function askToCompact(state: TerminalState, tree: TreeState, plan: CompactionPreparation): TerminalState {
  const billed = tree.writer.isBilled ? ", which is billed" : "";
  const body = (columns: number): Line[] => [
    ...[...viewPlan(plan)].flatMap((text) => wrapText(text, columns)).map((text) => line(text.trimStart())),
    EMPTY,
    ...idLines(tree, [...plan.historyIds, ...plan.turnPrefixIds], "summarized", columns),
    ...idLines(tree, plan.keptIds, "kept", columns),
  ];
  return openDialog(state, "Compact", body, [
    {
      key: "y",
      title: `compact; ${plainLine(tree.writer.name)} writes the summary${billed}`,
      run: (closed) => beginAct(closed, { name: "compact" }),
    },
    {
      key: "f",
      title: "compact with a focus for the summary",
      run: withFocus((closed, text) => beginAct(closed, { name: "compact", instructions: text.trim() })),
    },
    CANCEL,
  ]);
}

/** Number of entries that are named at the beginning and at the end of a list. */
const FIRST = 6;
const LAST = 4;

/** Width in columns of the word before an entry, with a gap. */
const WHAT_WIDTH = 12;

function idLines(
  { view: { model } }: TreeState,
  ids: readonly string[],
  what: "summarized" | "kept",
  columns: number,
): Line[] {
  const isKept = what === "kept";
  const lineOf = (id: string): Line => {
    const entry = model.tree.getEntry(id);
    const text = entry ? (previewEntry(entry) ?? entry.type) : "";
    return line(
      span(what.padEnd(WHAT_WIDTH), isKept ? "leaf" : "summary"),
      span(cutToColumns(plainLine(text), Math.max(10, columns - WHAT_WIDTH)), isKept ? "plain" : "dim"),
    );
  };
  const left = ids.length - FIRST - LAST;
  if (left <= 1) return ids.map(lineOf);
  const between = line(span(`${" ".repeat(WHAT_WIDTH)}… ${formatCount(left)} more messages`, "dim"));
  return [...ids.slice(0, FIRST).map(lineOf), between, ...ids.slice(-LAST).map(lineOf)];
}

/** Shows two branches side by side, from their fork. */
function showComparison(state: TerminalState, tree: TreeState, { commonAncestorId, a, b }: BranchComparison) {
  const { model } = tree.view;
  const ancestor = commonAncestorId === null ? undefined : model.tree.getEntry(commonAncestorId);
  const parting = ancestor ? plainLine(previewEntry(ancestor) ?? ancestor.type) : "before the first entry";
  return openDialog(state, "Two branches, from their common ancestor", (columns) => {
    const width = Math.floor((columns - 3) / 2);
    const [left, right] = [sideLines(tree, a, width), sideLines(tree, b, width)];
    while (left.length < right.length) left.push(EMPTY);
    return [
      line(span("common ancestor: ", "dim"), span(cutToColumns(parting, Math.max(10, columns - 18)))),
      EMPTY,
      ...beside(left, width, span(" │ ", "dim"), right),
    ];
  });
}

function sideLines({ view: { model } }: TreeState, side: BranchSide, columns: number): Line[] {
  const { leafId, messages, tokens, files, entryIds } = side;
  const cut = (text: string) => cutToColumns(text, columns);
  const left = files.length - FILES_SHOWN;
  const name = leafId === null ? undefined : model.labels.get(model.tree.row(leafId));
  const spoken = entryIds.flatMap((id) => {
    const row = model.tree.row(id);
    const kind = kindOfRow(model, row);
    if (kind === "toolResult" || kind === "beside" || kind === "other") return [];
    const style = kind === "user" ? "user" : kind === "assistant" ? "plain" : "summary";
    return [line(span(cut(plainLine(previewEntry(model.tree.entryAt(row)) ?? "")), style))];
  });
  return [
    line(span(cut(plainLine(`${leafId ?? "the start"}${name ? ` [${name}]` : ""}`)), "strong")),
    line(cut(`${formatMany(messages, "message")}, ${formatMany(tokens, "token")}, ${formatPrice(side)}`)),
    line(span(cut(`${formatMany(files.length, "file")}${files.length > 0 ? ":" : ""}`), "dim")),
    ...files.slice(0, FILES_SHOWN).map((file) => line(span(cut(plainLine(`  ${file}`)), "code"))),
    ...(left > 0 ? [line(span(`  … ${formatCount(left)} more`, "dim"))] : []),
    EMPTY,
    ...spoken,
  ];
}

const FILES_SHOWN = 8;

function edit(state: TerminalState, text: string): TerminalState {
  return openDialog(state, "Edit the message (Ctrl-S appends it here, Esc cancels)", "", [], {
    field: textField(text),
    hasLines: true,
    accept: (closed, written) =>
      written.trim() === "" ? closed : beginAct(closed, { name: "append", text: written }),
  });
}

/** Asks after a fork: open the new session, or stay. */
function askAboutFork(state: TerminalState, message: string, ref: string, editorText: Change["editorText"]) {
  return openDialog(state, "Forked", message, [
    {
      key: "o",
      title: "open the fork; Esc leads from there to the list, where this session is too",
      run: (closed) => effect(closed, { type: "open", ref, ...(editorText == null ? {} : { editorText }) }),
    },
    { key: "s", title: "stay here", run: (closed) => closed },
  ]);
}

/** Keys of the choices of a question, in order, without j, k and q; further choices have no key. */
const CHOICE_KEYS = "123456789abcdefghilmnoprstuvwxyz";

/** Shows a question of an extension. Escape closes it without an answer. */
function ask(state: TerminalState, { id, title, message, choices }: Question): TerminalState {
  const answered = (answer: string | undefined) => (closed: TerminalState) =>
    effect(closed, { type: "answer", question: id, answer });
  const answers = choices.map((choice, at): Choice => {
    return { key: CHOICE_KEYS[at] ?? "", title: plainLine(choice), run: answered(choice) };
  });
  return openDialog(state, plainLine(title), message, answers, {
    question: id,
    cancel: answered(undefined),
    ...(choices.length > 0 ? {} : { field: textField(), accept: (closed, text) => answered(text)(closed) }),
  });
}
