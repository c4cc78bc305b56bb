import { otherAgents } from "@espalier/interop";
import { InvalidArgumentError } from "commander";
import { wrapText } from "../../markdown/markdown.ts";
import { parseSince, parseUntil } from "../../numbers.ts";
import { given } from "../../options.ts";
import { projectOf } from "../../text.ts";
import { EMPTY, type Line, line, span } from "../screen/frame.ts";
import { agentChoices, openDialog, openField } from "../state/dialog.ts";
import {
  type Choice,
  effect,
  type SessionFilter,
  type SessionsState,
  say,
  type TerminalState,
} from "../state/state.ts";
import { editText, type TextField, textField } from "../state/text-field.ts";
import { bodyHeight } from "../view/layout.ts";
import { filterWords, SORTS, sessionsRows } from "../view/sessions.ts";
import { ACT_BINDINGS, type Binding, begin, bindingOf, movingBindings, shownKeys } from "./act-bindings.ts";
import { endSearch, READING_BINDINGS, TREE_BINDINGS } from "./tree-bindings.ts";

type SessionsBinding = Binding<SessionsState>;

/** Returns the list with the cursor on another row, scrolled so that the row is visible. */
export function moveInList(state: TerminalState, sessions: SessionsState, to: number): SessionsState {
  const count = sessionsRows(sessions).length;
  const cursor = Math.max(0, Math.min(to, count - 1));
  // The first line has the titles of the columns.
  const height = bodyHeight(state) - 1;
  const top = Math.max(0, Math.min(sessions.top, cursor, Math.max(0, count - height)));
  return { ...sessions, cursor, top: cursor >= top + height ? cursor - height + 1 : top };
}

const openHere: SessionsBinding["run"] = (state, sessions) => {
  const row = sessionsRows(sessions)[sessions.cursor];
  if (!row) return state;
  return row.type === "session"
    ? effect(state, { type: "open", ref: row.session.ref })
    : effect(state, { type: "open", ref: row.hit.file, entryId: row.hit.entryId });
};

/** Lists the sessions again from the beginning, and repeats a running search. */
export function listAgain(state: TerminalState, sessions: SessionsState): TerminalState {
  const { filter, query } = sessions;
  const listed = moveInList(state, { ...sessions, listed: [], hits: [], isListing: true }, 0);
  const text = query?.text.trim() ?? "";
  return effect(
    { ...state, sessions: listed },
    { type: "list-sessions", filter },
    ...(text === "" ? [] : [{ type: "search" as const, query: text, filter }]),
  );
}

/** Opens the dialog for the filter of the list: time, project and agent. */
function askFilter(state: TerminalState, sessions: SessionsState): TerminalState {
  const { filter } = sessions;
  const set = (
    closed: TerminalState,
    changed: { readonly [Name in keyof SessionFilter]: SessionFilter[Name] | undefined },
  ) => listAgain(closed, { ...closed.sessions, filter: given({ ...filter, ...changed }) });
  const askTime =
    (name: "since" | "until", title: string, parse: (text: string) => Date) => (closed: TerminalState) =>
      openField(
        closed,
        `${title} (3d, 1w, 2m or 2026-11-20; leave empty for any time)`,
        textField(),
        (asked, text) => {
          try {
            return set(asked, { [name]: text.trim() === "" ? undefined : parse(text) });
          } catch (error) {
            if (!(error instanceof InvalidArgumentError)) throw error;
            return say(asked, `${text.trim()} is not a time; type for example 1w.`, true);
          }
        },
      );
  const row = sessionsRows(sessions)[sessions.cursor];
  const here = row?.type === "session" ? projectOf(row.session.cwd) : "";
  const choices: Choice[] = [
    { key: "s", title: "with an entry since …", run: askTime("since", "Since", parseSince) },
    { key: "u", title: "without an entry after …", run: askTime("until", "Until", parseUntil) },
    {
      key: "p",
      title: "of a project …",
      run: (closed) =>
        openField(
          closed,
          "Project: path or name of its folder (leave empty for any project)",
          textField(filter.project ?? here),
          (asked, text) => set(asked, { project: text.trim() || undefined }),
        ),
    },
  ];
  const all: Choice = {
    key: "x",
    title: "all",
    run: (closed) => listAgain(closed, { ...closed.sessions, filter: {} }),
  };
  const agents = [...otherAgents.map(({ agent }) => agent), "espalier"];
  const ofAgents = agentChoices(agents, [...choices, all], (agent, title) => ({
    title: `of ${title}`,
    run: (closed) => set(closed, { agent }),
  }));
  const words = filterWords(filter);
  const body = words.length > 0 ? `Now: ${words.join(", ")}.` : "";
  return openDialog(state, "Show only sessions", body, [...choices, ...ofAgents, all]);
}

