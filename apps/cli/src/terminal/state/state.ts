import type { ListedSession, ListOptions, SearchHit } from "@espalier/engine";
import type { UsageTotals } from "@espalier/engine/reading";
import type { NativeAgent } from "@espalier/interop";
import type { Act } from "../effects/acts.ts";
import type { Line } from "../screen/frame.ts";
import type { TreeView } from "../tree/tree-model.ts";
import type { TextField } from "./text-field.ts";

/** The whole state of the terminal. Every key makes a new state, and the screen is a function of the state. */
export interface TerminalState {
  readonly size: { readonly columns: number; readonly rows: number };
  /** False: the screen must be readable without colours, and markdown keeps its markup. */
  readonly isColoured: boolean;
  /** Time of the last `tick` event, in epoch milliseconds. */
  readonly now: number;
  readonly sessions: SessionsState;
  /** The open session; its screen covers the list. */
  readonly tree: TreeState | undefined;
  /** The dialog that covers the screen and gets the keys. */
  readonly dialog: Dialog | undefined;
  /** One sentence at the bottom, shown until the next key. */
  readonly notice: { readonly text: string; readonly isError: boolean } | undefined;
  /** The running work: an act, a plan, an export or an import. Only one runs at a time. */
  readonly work:
    | {
        readonly title: string;
        /** Start in epoch milliseconds. */
        readonly started: number;
        /** Tokens of the summary so far. */
        readonly tokens: number;
        /** Current part of the work; empty without parts. */
        readonly detail: string;
        readonly isAborting: boolean;
      }
    | undefined;
  /** Effects that the current event has requested. */
  readonly effects: readonly TerminalEffect[];
}

/** State of a terminal before the first event. */
export function firstState(known: Pick<TerminalState, "size" | "now" | "isColoured">): TerminalState {
  return {
    ...known,
    tree: undefined,
    dialog: undefined,
    notice: undefined,
    work: undefined,
    effects: [],
    sessions: {
      listed: [],
      isListing: true,
      sort: "age",
      showsSubAgents: false,
      filter: {},
      others: "",
      query: undefined,
      hits: [],
      isSearching: false,
      facts: new Map(),
      cursor: 0,
      top: 0,
    },
  };
}

/** Filter of sessions, with the options of `espalier list`. */
export type SessionFilter = Pick<ListOptions, "since" | "until" | "project" | "agent">;

/** Order of the session list. */
export type SessionSort = "age" | "name" | "size" | "cost";

export interface SessionsState {
  readonly listed: readonly ListedSession[];
  readonly isListing: boolean;
  readonly sort: SessionSort;
  /** True: the list includes sub-agents, below the sessions that started them. */
  readonly showsSubAgents: boolean;
  /** Filter for listing and searching; empty: all sessions. */
  readonly filter: SessionFilter;
  /** Sessions of other agents that can be imported, in words; empty if there are none. */
  readonly others: string;
  /** Query of a search; undefined without a search. */
  readonly query: TextField | undefined;
  readonly hits: readonly SearchHit[];
  readonly isSearching: boolean;
  /** Facts that were read from sessions, by `ref`. */
  readonly facts: ReadonlyMap<string, SessionFacts>;
  /** Index of the selected row in the list; `top` is the first row on the screen. */
  readonly cursor: number;
  readonly top: number;
}

/** Tabs of the preview next to the tree. */
export type PreviewTab = "entry" | ReadTab;

/** Tabs whose content is read by an effect. */
export type ReadTab = "context" | "usage";

/** Lines of a tab at a width in columns. */
export type TabLines = (columns: number) => readonly Line[];

