import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import type { SessionModel } from "../source/session-model.ts";

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
  /** Key of the session; null for the list. */
  session: string | null;
  tab: Tab;
  /** Id of the selected entry. */
  entry?: string;
  /** Id of the last entry of the shown path; absent for the session's leaf. */
  branch?: string;
  /** Id of the last entry of the other branch in a comparison. */
  other?: string;
  /** Query of a search in the session. */
  find?: string;
  /** Filter of the list; only without a session. */
  list?: ListChoice;
}

const LIST_NAMES = ["q", "agent", "project", "days"] as const;
const SESSION_NAMES = ["entry", "branch", "other", "find"] as const;

/**
 * Formats an address: `#/s/<session>/<tab>?entry=…&branch=…&other=…&find=…`, or for the list
 * `#/?q=…&agent=…&project=…&days=…`. The tab `conversation` and empty values are left out.
 */
export function formatAddress({ session, tab, entry, branch, other, find, list = {} }: Address): string {
  const named = session === null ? { ...list } : { entry, branch, other, find };
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(named)) if (value) query.set(name, value);
  const place =
    session === null ? "#/" : `#/s/${encodeURIComponent(session)}${tab === "conversation" ? "" : `/${tab}`}`;
  return query.size === 0 ? place : `${place}?${query}`;
}

/** Parses an address. An invalid one is the list; an unknown tab is `conversation`. */
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

/**
 * Changes parts of the browser's address. Other parts keep their newest values, which may differ from those of the
 * last drawing, `drawn`. Does nothing if the address now names another session.
 */
export function amendAddress(drawn: Address, changes: Partial<Address>): void {
  const newest = parseAddress(location.hash);
  if (newest.session === null || newest.session === drawn.session)
    goTo({ ...newest, session: drawn.session, ...changes }, "replace");
}

/** An entry with its id. */
export interface Place {
  row: number;
  id: string;
}

/** Returns the address of the selected entry within the session; undefined while the id of an entry is loaded. */
export function addressOf(model: SessionModel, other: Place | undefined): SessionAddress | undefined {
  const { selected, tip, end, facts } = model;
  const idOf = (row: number, isNamed: boolean) => (isNamed ? model.gist(row)?.id : "");
  const [entry, branch] = [idOf(selected, selected !== end), idOf(tip, tip !== facts.leafRow)];
  return entry === undefined || branch === undefined ? undefined : { entry, branch, other: other?.id ?? "" };
}

/** Entries in an address; empty strings if absent. */
type SessionAddress = Required<Pick<Address, "entry" | "branch" | "other">>;

/**
 * Milliseconds before the address is updated for an entry that was not clicked; browsers limit the number of changes
 * per second.
 */
const SETTLED = 250;

/**
 * Synchronizes the address and the selection: selects the entry of a new address, and writes the address of a new
 * selection, also of one by keys, by the slider, or in a growing session.
 */
export function useAddress(
  model: SessionModel,
  address: Address,
  second: Place | undefined,
  setOther: (place: Place | undefined) => void,
): void {
  const { branch = "", entry = "", other = "" } = address;
  /** Navigation to the entry of the address. It ends when the user selects another entry. */
  const going = useRef<{ since: number } | undefined>(undefined);
  // A layout effect runs before the next key, so that a newer selection is not reverted to the address.
  useLayoutEffect(() => {
    const here = addressOf(model, second);
    const isHere = here?.entry === entry && here.branch === branch;
    const find = async (id: string) => (id === "" ? -1 : model.reader.rowOf(id));
    const way = { since: model.selections };
    going.current = way;
    const go = async () => {
      if ((second?.id ?? "") !== other) {
        const row = await find(other);
        if (going.current === way) setOther(row < 0 ? undefined : { row, id: other });
      }
      if (isHere) return;
      const rows = await Promise.all([find(branch), find(entry)]);
      if (going.current === way && model.selections === way.since) goToRows(model, ...rows);
    };
    // If the server does not answer, the page does not move, and its panels show the error.
    void go()
      .catch(() => undefined)
      .finally(() => {
        if (going.current === way) going.current = undefined;
      });
  }, [model, branch, entry, other]);
  useEffect(() => {
    const timer = setTimeout(() => {
      const place = addressOf(model, second);
      const isGoing = going.current?.since === model.selections || (going.current && place?.other !== other);
      if (!isGoing && place && isDrawn(address)) amendAddress(address, place);
    }, SETTLED);
    return () => clearTimeout(timer);
  });
}

/**
 * Returns whether the browser's address still equals the drawn one. After Back, for example, it differs until the
 * next drawing.
 */
function isDrawn({ entry, branch, other }: Address): boolean {
  const newest = parseAddress(location.hash);
  return newest.entry === entry && newest.branch === branch && newest.other === other;
}

/**
 * Shows the path to `end` and selects `row`. Without `row` (-1), selects the end of the path. Without `end` (-1), shows the
 * path to the leaf, or the branch of `row` if `row` is not on that path.
 */
function goToRows(model: SessionModel, end: number, row: number): void {
  if (row >= 0 && model.isFolded(row)) model.setBookkeeping(true);
  const { leafRow } = model.facts;
  if (end >= 0) model.show(end, row);
  else if (row < 0 || model.rows.path(leafRow).includes(row)) model.show(leafRow, row);
  else model.select(row);
}
