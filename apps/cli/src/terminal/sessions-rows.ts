import type { ListedSession } from "@espalier/engine";
import { plainLine } from "../plain-text.ts";
import type { SessionSort, SessionsState } from "./state.ts";
import type { FoundText } from "./terminal-event.ts";

/** A line of the list of sessions: a session, or a place in one where something was found. */
export type SessionsRow =
  | { type: "session"; session: ListedSession }
  | { type: "hit"; hit: FoundText; session: ListedSession | undefined };

export const titleOf = ({ name, firstMessage, id, ref }: ListedSession): string =>
  plainLine(name ?? firstMessage ?? "") || plainLine(id || ref);

/** The last part of the folder that a session worked in. */
export const projectOf = (cwd: string): string => plainLine(cwd.split(/[\\/]/).filter(Boolean).at(-1) ?? "");

const COMPARE: Readonly<
  Record<SessionSort, (state: SessionsState) => (a: ListedSession, b: ListedSession) => number>
> = {
  age: () => (a, b) => (a.modified < b.modified ? 1 : a.modified > b.modified ? -1 : 0),
  name: () => (a, b) => titleOf(a).localeCompare(titleOf(b)),
  size: () => (a, b) => b.bytes - a.bytes,
  cost:
    ({ facts }) =>
    (a, b) =>
      (facts.get(b.ref)?.cost ?? 0) - (facts.get(a.ref)?.cost ?? 0),
};

export const SORTS = Object.keys(COMPARE) as readonly SessionSort[];

/** The sessions that are shown where nothing is searched for. */
export const shownSessions = ({ listed, showsSubAgents }: SessionsState): ListedSession[] =>
  listed.filter(({ parent }) => showsSubAgents || parent?.kind !== "subagent");

/** What is listed: all sessions, or, of a query, those that are called so and every place where it was said. */
export function sessionsRows(state: SessionsState): SessionsRow[] {
  const query = state.query?.text.trim().toLowerCase() ?? "";
  const sorted = shownSessions(state).sort(COMPARE[state.sort](state));
  const called = query === "" ? sorted : sorted.filter((session) => isCalled(session, query));
  const rows: SessionsRow[] = called.map((session) => ({ type: "session", session }));
  if (query === "") return rows;
  const byRef = new Map(state.listed.map((session) => [session.ref, session]));
  return [...rows, ...state.hits.map((hit) => ({ type: "hit" as const, hit, session: byRef.get(hit.file) }))];
}

const isCalled = (session: ListedSession, query: string): boolean =>
  titleOf(session).toLowerCase().includes(query) || projectOf(session.cwd).toLowerCase().includes(query);