export const SESSIONS_BINDINGS: readonly SessionsBinding[] = [
  ...movingBindings<SessionsState>(
    (state) => bodyHeight(state) - 2,
    (state, sessions, by) => ({ ...state, sessions: moveInList(state, sessions, sessions.cursor + by) }),
  ),
  { keys: ["enter", "right"], shown: "Enter", title: "open", hint: "open", run: openHere },
  {
    keys: ["/"],
    title: "search names and all messages",
    hint: "search",
    run: (state, sessions) => ({ ...state, sessions: { ...sessions, query: textField() } }),
  },
  {
    keys: ["s"],
    title: "sort by age, name, size or cost",
    hint: "sort",
    run: (state, sessions) => {
      const sort = SORTS[(SORTS.indexOf(sessions.sort) + 1) % SORTS.length]!;
      const sorted = { ...state, sessions: moveInList(state, { ...sessions, sort }, 0) };
      return say(sorted, `Sorted by ${sort}.`);
    },
  },
  { keys: ["f"], title: "filter by date, project and agent", hint: "filter", run: askFilter },
  {
    keys: ["i"],
    title: "import the sessions of other agents on this machine",
    run: (state) => (state.work ? state : begin(state, "importing", { type: "import" })),
  },
  {
    keys: ["a"],
    title: "show or hide sub-agents",
    run: (state, sessions) => {
      const showsSubAgents = !sessions.showsSubAgents;
      const text = showsSubAgents ? "Sub-agents are listed too." : "Sub-agents are not listed.";
      const listed = moveInList(state, { ...sessions, showsSubAgents }, 0);
      return say({ ...state, sessions: listed }, text);
    },
  },
  { keys: ["r"], title: "list the sessions again", run: listAgain },
];

/** Keys that act on the list also during a search. */
const LIST_KEYS = /^(up|down|pageup|pagedown|wheel-up|wheel-down|enter)$/;

/** Handles a key while a query is typed; Escape ends the search. Undefined without a query, and for keys of lists. */
export function searchKey(state: TerminalState, sessions: SessionsState, key: string) {
  if (!sessions.query || LIST_KEYS.test(key)) return undefined;
  if (key === "escape" || key === "ctrl-c") {
    const ended = moveInList(state, { ...sessions, query: undefined, hits: [], isSearching: false }, 0);
    return effect({ ...state, sessions: ended }, { type: "search", query: "", filter: sessions.filter });
  }
  return searchFor(state, sessions, editText(sessions.query, key));
}

/** Returns the list during a search for a text. */
export function searchFor(state: TerminalState, sessions: SessionsState, query: TextField): TerminalState {
  const text = query.text.trim();
  if (text === sessions.query?.text.trim()) return { ...state, sessions: { ...sessions, query } };
  const searching = { ...sessions, query, hits: [], isSearching: text !== "" };
  return effect(
    { ...state, sessions: moveInList(state, searching, 0) },
    { type: "search", query: text, filter: sessions.filter },
  );
}

/**
 * Goes one step back: aborts the running work, else ends reading, else ends the search in the session, else closes the
 * session. Without an open session nothing changes.
 */
function back(state: TerminalState): TerminalState {
  const { tree, work } = state;
  if (work) return effect({ ...state, work: { ...work, isAborting: true } }, { type: "abort" });
  if (tree?.isReading) return { ...state, tree: { ...tree, isReading: false, scroll: 0 } };
  if (!tree) return state;
  if (tree.query !== "") return endSearch(state, tree);
  const { filter, query, isSearching } = state.sessions;
  return effect(
    { ...state, tree: undefined, sessions: { ...state.sessions, isListing: true } },
    { type: "close" },
    { type: "list-sessions", filter },
    // Opening the session ended the search.
    ...(isSearching && query ? [{ type: "search" as const, query: query.text.trim(), filter }] : []),
  );
}

