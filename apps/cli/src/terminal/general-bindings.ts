import { ACT_BINDINGS } from "./act-bindings.ts";
import { type Binding, bindingOf } from "./binding.ts";
import { dialog } from "./dialog.ts";
import { EMPTY, type Line, line, span } from "./frame.ts";
import { SESSIONS_BINDINGS } from "./sessions-bindings.ts";
import { type Next, next, type TerminalState } from "./state.ts";
import { READING_BINDINGS, TREE_BINDINGS } from "./tree-bindings.ts";

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
