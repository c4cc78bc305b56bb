import { ACT_BINDINGS, bindingOf } from "../keys/act-bindings.ts";
import {
  generalKey,
  moveInList,
  SESSIONS_BINDINGS,
  searchFor,
  searchKey,
} from "../keys/sessions-bindings.ts";
import { READING_BINDINGS, TREE_BINDINGS, toHit } from "../keys/tree-bindings.ts";
import type { TreeModel } from "../tree/tree-model.ts";
import { treeView } from "../tree/tree-rows.ts";
import { treeLayout } from "../view/layout.ts";
import { sessionsRows } from "../view/sessions.ts";
import {
  busyDialog,
  comparisonDialog,
  editorDialog,
  madeDialog,
  planDialog,
  questionDialog,
} from "./answer-dialogs.ts";
import { pasteIntoDialog, updateDialog } from "./dialog.ts";
import {
  type Next,
  next,
  type SessionsState,
  type TerminalEffect,
  type TerminalEvent,
  type TerminalState,
  type TreeState,
} from "./state.ts";
import { insertText } from "./text-field.ts";
import { moveTo, revealed, shownOnScreen, withView } from "./tree-cursor.ts";

/** What the terminal is after something happened, and what shall be done about it. Pure, but for reading the log. */
export function update(state: TerminalState, event: TerminalEvent): Next {
  const { state: changed, effects } = changedBy(state, event);
  return next(changed, ...effects, ...readsFor(state, changed));
}

function changedBy(state: TerminalState, event: TerminalEvent): Next {
  if (event.type === "key") return updateByKey({ ...state, notice: undefined }, event.key);
  if (event.type === "paste") return updateByPaste(state, event.text);
  if (event.type === "click") return updateByClick(state, event.row);
  return updateByEvent(state, event satisfies OtherEvent);
}

function updateByKey(state: TerminalState, key: string): Next {
  const { dialog, tree, sessions } = state;
  if (dialog) return updateDialog(state, dialog, key);
  if (tree) {
    const binding =
      (tree.isReading ? bindingOf(READING_BINDINGS, key) : undefined) ??
      bindingOf(TREE_BINDINGS, key) ??
      bindingOf(ACT_BINDINGS, key);
    return binding?.run(state, tree) ?? generalKey(state, key) ?? next(state);
  }
  const searched = searchKey(state, sessions, key);
  return (
    searched ??
    bindingOf(SESSIONS_BINDINGS, key)?.run(state, sessions) ??
    generalKey(state, key) ??
    next(state)
  );
}

function updateByPaste(state: TerminalState, text: string): Next {
  const { dialog, tree, sessions } = state;
  if (dialog) return pasteIntoDialog(state, dialog, text);
  if (tree || !sessions.query) return next(state);
  return searchFor(state, sessions, insertText(sessions.query, text.replace(/\s*\n\s*/g, " ")));
}

/** Lines above the body. */
const HEADING = 1;

function updateByClick(state: TerminalState, row: number): Next {
  const { dialog, tree, sessions } = state;
  if (dialog) return next(state);
  if (!tree) {
    const at = sessions.top + row - HEADING - 1;
    const isRow = row > HEADING && at < sessionsRows(sessions).length;
    return next(isRow ? { ...state, sessions: moveInList(state, sessions, at) } : state);
  }
  if (tree.isReading) return next(state);
  const position = shownOnScreen(tree, treeLayout(state, false).treeHeight)[row - HEADING];
  return next(position === undefined ? state : { ...state, tree: moveTo(state, tree, position) });
}

/** What has to be read for what is shown now and was not shown before. */
function readsFor(before: TerminalState, { tree, sessions }: TerminalState): TerminalEffect[] {
  if (tree) {
    const isShownAnew =
      tree.cursor !== before.tree?.cursor ||
      tree.tab !== before.tree.tab ||
      tree.view.model !== before.tree.view.model;
    if (!isShownAnew || tree.cursor < 0 || tree.tab === "entry") return [];
    return [{ type: tree.tab === "context" ? "read-context" : "read-usage", row: tree.cursor }];
  }
  const isSameList =
    before.sessions.listed === sessions.listed &&
    before.sessions.showsSubAgents === sessions.showsSubAgents &&
    before.sessions.top === sessions.top;
  if (isSameList && !before.tree) return [];
  const refs = sessionsRows(sessions)
    .slice(sessions.top, sessions.top + 100)
    .flatMap((row) =>
      row.type === "session" && !sessions.facts.has(row.session.ref) ? [row.session.ref] : [],
    );
  return refs.length === 0 ? [] : [{ type: "read-facts", refs }];
}

