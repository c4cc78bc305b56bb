/** Panels next to the tree. */
export const TABS = ["conversation", "context", "compactions", "usage", "compare", "rules"] as const;

export type Tab = (typeof TABS)[number];

/** Filter of the session list. */
export interface ListChoice {
  /** Query of a search. */
  q?: string;
  agent?: string;
  /** Folder of the project. */
  project?: string;
  /** Maximum number of days since the last entry. */
  days?: string;
}

/** Contents of an address after `#`. An address can be sent to another user who has the same session. */
export interface Address {
  /** The session; null for the list. */
  session: string | null;
  tab: Tab;
  /** Id of the selected entry. */
  entry?: string;
  /** Id of the last entry of the shown path; absent for the session's leaf. */
  branch?: string;
  /** The other end of a comparison. */
  other?: string;
  /** Query of a search in the session. */
  find?: string;
  /** Filter of the list; only without a session. */
  list?: ListChoice;
}

const LIST_NAMES = ["q", "agent", "project", "days"] as const;
const SESSION_NAMES = ["entry", "branch", "other", "find"] as const;

/** `#/s/<session>/<tab>?entry=…&branch=…&other=…&find=…`, or `#/?q=…&agent=…&project=…&days=…` */
export function formatAddress({ session, tab, entry, branch, other, find, list = {} }: Address): string {
  const named = session === null ? { ...list } : { entry, branch, other, find };
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(named)) if (value) query.set(name, value);
  const place =
    session === null ? "#/" : `#/s/${encodeURIComponent(session)}${tab === "conversation" ? "" : `/${tab}`}`;
  return query.size === 0 ? place : `${place}?${query}`;
}

/** Parses an address; an invalid one shows the list. */
export function parseAddress(hash: string): Address {
  const [place = "", query = ""] = hash.replace(/^#/, "").split(/\?(.*)/s);
  const [, kind, session, tab] = place.split("/");
  const names = new URLSearchParams(query);
  const named = (wanted: readonly string[]) =>
    Object.fromEntries(
      wanted.flatMap((name) => {
        const value = names.get(name);
        return value === null || value === "" ? [] : [[name, value]];
      }),
    );
  if (kind !== "s" || !session) {
    const list = named(LIST_NAMES);
    return { session: null, tab: "conversation", ...(Object.keys(list).length > 0 ? { list } : {}) };
  }
  return {
    session: decoded(session),
    tab: TABS.find((known) => known === tab) ?? "conversation",
    ...named(SESSION_NAMES),
  };
}

/** Decodes an address that a user may have typed: invalid escapes stay unchanged, and invalid UTF-8 becomes U+FFFD. */
function decoded(text: string): string {
  return text.replace(/(?:%[0-9a-f]{2})+/gi, (escaped) =>
    new TextDecoder("utf-8", { ignoreBOM: true }).decode(
      Uint8Array.from(escaped.slice(1).split("%"), (byte) => Number.parseInt(byte, 16)),
    ),
  );
}

/**
 * Goes to an address. With `push`, the browser's Back returns from it; with `replace`, it replaces the current address.
 */
export function goTo(address: Address, how: "push" | "replace" = "push"): void {
  const hash = formatAddress(address);
  if (hash === formatAddress(parseAddress(location.hash))) return;
  history[how === "push" ? "pushState" : "replaceState"](null, "", hash);
  dispatchEvent(new Event("hashchange"));
}

/** A change that the server should make. */
export interface Order {
  act: "navigate" | "fork" | "label" | "hide" | "show" | "compact" | "undo" | "redo";
  id: string;
  row: number;
}

/** Functions of the page for its parts. */
export interface ViewerActions {
  /** True if the page can change the session. */
  readonly canWrite: boolean;
  select(row: number): void;
  /** Opens a panel at an entry. */
  open(tab: Tab, row?: number): void;
  /** Opens the conversation at an entry whose row is not known. */
  openId(id: string): void;
  inspect(compactionRow: number): void;
  /** Chooses the second branch of a comparison. */
  compareWith(row: number, id: string): void;
  /** Returns the address of an entry, for sharing. */
  linkTo(id: string): string;
  /** Begins a change; a dialog asks for the missing parts. */
  order(order: Order): void;
}
