import type { CompactionPlan } from "@espalier/compaction";
import type { BranchComparison, ListedSession, ListOptions, SearchHit } from "@espalier/engine";
import type { UsageTotals } from "@espalier/engine/reading";
import type { Change } from "../../commands/changes.ts";
import type { Line } from "../screen/frame.ts";
import type { TerminalInput } from "../screen/keys.ts";
import type { TreeModel } from "../tree/tree-model.ts";
import type { TreeView } from "../tree/tree-rows.ts";
import type { ReadContext } from "../view/context.ts";
import type { PathUsage } from "../view/usage.ts";
import type { TextField } from "./text-field.ts";

/** The whole terminal: every key makes another one, and the screen is a function of it. */
export interface TerminalState {
  readonly size: { readonly columns: number; readonly rows: number };
  /** False: nothing on the screen is told by colour alone, and markdown keeps its marks. */
  readonly isColoured: boolean;
  /** Epoch milliseconds, as the last event had it. */
  readonly now: number;
  readonly sessions: SessionsState;
  /** The session that is open; its screen covers the list. */
  readonly tree: TreeState | undefined;
  /** The dialog that covers the screen and receives the keys. */
  readonly dialog: Dialog | undefined;
  /** One sentence at the bottom, until the next key. */
  readonly notice: Notice | undefined;
  /** The act that is being carried out; one at a time. */
  readonly work: Work | undefined;
}

