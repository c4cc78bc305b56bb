import { createContext } from "preact";
import { useContext } from "preact/hooks";
import type { SessionModel } from "../source/session-model.ts";
import type { Tab } from "./address.ts";

/** A change that the server should make. */
export interface Order {
  act: "navigate" | "fork" | "label" | "hide" | "show" | "compact" | "undo" | "redo";
  id: string;
  row: number;
}

/** The session that the page shows, and functions of the page for its parts. */
export interface Viewer {
  readonly model: SessionModel;
  /** Address of the session on the server; undefined without a server. */
  readonly served: string | undefined;
  /** True if the page can change the session. */
  readonly canWrite: boolean;
  select(row: number): void;
  /** Opens a panel at an entry; without `row`, at the selected entry. */
  open(tab: Tab, row?: number): void;
  /** Opens the conversation at an entry whose row is not known. */
  openId(id: string): void;
  inspect(compactionRow: number): void;
  /** Chooses the other branch of a comparison by its last entry, and opens the comparison. */
  compareWith(row: number, id: string): void;
  /** Returns the address of an entry, for sharing. */
  linkTo(id: string): string;
  /** Begins a change; a dialog asks for the missing parts. */
  order(order: Order): void;
}

const shown = createContext<Viewer | undefined>(undefined);

/** Gives a viewer to the components inside. */
export const ShownViewer = shown.Provider;

export const useViewer = (): Viewer => useContext(shown)!;
