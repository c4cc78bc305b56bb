import type { Tab } from "./address.ts";

/** What a change asks of the server. */
export interface Order {
  act: "navigate" | "fork" | "label" | "hide" | "show" | "compact";
  id: string;
  row: number;
}

/** What parts of the page can ask of the whole. */
export interface ViewerActions {
  /** Whether the session can be changed from here. */
  readonly canWrite: boolean;
  select(row: number): void;
  /** Opens a part of the page, at an entry. */
  open(tab: Tab, row?: number): void;
  inspect(compactionRow: number): void;
  /** The second branch of a comparison. */
  compareWith(row: number): void;
  /** The address of an entry, to be sent to somebody. */
  linkTo(id: string): string;
  /** Begins a change; a dialog asks the rest. */
  order(order: Order): void;
}
