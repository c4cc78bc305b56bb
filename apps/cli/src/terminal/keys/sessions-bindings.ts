import { EMPTY, type Line, line, span } from "../screen/frame.ts";
import { dialog } from "../state/dialog.ts";
import { type Next, next, type SessionsState, type TerminalState } from "../state/state.ts";
import { editText, type TextField, textField } from "../state/text-field.ts";
import { bodyHeight } from "../view/layout.ts";
import { SORTS, sessionsRows } from "../view/sessions.ts";
import { ACT_BINDINGS, type Binding, bindingOf } from "./act-bindings.ts";
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

const steps =
  (by: (state: TerminalState) => number): SessionsBinding["run"] =>
  (state, sessions) =>
    next({ ...state, sessions: moveInList(state, sessions, sessions.cursor + by(state)) });

const openHere: SessionsBinding["run"] = (state, sessions) => {
  const row = sessionsRows(sessions)[sessions.cursor];
  if (!row) return next(state);
  return row.type === "session"
    ? next(state, { type: "open", ref: row.session.ref })
    : next(state, { type: "open", ref: row.hit.file, entryId: row.hit.entryId });
};
const isSearched = ({ query }: SessionsState): boolean => query !== undefined;

export const SESSIONS_BINDINGS: readonly SessionsBinding[] = [
  { keys: ["up", "k"], shown: "↑ k", title: "up", run: steps(() => -1) },
  { keys: ["down", "j"], shown: "↓ j", title: "down", run: steps(() => 1) },
  { keys: ["wheel-up"], shown: "wheel", title: "up and down", run: steps(() => -3) },
  { keys: ["wheel-down"], shown: "", title: "", run: steps(() => 3) },
  {
    keys: ["pageup", "ctrl-b"],
    shown: "PgUp",
    title: "a screen up",
    run: steps((state) => 2 - bodyHeight(state)),
  },
  {
    keys: ["pagedown", "ctrl-f"],
    shown: "PgDn",
    title: "a screen down",
    run: steps((state) => bodyHeight(state) - 2),
  },
  { keys: ["home", "<"], shown: "Home <", title: "to the first", run: steps(() => Number.NEGATIVE_INFINITY) },
  { keys: ["end", ">"], shown: "End >", title: "to the last", run: steps(() => Number.POSITIVE_INFINITY) },
  { keys: ["enter", "right"], shown: "Enter", title: "open", hint: "open", run: openHere },
  {
    keys: ["/"],
    shown: "/",
    title: "search by name and over everything that was said",
    hint: "search",
    run: (state, sessions) => next({ ...state, sessions: { ...sessions, query: textField() } }),
  },
  {
    keys: ["s"],
    shown: "s",
    title: "sort by age, name, size or cost",
    hint: "sort",
    run: (state, sessions) => {
      const sort = SORTS[(SORTS.indexOf(sessions.sort) + 1) % SORTS.length]!;
      const notice = { text: `Sorted by ${sort}.`, isError: false };
      return next({ ...state, notice, sessions: moveInList(state, { ...sessions, sort }, 0) });
    },
  },
  {
    keys: ["a"],
    shown: "a",
    title: "show the runs of sub-agents too, or no longer",
    run: (state, sessions) => {
      const showsSubAgents = !sessions.showsSubAgents;
      const text = showsSubAgents
        ? "Runs of sub-agents are listed too."
        : "Runs of sub-agents are not listed.";
      const listed = moveInList(state, { ...sessions, showsSubAgents }, 0);
      return next({ ...state, notice: { text, isError: false }, sessions: listed });
    },
  },
  {
    keys: ["r"],
    shown: "r",
    title: "look for sessions again",
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

/** What a key does while somebody searches: letters change what is searched for, and the rest acts on what is found. */
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
  { keys: ["escape"], shown: "Esc", title: "back; ends what is going on", hint: "back", run: back },
  {
    keys: ["?", "f1"],
    shown: "?",
    title: "all keys",
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
    title: "draw the screen anew",
    run: (state) => next(state, { type: "redraw" }),
  },
  { keys: ["q", "ctrl-c"], shown: "q", title: "quit", hint: "quit", run: quit },
];

/** What a key does that means the same everywhere. */
export function generalKey(state: TerminalState, key: string): Next | undefined {
  if (key === "ctrl-c" && state.work) return back(state);
  return bindingOf(GENERAL_BINDINGS, key)?.run(state, state);
}

type Listed = Pick<Binding<never>, "shown" | "title">;

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
      .map((one) => line(span(`  ${one.shown.padEnd(10)}`, "heading"), span(one.title))),
  ];
}