/** Events that are no input of a person. */
type OtherEvent = Exclude<TerminalEvent, { type: "key" | "paste" | "click" }>;

type Handler<Type extends OtherEvent["type"]> = (
  state: TerminalState,
  event: Extract<OtherEvent, { type: Type }>,
) => Next;

const say = (state: TerminalState, text: string, isError = false): TerminalState => ({
  ...state,
  notice: { text, isError },
});

const withSessions = (state: TerminalState, sessions: SessionsState): Next =>
  next({ ...state, sessions: moveInList(state, sessions, sessions.cursor) });

/** The tree's state changed, where one is open. */
const withTree = (state: TerminalState, change: (tree: TreeState) => TreeState): TerminalState =>
  state.tree ? { ...state, tree: change(state.tree) } : state;

/** Nothing that is asked, said or done. */
const CLOSED: Pick<TerminalState, "dialog" | "notice" | "work"> = {
  dialog: undefined,
  notice: undefined,
  work: undefined,
};

const HANDLERS: { readonly [Type in OtherEvent["type"]]: Handler<Type> } = {
  resize(state, { columns, rows }) {
    const sized = { ...state, size: { columns, rows } };
    const resized = withTree(sized, (tree) => withView(sized, tree, tree.view));
    return withSessions(resized, resized.sessions);
  },
  tick: (state, { now }) => next({ ...state, now }),
  sessions: (state, { sessions, isDone }) =>
    withSessions(state, { ...state.sessions, listed: sessions, isListing: !isDone }),
  facts(state, { ref, facts }) {
    const known = new Map(state.sessions.facts).set(ref, facts);
    return next({ ...state, sessions: { ...state.sessions, facts: known } });
  },
  hits(state, { query, hits, isDone }) {
    const { sessions } = state;
    if (sessions.query?.text.trim() !== query) return next(state);
    return withSessions(state, { ...sessions, hits, isSearching: !isDone });
  },
  opened,
  grown(state, { ref, model }) {
    const { tree } = state;
    if (tree?.ref !== ref) return next(state);
    return next({ ...state, tree: withModel(state, tree, model) });
  },
  found(state, { query, entryIds, isDone }) {
    const { tree } = state;
    if (!tree || tree.query !== query) return next(state);
    const { model } = tree.view;
    const rows = entryIds.flatMap((id) => (model.tree.has(id) ? [model.tree.row(id)] : []));
    const hits = rows.sort((a, b) => (model.order.positions[a] ?? 0) - (model.order.positions[b] ?? 0));
    const found = { ...state, tree: { ...tree, hits } };
    return isDone ? toHit(found, found.tree, 1) : next(found);
  },
  context: (state, { row, context }) =>
    next(withTree(state, (tree) => ({ ...tree, context: { row, value: context } }))),
  usage: (state, { row, usage }) =>
    next(withTree(state, (tree) => ({ ...tree, usage: { row, value: usage } }))),
  planned(state, { plan, instructions }) {
    const done = { ...state, work: undefined };
    if (!plan.eligible) return next(say(done, plan.reason));
    return next(state.tree ? { ...done, dialog: planDialog(state.tree, plan, instructions) } : done);
  },
  compared: (state, { comparison }) =>
    next(state.tree ? { ...state, dialog: comparisonDialog(state.tree, comparison) } : state),
  progress: (state, { tokens }) =>
    next(
      state.work ? { ...state, work: { ...state.work, tokens: Math.max(state.work.tokens, tokens) } } : state,
    ),
  acted,
  busy: (state, { act, holder }) => next({ ...state, work: undefined, dialog: busyDialog(act, holder) }),
  failed: (state, { message, wasWork }) =>
    next(say(wasWork ? { ...state, work: undefined } : state, message, true)),
  told: (state, { message }) => next(say({ ...state, work: undefined }, message)),
  asked: (state, { question }) => next({ ...state, dialog: questionDialog(question) }),
  withdrawn: (state, { question }) =>
    next(state.dialog?.question === question ? { ...state, dialog: undefined } : state),
  warned: (state, { message }) => next(say(state, message)),
};

