import type { ListedSession } from "@espalier/engine";
import type { Line } from "./frame.ts";
import type { PathUsage } from "./path-usage.ts";
import type { ReadContext } from "./read-context.ts";
import type { TerminalEffect } from "./terminal-effect.ts";
import type { FoundText, SessionFacts } from "./terminal-event.ts";
import type { TextField } from "./text-field.ts";
import type { TreeView } from "./tree-rows.ts";

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
  /** What covers the screen and takes the keys. */
  readonly dialog: Dialog | undefined;
  /** One sentence at the bottom, until the next key. */
  readonly notice: Notice | undefined;
  /** The act that is being carried out; one at a time. */
  readonly work: Work | undefined;
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
  isAborting: boolean;
}

/** By what sessions are ordered. */
export type SessionSort = "age" | "name" | "size" | "cost";

export interface SessionsState {
  readonly listed: readonly ListedSession[];
  readonly isListing: boolean;
  readonly sort: SessionSort;
  /** True: the runs of sub-agents stand among the sessions that began them. */
  readonly showsSubAgents: boolean;
  /** What is searched for; undefined while nobody searches. */
  readonly query: TextField | undefined;
  readonly hits: readonly FoundText[];
  readonly isSearching: boolean;
  /** What was read of sessions beyond their listing, by `ref`. */
  readonly facts: ReadonlyMap<string, SessionFacts>;
  /** Index among what is listed. */
  readonly cursor: number;
  readonly top: number;
}

/** What of an entry is shown beside the tree. */
export type PreviewTab = "entry" | "context" | "usage";

export interface TreeState {
  /** The path of the session's file. */
  readonly ref: string;
  readonly cwd: string;
  /** Why nothing can be changed here; undefined where it can. */
  readonly readOnly: string | undefined;
  /** Who writes summaries, and whether that is billed. */
  readonly writer: { readonly name: string; readonly isBilled: boolean };
  readonly view: TreeView;
  /** Rows: what the keys act on, and the first that is on the screen. -1 in an empty session. */
  readonly cursor: number;
  readonly top: number;
  /** The row that another one will be compared with, or merged. */
  readonly mark: number | undefined;
  /** What was searched for within the session, and the rows in which it stands, in the order of the page. */
  readonly query: string;
  readonly hits: readonly number[];
  readonly tab: PreviewTab;
  /** True while the keys move in the preview, which then has the whole screen. */
  readonly isReading: boolean;
  /** Calls and results are shown whole. */
  readonly isDetailed: boolean;
  /** The first line of the preview that is on the screen. */
  readonly scroll: number;
  /** What was read for the tabs, and for which row. */
  readonly context: { readonly row: number; readonly value: ReadContext } | undefined;
  readonly usage: { readonly row: number; readonly value: PathUsage } | undefined;
  /** What to do where somebody else writes the session, once that was asked. */
  readonly onBusy: "share" | undefined;
}

/** One of several answers to a dialog. */
export interface Choice {
  key: string;
  title: string;
  run: (state: TerminalState) => Next;
}

/** What covers the screen, says something, and asks for a text, a choice, or nothing. Pure data but for its answers. */
export interface Dialog {
  title: string;
  /** What it says, in lines of so many columns. */
  body: (columns: number) => readonly Line[];
  /** The first line of the body that is shown. */
  scroll: number;
  choices: readonly Choice[];
  /** Which choice Enter takes. */
  chosen: number;
  /** The text that is asked for. */
  field?: TextField;
  /** True where Enter begins another line, and Ctrl-S is done. */
  hasLines?: boolean;
  /** Takes the text. */
  accept?: (state: TerminalState, text: string) => Next;
  /** The question of an extension that it asks. */
  question?: number;
  /** What Escape does besides closing it. */
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
