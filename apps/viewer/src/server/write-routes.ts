import type { ActOptions, Session } from "@espalier/engine";
import { ViewerError } from "./viewer-error.ts";

/** What a page sends with a change. */
export type Order = Readonly<Record<string, unknown>>;

/** What can be done to a session, by the last part of the address: the engine's own acts. */
export const writeRoutes: Readonly<
  Record<string, (session: Session, order: Order, act: Required<ActOptions>) => Promise<unknown>>
> = {
  navigate: (session, order, act) =>
    session.navigate(order["id"] === null ? null : text(order, "id"), { ...act, ...telling(order) }),
  fork: (session, order, act) =>
    session.fork(text(order, "id"), {
      ...act,
      ...telling(order),
      position: positionIn(order),
    }),
  label: async (session, order) => ({
    entryId: await session.label(text(order, "id"), optional(order, "label")),
  }),
  hide: async (session, order) => ({ entryId: await session.hide(text(order, "id")) }),
  show: async (session, order) => ({ entryId: await session.hide(text(order, "id"), false) }),
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

function text(order: Order, name: string): string {
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