function updateByEvent(state: TerminalState, event: OtherEvent): Next {
  const handle = HANDLERS[event.type] as Handler<OtherEvent["type"]>;
  return handle(state, event);
}

function opened(state: TerminalState, event: Extract<OtherEvent, { type: "opened" }>): Next {
  const { ref, cwd, readOnly, writer, model, entryId } = event;
  const before = state.tree?.ref === ref ? state.tree : undefined;
  const tree: TreeState = before
    ? { ...withModel(state, before, model), cwd, readOnly, writer }
    : {
        ref,
        cwd,
        readOnly,
        writer,
        view: treeView(model),
        cursor: -1,
        top: -1,
        mark: undefined,
        query: "",
        hits: [],
        tab: "entry",
        isReading: false,
        isDetailed: false,
        scroll: 0,
        context: undefined,
        usage: undefined,
        onBusy: undefined,
      };
  const wanted = entryId !== undefined && model.tree.has(entryId) ? model.tree.row(entryId) : -1;
  const row = wanted >= 0 ? wanted : before ? tree.cursor : model.leafRow;
  const position = row < 0 ? -1 : (model.order.positions[row] ?? -1);
  const placed = position < 0 ? moveTo(state, tree, -1) : revealed(state, tree, position);
  // When all of a session is there that was shown from its end, what one does in it goes on; with another one all begins anew.
  const { dialog, notice, work } = before ? state : CLOSED;
  const shown = event.editorText === undefined ? dialog : editorDialog(event.editorText);
  return next({ ...state, dialog: shown, notice, work, tree: placed });
}

/** The tree at another length of the log: who looked at the leaf still does, and everything else stays. */
function withModel(state: TerminalState, tree: TreeState, model: TreeModel): TreeState {
  const { view, cursor, top, mark } = tree;
  const before = view.model;
  // While only the end of a log was read, rows had other numbers.
  const row = (old: number): number => {
    if (before.tree === model.tree || old < 0) return old;
    const id = before.tree.idAt(old);
    return model.tree.has(id) ? model.tree.row(id) : -1;
  };
  const rows = (old: ReadonlySet<number>) => new Set([...old].map(row).filter((at) => at >= 0));
  const shown = treeView(model, { ...view, unfolded: rows(view.unfolded), folded: rows(view.folded) });
  const isFollowing = cursor === before.leafRow;
  const moved: TreeState = {
    ...tree,
    view: shown,
    cursor: row(cursor),
    top: row(top),
    mark: mark === undefined ? undefined : row(mark),
    hits: tree.hits.map(row).filter((at) => at >= 0),
    context: undefined,
    usage: undefined,
  };
  if (isFollowing && model.leafRow >= 0)
    return revealed(state, moved, model.order.positions[model.leafRow] ?? 0);
  return withView(state, moved, shown);
}

function acted(state: TerminalState, { outcome }: Extract<OtherEvent, { type: "acted" }>): Next {
  const { message, entryId, editorText, ref } = outcome;
  let done: TerminalState = say({ ...state, work: undefined }, message);
  const { tree } = done;
  if (tree && entryId && tree.view.model.tree.has(entryId)) {
    const { model } = tree.view;
    const position = model.order.positions[model.tree.row(entryId)] ?? -1;
    if (position >= 0) done = { ...done, tree: revealed(done, tree, position) };
  }
  if (ref !== undefined) done = { ...done, dialog: madeDialog(message, ref, editorText) };
  if (editorText !== undefined && ref === undefined) done = { ...done, dialog: editorDialog(editorText) };
  return next(done);
}
