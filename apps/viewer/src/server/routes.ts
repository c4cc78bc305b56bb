import type { ActOptions, Session } from "@espalier/engine";
import type { SessionReader } from "../model/session-reader.ts";
import { ViewerError } from "./viewer-error.ts";

/** Parameters of a request. */
type Query = (name: string) => string | undefined;

/** What can be asked of a session, by the last part of the address. Every answer is the reader's own. */
export const readRoutes: Readonly<Record<string, (reader: SessionReader, query: Query) => Promise<unknown>>> =
  {
    facts: (reader) => reader.facts(),
    outline: (reader, query) => reader.outline(whole(query, "from"), whole(query, "to")),
    gists: (reader, query) => reader.gists(whole(query, "from"), within(query, "to", "from", MOST_GISTS)),
    entries: (reader, query) => reader.entries(listed(query, "rows")),
    row: async (reader, query) => ({ row: await reader.rowOf(text(query, "id")) }),
    context: (reader, query) => reader.context(whole(query, "row", -1)),
    growth: (reader, query) => reader.growth(whole(query, "row", -1)),
    stats: (reader) => reader.stats(),
    spending: (reader) => reader.spending(),
    compaction: (reader, query) => reader.compaction(whole(query, "row")),
    origins: (reader, query) => reader.origins(whole(query, "row"), text(query, "line")),
    find: (reader, query) => reader.find(text(query, "q")),
    compare: (reader, query) => reader.compare(whole(query, "a"), whole(query, "b")),
  };

/** Rows whose gists one request may ask for, and whose entries. */
const MOST_GISTS = 5_000;
const MOST_ROWS = 2_000;

function text(query: Query, name: string): string {
  const value = query(name);
  if (value === undefined) throw new ViewerError("bad-request", `The address needs \`${name}\`.`);
  return value;
}

function whole(query: Query, name: string, least = 0): number {
  const value = text(query, name);
  if (/^-?\d{1,15}$/.test(value) && Number(value) >= least) return Number(value);
  throw new ViewerError("bad-request", `\`${name}\` is a whole number from ${least} up.`);
}

function within(query: Query, name: string, from: string, most: number): number {
  const value = whole(query, name);
  if (value - whole(query, from) <= most) return value;
  throw new ViewerError("bad-request", `Ask for ${most} rows at the most.`);
}

function listed(query: Query, name: string): number[] {
  const parts = text(query, name).split(",");
  if (parts.length <= MOST_ROWS && parts.every((part) => /^\d{1,15}$/.test(part))) return parts.map(Number);
  throw new ViewerError(
    "bad-request",
    `\`${name}\` is up to ${MOST_ROWS} whole numbers with commas between.`,
  );
}

/** What a page sends with a change. */
export type Order = Readonly<Record<string, unknown>>;

/** What can be done to a session, by the last part of the address: the engine's own acts. */
export const writeRoutes: Readonly<
  Record<string, (session: Session, order: Order, act: Required<ActOptions>) => Promise<unknown>>
> = {
  navigate: (session, order, act) =>
    session.navigate(order["id"] === null ? null : bodyText(order, "id"), { ...act, ...telling(order) }),
  fork: (session, order, act) =>
    session.fork(bodyText(order, "id"), {
      ...act,
      ...telling(order),
      position: positionIn(order),
    }),
  label: async (session, order) => ({
    entryId: await session.label(bodyText(order, "id"), optional(order, "label")),
  }),
  hide: async (session, order) => ({ entryId: await session.hide(bodyText(order, "id")) }),
  show: async (session, order) => ({ entryId: await session.hide(bodyText(order, "id"), false) }),
  compact: (session, order, act) => {
    const { instructions } = telling(order);
    return session.compact({ ...act, ...(instructions === undefined ? {} : { instructions }) });
  },
};

function telling(order: Order): { summarize: boolean; instructions?: string } {
  const instructions = optional(order, "instructions");
  return { summarize: order["summarize"] === true, ...(instructions ? { instructions } : {}) };
}

function positionIn(order: Order): "at" | "before" {
  const position = optional(order, "position") ?? "at";
  if (position === "at" || position === "before") return position;
  throw new ViewerError("bad-request", '`position` is "at" or "before".');
}

function bodyText(order: Order, name: string): string {
  const value = optional(order, name);
  if (value === undefined) throw new ViewerError("bad-request", `\`${name}\` is missing.`);
  return value;
}

function optional(order: Order, name: string): string | undefined {
  const value = order[name];
  if (value === undefined || value === null) return undefined;
  if (typeof value === "string") return value;
  throw new ViewerError("bad-request", `\`${name}\` is text.`);
}