/** State of a terminal before the first event. */
export function firstState(
  size: TerminalState["size"],
  { now, isColoured }: { now: number; isColoured: boolean },
): TerminalState {
  return {
    size,
    now,
    isColoured,
    tree: undefined,
    dialog: undefined,
    notice: undefined,
    work: undefined,
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

interface Notice {
  text: string;
  isError: boolean;
}

interface Work {
  title: string;
  /** Epoch milliseconds. */
  started: number;
  /** Tokens of the summary so far. */
  tokens: number;
  /** Part of the work that is being done; empty: all of it. */
  detail: string;
  isAborting: boolean;
}

/** Selection of sessions, as `espalier list` has it. */
export type SessionFilter = Pick<ListOptions, "since" | "until" | "project" | "agent">;

/** Order of the session list. */
export type SessionSort = "age" | "name" | "size" | "cost";

export interface SessionsState {
  readonly listed: readonly ListedSession[];
  readonly isListing: boolean;
  readonly sort: SessionSort;
  /** True: the list includes sub-agent runs, beside the sessions that began them. */
  readonly showsSubAgents: boolean;
  /** The sessions that are listed and searched; empty: all. */
  readonly filter: SessionFilter;
  /** Sessions of other agents that an import would bring, in words; empty where there are none. */
  readonly others: string;
  /** The text of a search; undefined without one. */
  readonly query: TextField | undefined;
  readonly hits: readonly SearchHit[];
  readonly isSearching: boolean;
  /** Facts that were read from sessions, by `ref`. */
  readonly facts: ReadonlyMap<string, SessionFacts>;
  /** Index among what is listed. */
  readonly cursor: number;
  readonly top: number;
}

/** Pane beside the tree. */
export type PreviewTab = "entry" | "context" | "usage";

export interface TreeState {
  /** The path of the session's file. */
  readonly ref: string;
  readonly cwd: string;
  /** Reason why the session is read-only; undefined when it can be changed. */
  readonly readOnly: string | undefined;
  /** The writer of summaries; `isBilled` tells whether it is billed. */
  readonly writer: { readonly name: string; readonly isBilled: boolean };
  readonly view: TreeView;
  /** Rows: what the keys act on, and the first that is on the screen. -1 in an empty session. */
  readonly cursor: number;
  readonly top: number;
  /** The row that another one will be compared with, or merged. */
  readonly mark: number | undefined;
  /** The search that is being typed; undefined while none is. */
  readonly search: TreeSearch | undefined;
  /** The text of a search within the session, and the rows that have it, in the order of the page. */
  readonly query: string;
  readonly hits: readonly number[];
  readonly tab: PreviewTab;
  /** True while the keys move in the preview, which then has the whole screen. */
  readonly isReading: boolean;
  /** Calls and results are shown whole. */
  readonly isDetailed: boolean;
  /** The first line of the preview that is on the screen. */
  readonly scroll: number;
  /** Contents of the tabs, and the row that each was read for. */
  readonly context: { readonly row: number; readonly value: ReadContext } | undefined;
  readonly usage: { readonly row: number; readonly value: PathUsage } | undefined;
  /** True once an undo was confirmed: the first one says what it takes back. */
  readonly undoes?: boolean;
  /** Remembered choice for a session that another process writes. */
  readonly onBusy: "share" | undefined;
}

/** A search within a session, while its text is typed. */
interface TreeSearch {
  readonly field: TextField;
  /** Row of the cursor when the search began: hits are counted from there, and Escape goes back. */
  readonly from: number;
}

/** One of several answers to a dialog. */
export interface Choice {
  key: string;
  title: string;
  run: (state: TerminalState) => Next;
}

/** A pane that covers the screen: it tells something, and asks for a text, a choice, or nothing. Data but for its answers. */
export interface Dialog {
  title: string;
  /** Its text, in lines of so many columns. */
  body: (columns: number) => readonly Line[];
  /** The first line of the body that is shown. */
  scroll: number;
  choices: readonly Choice[];
  /** Index of the choice that Enter takes. */
  chosen: number;
  /** The text that is asked for. */
  field?: TextField;
  /** True where Enter begins another line, and Ctrl-S is done. */
  hasLines?: boolean;
  /** Takes the text. */
  accept?: (state: TerminalState, text: string) => Next;
  /** The question of an extension that it asks. */
  question?: number;
  /** Effect of Escape besides closing the dialog. */
  cancel?: (state: TerminalState) => Next;
}

/** A state, and what shall be done about it outside. */
export interface Next {
  state: TerminalState;
  effects: readonly TerminalEffect[];
}

export const next = (state: TerminalState, ...effects: readonly TerminalEffect[]): Next => ({
  state,
  effects,
});

/** The state with one sentence at the bottom. */
export const say = (state: TerminalState, text: string, isError = false): TerminalState => ({
  ...state,
  notice: { text, isError },
});

/** A change of a session, as the engine is asked for it. */
export type Act =
  | { name: "navigate"; entryId: string | null; summarize: boolean; instructions?: string }
  | { name: "fork"; entryId: string; position: "at" | "before" }
  | { name: "label"; entryId: string; text: string }
  | { name: "hide"; entryId: string; hidden: boolean }
  | { name: "rename"; text: string }
  | { name: "rules"; add: string }
  | { name: "rules"; drop: string }
  | { name: "compact"; instructions?: string }
  | { name: "merge"; fromId: string }
  | { name: "append"; text: string }
  | { name: "undo" }
  | { name: "redo" };

/** Side effects of an event, as data; their results come back as events. */
export type TerminalEffect =
  | { type: "list-sessions"; filter: SessionFilter }
  /** Imports the sessions of other agents on this machine. */
  | { type: "import" }
  /** Reads how many branches sessions have and what they cost; replaces the reading before it. */
  | { type: "read-facts"; sessions: readonly ListedSession[] }
  /** Looks for a text in everything that was said; replaces the search before it. Empty: ends it. */
  | { type: "search"; query: string; filter: SessionFilter }
  | { type: "open"; ref: string; entryId?: string; editorText?: string }
  | { type: "close" }
  /** Looks for a text in the open session; replaces the search before it. */
  | { type: "find"; query: string }
  | { type: "read-context"; row: number }
  | { type: "read-usage"; row: number }
  | { type: "plan"; instructions?: string }
  | { type: "compare"; a: string; b: string }
  | { type: "act"; act: Act; onBusy?: "fork" | "share" }
  | { type: "abort" }
  /** Answers the question of an extension; undefined: it was closed. */
  | { type: "answer"; question: number; answer: string | undefined }
  | { type: "export"; entryId: string | null; format: "markdown" | "json" }
  /** Hands a text to the terminal's clipboard. */
  | { type: "copy"; text: string; what: string }
  | { type: "suspend" }
  | { type: "redraw" }
  | { type: "quit" };

/** Facts that a listing does not have. */
export interface SessionFacts {
  branches: number;
  /** All calls, each once. */
  bill: UsageTotals;
}

/** Everything that can happen to the terminal. */
export type TerminalEvent =
  | TerminalInput
  | { type: "resize"; columns: number; rows: number }
  | { type: "tick"; now: number }
  | { type: "sessions"; sessions: readonly ListedSession[]; isDone: boolean }
  /** Sessions of other agents that an import would bring, in words. */
  | { type: "others"; text: string }
  /** Sessions of other agents were imported. */
  | { type: "imported"; message: string }
  | { type: "facts"; ref: string; facts: SessionFacts }
  | { type: "hits"; query: string; hits: readonly SearchHit[]; isDone: boolean }
  | {
      type: "opened";
      ref: string;
      cwd: string;
      readOnly: string | undefined;
      writer: { name: string; isBilled: boolean };
      model: TreeModel;
      /** Position of the cursor; by default the leaf. */
      entryId: string | undefined;
      /** A text that waits to be written anew here. */
      editorText: string | undefined;
    }
  /** There is more of the session than before. */
  | { type: "grown"; ref: string; model: TreeModel }
  /** Entries of the open session that contain the text, as far as it was searched. */
  | { type: "found"; query: string; entryIds: readonly string[]; isDone: boolean }
  | { type: "context"; row: number; context: ReadContext }
  | { type: "usage"; row: number; usage: PathUsage }
  | { type: "planned"; plan: CompactionPlan; instructions?: string }
  | { type: "compared"; comparison: BranchComparison }
  | { type: "progress"; tokens?: number; detail?: string }
  /** An act is in the session. */
  | { type: "acted"; outcome: Change }
  | { type: "busy"; act: Act; holder: string }
  /** An extension asks something, and waits for the answer. */
  | { type: "asked"; question: Question }
  /** The question of an extension needs no answer any more. */
  | { type: "withdrawn"; question: number }
  /** Something went wrong: the work that is going on, or what was read beside it. */
  | { type: "failed"; message: string; wasWork: boolean }
  | { type: "told"; message: string }
  /** Something to know of what still goes on. */
  | { type: "warned"; message: string };

/** A question of an extension: for one of several choices, or, where there are none, for a text. */
export interface Question {
  id: number;
  title: string;
  message: string;
  choices: readonly string[];
}
