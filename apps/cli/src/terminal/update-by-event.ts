import {
  busyDialog,
  comparisonDialog,
  editorDialog,
  madeDialog,
  planDialog,
  questionDialog,
} from "./answer-dialogs.ts";
import { moveInList } from "./sessions-bindings.ts";
import { type Next, next, type SessionsState, type TerminalState, type TreeState } from "./state.ts";
import type { TerminalEvent } from "./terminal-event.ts";
import { toHit } from "./tree-bindings.ts";
import { moveTo, withView } from "./tree-cursor.ts";
import { revealed } from "./tree-jumps.ts";
import type { TreeModel } from "./tree-model.ts";
import { treeView } from "./tree-rows.ts";

/** Events that are no input of a person. */
export type OtherEvent = Exclude<TerminalEvent, { type: "key" | "paste" | "click" }>;

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

export function updateByEvent(state: TerminalState, event: OtherEvent): Next {
  const handle = HANDLERS[event.type] as Handler<OtherEvent["type"]>;
  return handle(state, event);
}

/** Nothing that is asked, said or done. */
const CLOSED: Pick<TerminalState, "dialog" | "notice" | "work"> = {
  dialog: undefined,
  notice: undefined,
  work: undefined,
};

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