/** Keys with the same function on every screen. */
export const GENERAL_BINDINGS: readonly Binding<TerminalState>[] = [
  {
    keys: ["escape"],
    shown: "Esc",
    title: "go back; first ends a search or aborts the running work",
    hint: "back",
    run: back,
  },
  { keys: ["?", "f1"], title: "list all keys", hint: "help", run: help },
  {
    keys: ["ctrl-z"],
    shown: "Ctrl-Z",
    title: "suspend; `fg` continues",
    run: (state) => effect(state, { type: "suspend" }),
  },
  {
    keys: ["ctrl-l"],
    shown: "Ctrl-L",
    title: "draw the screen again",
    run: (state) => effect(state, { type: "redraw" }),
  },
  { keys: ["q", "ctrl-c"], title: "quit", hint: "quit", run: (state) => effect(state, { type: "quit" }) },
];

/** Handles a key with the same function on every screen; undefined for others. During work, Ctrl-C aborts the work. */
export function generalKey(state: TerminalState, key: string) {
  if (key === "ctrl-c" && state.work) return back(state);
  return bindingOf(GENERAL_BINDINGS, key)?.run(state, state);
}

type Listed = Pick<Binding<never>, "keys" | "shown" | "title">;

function help(state: TerminalState): TerminalState {
  const ofTree: readonly (readonly [string, readonly Listed[]])[] = [
    ["Act", ACT_BINDINGS],
    ["Move, fold, read", TREE_BINDINGS],
    ["While reading", READING_BINDINGS],
  ];
  const screen = state.tree ? ofTree : [["Sessions", SESSIONS_BINDINGS] as const];
  const groups = [...screen, ["Everywhere", GENERAL_BINDINGS] as const];
  const signs = state.tree ? SIGNS_OF_TREE : SIGNS_OF_LIST;
  return openDialog(state, "Signs and keys", (columns) => [
    ...signs.flatMap(([sign, meaning]) => helpLines(sign, meaning, columns)),
    ...groups.flatMap(([title, listed]) => [
      EMPTY,
      line(span(title, "strong")),
      ...listed.flatMap((one) => (one.shown === "" ? [] : helpLines(shownKeys(one), one.title, columns))),
    ]),
  ]);
}

/** Symbols of the tree, for the help. */
const SIGNS_OF_TREE = [
  ["●", "the model reads this entry"],
  ["○", "on the path of the leaf, but replaced by a compaction or hidden"],
  ["·", "on another branch, or not part of the conversation"],
  ["├─", "a branch begins here"],
  ["*", "the leaf, from which the session continues"],
  ["≡  ⇠", "a compaction, a summary of a branch"],
  ["▸12  ▾", "12 folded entries of a turn; unfolded entries of a turn"],
  ["▸▸12", "12 folded entries of a branch"],
  ["[name]", "a label"],
  ["◆", "the marked entry"],
  ["┃", "on the right: the part of the tree that is on the screen"],
] as const;

/** Symbols of the list, for the help. */
const SIGNS_OF_LIST = [
  ["└", "a sub-agent, below the session that started it"],
  ["▸2", "2 sub-agents that are not listed; key a lists them"],
  ["≈  >", "a part of the cost is estimated; the price of some calls is unknown"],
  ["·  -", "not read yet, or too long to read; no call was billed"],
] as const;

/** Width in columns of the signs and keys in the help. */
const SIGN_WIDTH = 10;

/** Draws a sign or a key, and its meaning beside it, wrapped between words. */
function helpLines(sign: string, meaning: string, columns: number): Line[] {
  const room = Math.max(1, columns - SIGN_WIDTH - 2);
  return wrapText(meaning, room).map((part, at) =>
    line(span(`  ${(at === 0 ? sign : "").padEnd(SIGN_WIDTH)}`, "heading"), span(part)),
  );
}
