import { EMPTY, type Line, line, span } from "../screen/frame.ts";
import { dialog } from "../state/dialog.ts";
import { type Next, next, type SessionsState, say, type TerminalState } from "../state/state.ts";
import { editText, type TextField, textField } from "../state/text-field.ts";
import { bodyHeight } from "../view/layout.ts";
import { SORTS, sessionsRows } from "../view/sessions.ts";
import { ACT_BINDINGS, type Binding, bindingOf, movingBindings, shownKeys } from "./act-bindings.ts";
import { READING_BINDINGS, TREE_BINDINGS } from "./tree-bindings.ts";

type SessionsBinding = Binding<SessionsState>;

/** The list with the cursor on a row, and the screen around it. */
export function moveInList(state: TerminalState, sessions: SessionsState, to: number): SessionsState {
  const count = sessionsRows(sessions).length;
  const cursor = Math.max(0, Math.min(to, count - 1));
  // The first line names the columns.
  const height = bodyHeight(state) - 1;
  const top = Math.max(0, Math.min(sessions.top, cursor, Math.max(0, count - height)));
  return { ...sessions, cursor, top: cursor >= top + height ? cursor - height + 1 : top };
}

const openHere: SessionsBinding["run"] = (state, sessions) => {
  const row = sessionsRows(sessions)[sessions.cursor];
  if (!row) return next(state);
  return row.type === "session"
    ? next(state, { type: "open", ref: row.session.ref })
    : next(state, { type: "open", ref: row.hit.file, entryId: row.hit.entryId });
};
const isSearched = ({ query }: SessionsState): boolean => query !== undefined;

export const SESSIONS_BINDINGS: readonly SessionsBinding[] = [
  ...movingBindings<SessionsState>(
    (state) => bodyHeight(state) - 2,
    (state, sessions, by) => next({ ...state, sessions: moveInList(state, sessions, sessions.cursor + by) }),
  ),
  { keys: ["enter", "right"], shown: "Enter", title: "open", hint: "open", run: openHere },
  {
    keys: ["/"],
    title: "search by name and over everything that was said",
    hint: "search",
    run: (state, sessions) => next({ ...state, sessions: { ...sessions, query: textField() } }),
  },
  {
    keys: ["s"],
    title: "sort by age, name, size or cost",
    hint: "sort",
    run: (state, sessions) => {
      const sort = SORTS[(SORTS.indexOf(sessions.sort) + 1) % SORTS.length]!;
      const sorted = { ...state, sessions: moveInList(state, { ...sessions, sort }, 0) };
      return next(say(sorted, `Sorted by ${sort}.`));
    },
  },
  {
    keys: ["a"],
    title: "show or hide the runs of sub-agents",
    run: (state, sessions) => {
      const showsSubAgents = !sessions.showsSubAgents;
      const text = showsSubAgents
        ? "Runs of sub-agents are listed too."
        : "Runs of sub-agents are not listed.";
      const listed = moveInList(state, { ...sessions, showsSubAgents }, 0);
      return next(say({ ...state, sessions: listed }, text));
    },
  },
  {
    keys: ["r"],
    title: "list the sessions again",
    run: (state, sessions) =>
      next({ ...state, sessions: { ...sessions, listed: [], isListing: true } }, { type: "list-sessions" }),
  },
];

/** Keys that a search leaves to the list. */
const LIST_KEYS: ReadonlySet<string> = new Set([
  "up",
  "down",
  "pageup",
  "pagedown",
  "wheel-up",
  "wheel-down",
  "enter",
]);

/** Handles a key during a search: letters change the query, other keys act on the results. */
export function searchKey(state: TerminalState, sessions: SessionsState, key: string): Next | undefined {
  if (!isSearched(sessions) || LIST_KEYS.has(key)) return undefined;
  if (key === "escape" || key === "ctrl-c")
    return next(
      {
        ...state,
        sessions: moveInList(state, { ...sessions, query: undefined, hits: [], isSearching: false }, 0),
      },
      { type: "search", query: "" },
    );
  return searchFor(state, sessions, editText(sessions.query!, key));
}

/** The list while this is searched for. */
export function searchFor(state: TerminalState, sessions: SessionsState, query: TextField): Next {
  const text = query.text.trim();
  if (text === sessions.query?.text.trim()) return next({ ...state, sessions: { ...sessions, query } });
  const searching = { ...sessions, query, hits: [], isSearching: text !== "" };
  return next({ ...state, sessions: moveInList(state, searching, 0) }, { type: "search", query: text });
}

const quit = (state: TerminalState): Next => next(state, { type: "quit" });

/** One step out: of reading, of the session, of the program. */
function back(state: TerminalState): Next {
  const { tree, work } = state;
  if (work) return next({ ...state, work: { ...work, isAborting: true } }, { type: "abort" });
  if (tree?.isReading) return next({ ...state, tree: { ...tree, isReading: false, scroll: 0 } });
  if (!tree) return next(state);
  return next(
    { ...state, tree: undefined, sessions: { ...state.sessions, isListing: true } },
    { type: "close" },
    { type: "list-sessions" },
  );
}

/** Keys that mean the same on every screen. */
export const GENERAL_BINDINGS: readonly Binding<TerminalState>[] = [
  { keys: ["escape"], shown: "Esc", title: "back; aborts the current work", hint: "back", run: back },
  {
    keys: ["?", "f1"],
    title: "list all keys",
    hint: "help",
    run: (state) => next({ ...state, dialog: help(state) }),
  },
  {
    keys: ["ctrl-z"],
    shown: "Ctrl-Z",
    title: "suspend; `fg` comes back",
    run: (state) => next(state, { type: "suspend" }),
  },
  {
    keys: ["ctrl-l"],
    shown: "Ctrl-L",
    title: "draw the screen again",
    run: (state) => next(state, { type: "redraw" }),
  },
  { keys: ["q", "ctrl-c"], title: "quit", hint: "quit", run: quit },
];

/** Handles a key that means the same everywhere. */
export function generalKey(state: TerminalState, key: string): Next | undefined {
  if (key === "ctrl-c" && state.work) return back(state);
  return bindingOf(GENERAL_BINDINGS, key)?.run(state, state);
}

type Listed = Pick<Binding<never>, "keys" | "shown" | "title">;

function help(state: TerminalState) {
  const groups: [string, readonly Listed[]][] = state.tree
    ? [
        ["Act", ACT_BINDINGS],
        ["Move, fold, read", TREE_BINDINGS],
        ["While reading", READING_BINDINGS],
        ["Everywhere", GENERAL_BINDINGS],
      ]
    : [
        ["Sessions", SESSIONS_BINDINGS],
        ["Everywhere", GENERAL_BINDINGS],
      ];
  return dialog("Keys", () => groups.flatMap(([title, listed], at) => helpLines(title, listed, at > 0)));
}

function helpLines(title: string, listed: readonly Listed[], isBehind: boolean): Line[] {
  return [
    ...(isBehind ? [EMPTY] : []),
    line(span(title, "strong")),
    ...listed
      .filter(({ shown }) => shown !== "")
      .map((one) => line(span(`  ${shownKeys(one).padEnd(10)}`, "heading"), span(one.title))),
  ];
}
