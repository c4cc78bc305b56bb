/** Panels beside the tree. */
export const TABS = ["conversation", "context", "compactions", "usage", "compare", "rules"] as const;

export type Tab = (typeof TABS)[number];

/** Contents of an address after `#`. It can be sent to another user with the same session. */
export interface Address {
  /** The session; null for the list. */
  session: string | null;
  tab: Tab;
  /** The entry that is looked at. */
  entry?: string;
  /** The entry in which the path shown ends; left out for the session's leaf. */
  branch?: string;
  /** The other end of a comparison. */
  other?: string;
}

/** `#/s/<session>/<tab>?entry=…&branch=…&other=…` */
export function formatAddress({ session, tab, entry, branch, other }: Address): string {
  if (session === null) return "#/";
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries({ entry, branch, other })) if (value) query.set(name, value);
  const place = `#/s/${encodeURIComponent(session)}${tab === "conversation" ? "" : `/${tab}`}`;
  return query.size === 0 ? place : `${place}?${query}`;
}

/** Parses an address; an unknown one is the list. */
export function parseAddress(hash: string): Address {
  const [place = "", query = ""] = hash.replace(/^#/, "").split("?");
  const [, kind, session, tab] = place.split("/");
  if (kind !== "s" || !session) return { session: null, tab: "conversation" };
  const names = new URLSearchParams(query);
  const named = (name: "entry" | "branch" | "other") => {
    const value = names.get(name);
    return value === null || value === "" ? {} : { [name]: value };
  };
  return {
    session: decoded(session),
    tab: TABS.find((known) => known === tab) ?? "conversation",
    ...named("entry"),
    ...named("branch"),
    ...named("other"),
  };
}

/** Decodes an address that a user may have typed: invalid escapes stay as they are, and invalid UTF-8 becomes U+FFFD. */
function decoded(text: string): string {
  return text.replace(/(?:%[0-9a-f]{2})+/gi, (escaped) =>
    new TextDecoder("utf-8", { ignoreBOM: true }).decode(
      Uint8Array.from(escaped.slice(1).split("%"), (byte) => Number.parseInt(byte, 16)),
    ),
  );
}

/** A change for the server. */
export interface Order {
  act: "navigate" | "fork" | "label" | "hide" | "show" | "compact";
  id: string;
  row: number;
}

/** Actions of the page for its parts. */
export interface ViewerActions {
  /** True where the session can be changed from here. */
  readonly canWrite: boolean;
  select(row: number): void;
  /** Opens a part of the page, at an entry. */
  open(tab: Tab, row?: number): void;
  inspect(compactionRow: number): void;
  /** The second branch of a comparison. */
  compareWith(row: number): void;
  /** The address of an entry, for sharing. */
  linkTo(id: string): string;
  /** Begins a change; a dialog asks the rest. */
  order(order: Order): void;
}
