import type { ListedSession, SearchHit } from "@espalier/engine";
import { formatAge, formatBytes, formatCount, formatShortCost } from "../../numbers.ts";
import { cutToColumns, lastTimeOf, padToColumns, plainLine, projectOf, titleOf } from "../../text.ts";
import { fitLines, type Line, line, type Span, selectLine, span } from "../screen/frame.ts";
import type { SessionFacts, SessionSort, SessionsState, TerminalState } from "../state/state.ts";
import { fieldLines } from "../state/text-field.ts";
import { bodyHeight } from "./layout.ts";
import { roleLook } from "./roles.ts";
import { matchedSpans } from "./tree.ts";

/** Columns behind the title: project, size, branches, age, cost, each with two spaces before it. */
const PROJECT = 12;
const FACTS = 2 + PROJECT + 2 + 7 + 2 + 8 + 2 + 8 + 2 + 7;

/** The narrowest title before the project gives way to it. */
const TITLE = 24;

export function viewSessions(state: TerminalState): Line[] {
  const { sessions, size } = state;
  const rows = sessionsRows(sessions);
  const height = bodyHeight(state);
  const showsProject = size.columns - 2 - FACTS >= TITLE;
  const factsWidth = showsProject ? FACTS : FACTS - PROJECT - 2;
  const room = Math.max(8, size.columns - 2 - factsWidth);
  const columns = `${padToColumns("  session", room + 2)}${showsProject ? `  ${"project".padEnd(PROJECT)}` : ""}  ${"size".padStart(7)}  ${"branches".padStart(8)}  ${"age".padStart(8)}  ${"cost".padStart(7)}`;
  const top = sessions.query
    ? { spans: [span("  search: ", "label"), ...(fieldLines(sessions.query)[0]?.spans ?? [])] }
    : line(span(columns, "dim"));
  const shown = rows
    .slice(sessions.top, sessions.top + height - 1)
    .map((row, at) =>
      sessionsLine(state, row, sessions.top + at === sessions.cursor, { room, showsProject }),
    );
  if (shown.length === 0) shown.push(line(span(`  ${emptyText(state)}`, "dim")));
  return fitLines([top, ...shown], height);
}

function emptyText({ sessions }: TerminalState): string {
  if (sessions.isListing) return "Looking for sessions …";
  if (sessions.isSearching) return "Searching …";
  return sessions.query
    ? "Nothing was found."
    : "There is no session yet; `espalier chat` begins one, `espalier import` brings in others.";
}

function sessionsLine(
  { sessions, now, size }: TerminalState,
  row: SessionsRow,
  isSelected: boolean,
  { room, showsProject }: { room: number; showsProject: boolean },
): Line {
  const mark = span(isSelected ? "▸ " : "  ", "leaf");
  const drawn =
    row.type === "hit"
      ? hitLine(row, sessions.query?.text.trim().toLowerCase() ?? "", size.columns)
      : listedLine(sessions.facts.get(row.session.ref), row.session, now, room, showsProject);
  const marked = { spans: [mark, ...drawn] };
  return isSelected ? selectLine(marked, size.columns) : marked;
}

/** Columns of the session in which something was found, and of who said it. */
const WHERE = 20;
const WHO = 7;

function hitLine(
  { hit, session }: Extract<SessionsRow, { type: "hit" }>,
  query: string,
  columns: number,
): Span[] {
  const where = cutToColumns(session ? titleOf(session) : plainLine(hit.sessionId), WHERE);
  const who = roleLook(hit.role).title;
  const room = Math.max(10, columns - WHERE - WHO - 6);
  return [
    span(`  ${padToColumns(where, WHERE)} `, "dim"),
    span(`${padToColumns(cutToColumns(who, WHO), WHO)} `, "user"),
    ...matchedSpans(cutToColumns(aroundMatch(plainLine(hit.snippet), query, room), room), "plain", query),
  ];
}

/** Cuts a text's beginning so that the searched words are within its first columns. */
function aroundMatch(text: string, query: string, room: number): string {
  const at = text.toLowerCase().indexOf(query);
  if (at < 0 || at + query.length < room - 1) return text;
  const from = Math.max(0, at - Math.floor(room / 3));
  return `…${text.slice(from).toWellFormed()}`;
}

function listedLine(
  facts: SessionFacts | undefined,
  session: ListedSession,
  now: number,
  room: number,
  showsProject: boolean,
): Span[] {
  const cells = [
    ...(showsProject ? [padToColumns(cutToColumns(projectOf(session.cwd), PROJECT), PROJECT)] : []),
    formatBytes(session.bytes).padStart(7),
    (facts ? formatCount(facts.branches) : "·").padStart(8),
    formatAge(Math.max(0, now - Date.parse(lastTimeOf(session)))).padStart(8),
    (facts ? formatShortCost(facts.cost) : "·").padStart(7),
  ];
  const title = padToColumns(cutToColumns(titleOf(session), room), room);
  return [
    span(title, session.name === null ? "plain" : "strong"),
    span(cells.map((cell) => `  ${cell}`).join(""), "dim"),
  ];
}

/** A line of the list of sessions: a session, or a place in one where something was found. */
type SessionsRow =
  | { type: "session"; session: ListedSession }
  | { type: "hit"; hit: SearchHit; session: ListedSession | undefined };

const COMPARE: Readonly<
  Record<SessionSort, (state: SessionsState) => (a: ListedSession, b: ListedSession) => number>
> = {
  age: () => (a, b) => Date.parse(lastTimeOf(b)) - Date.parse(lastTimeOf(a)),
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

/** Rows of the list: all sessions, or, with a query, those with a matching title and every place with the text. */
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