export interface TreeState {
  /** Path of the session's file; in a store, the name of the session. */
  readonly ref: string;
  readonly cwd: string;
  /** Reason why the session is read-only; undefined when it can be changed. */
  readonly readOnly: string | undefined;
  /** Writer of summaries; `isBilled` is true if its calls cost money. */
  readonly writer: { readonly name: string; readonly isBilled: boolean };
  /** False: messages are not searched for rules (the setting `rules`). */
  readonly isFinding: boolean;
  readonly view: TreeView;
  /** Selected row, and the first row on the screen. -1 when no row is visible. */
  readonly cursor: number;
  readonly top: number;
  /** The marked row, for a comparison or a merge. */
  readonly mark: number | undefined;
  /** The search whose query is being typed; undefined otherwise. */
  readonly search: TreeSearch | undefined;
  /** Query of a search within the session, and the rows of its hits, in the order of the page. */
  readonly query: string;
  readonly hits: readonly number[];
  readonly tab: PreviewTab;
  /** True while the keys move in the preview, which then fills the screen. */
  readonly isReading: boolean;
  /** True: calls, results and thoughts are shown in full. */
  readonly isDetailed: boolean;
  /** First visible line of the preview. */
  readonly scroll: number;
  /** Contents of the tabs, and the row for which each was read. */
  readonly tabs: { readonly [Tab in ReadTab]?: { readonly row: number; readonly lines: TabLines } };
  /** Row of the cursor when a search or an act began. Its result moves the cursor only if it is still on this row. */
  readonly awaits: number | undefined;
  /** True after a confirmed undo: later ones do not ask, until one fails because another process made changes. */
  readonly undoes?: boolean;
  /** Remembered choice for a session that another process writes. */
  readonly onBusy: "share" | undefined;
}

/** A search within a session while its query is typed. */
export interface TreeSearch {
  readonly field: TextField;
  /** Row of the cursor when the search began. The first hit is searched from this row on, and Escape returns to it. */
  readonly from: number;
}

/** One of several answers of a dialog. */
export interface Choice {
  key: string;
  title: string;
  run: (state: TerminalState) => TerminalState;
}

/** A pane over the screen. It shows text and may ask for a text or a choice. Everything except its answers is data. */
export interface Dialog {
  title: string;
  /** Lines of its text, at a width in columns. */
  body: (columns: number) => readonly Line[];
  scroll: number;
  choices: readonly Choice[];
  /** Index of the choice for Enter. */
  chosen: number;
  field?: TextField;
  /** True: Enter begins a new line, and Ctrl-S submits. */
  hasLines?: boolean;
  /** Called with a state in which the dialog is closed, and the submitted text. */
  accept?: (state: TerminalState, text: string) => TerminalState;
  /** Id of an extension's question that the dialog asks. */
  question?: number;
  /** Effect of Escape and Ctrl-C in addition to closing the dialog. */
  cancel?: (state: TerminalState) => TerminalState;
}

/** Returns the state with these effects added. */
export const effect = (state: TerminalState, ...effects: readonly TerminalEffect[]): TerminalState => ({
  ...state,
  effects: [...state.effects, ...effects],
});

/** Changes the tree's state if a session is open. */
export const withTree = (state: TerminalState, change: (tree: TreeState) => TreeState): TerminalState =>
  state.tree ? { ...state, tree: change(state.tree) } : state;

/** Returns the state with one sentence at the bottom. */
export const say = (state: TerminalState, text: string, isError = false): TerminalState => ({
  ...state,
  notice: { text, isError },
});

/** Side effects of an event, as data; their results return as events. */
export type TerminalEffect =
  | { type: "list-sessions"; filter: SessionFilter }
  /** Imports sessions of other agents from this machine. */
  | { type: "import" }
  /** Reads the number of branches and the cost of sessions; replaces the previous reading. */
  | { type: "read-facts"; sessions: readonly ListedSession[] }
  /** Searches a text in all messages; replaces the previous search. An empty query ends it. */
  | { type: "search"; query: string; filter: SessionFilter }
  | { type: "open"; ref: string; entryId?: string; editorText?: string }
  | { type: "close" }
  /** Searches a text in the open session; replaces the previous search. */
  | { type: "find"; query: string }
  | { type: "read-tab"; tab: ReadTab; row: number }
  | { type: "plan" }
  | { type: "compare"; a: string; b: string }
  | { type: "act"; act: Act; onBusy?: "fork" | "share" }
  | { type: "abort" }
  /** Answers a question of an extension; undefined: its dialog was closed. */
  | { type: "answer"; question: number; answer: string | undefined }
  | { type: "export"; entryId: string | null; format: "markdown" | "json" }
  /** Writes the path to an entry as a session file of another agent. */
  | { type: "continue"; entryId: string; agent: NativeAgent }
  /** Copies a text to the terminal's clipboard. */
  | { type: "copy"; text: string; what: string }
  | { type: "suspend" }
  | { type: "redraw" }
  | { type: "quit" };

/** Facts that a listing does not contain. */
export interface SessionFacts {
  branches: number;
  /** Bill of the session's own calls, each counted once. Calls that a fork copied are left out. */
  bill: UsageTotals;
}

/** A question of an extension: for one of several choices or, without choices, for a text. */
export interface Question {
  id: number;
  title: string;
  message: string;
  choices: readonly string[];
}
