import { type ListedSession, lastTimeOf, type SearchHit } from "@espalier/engine";
import { underParents } from "../../commands/sessions.ts";
import { markOfParent } from "../../entry-reference.ts";
import { formatBill, formatBytes, formatCount, formatMany, formatTime, formatWhen } from "../../numbers.ts";
import {
  aroundMatch,
  columnsOf,
  cutToColumns,
  padToColumns,
  plainLine,
  projectOf,
  titleOf,
} from "../../text.ts";
import { alignEnds, EMPTY, fitLines, type Line, line, type Span, selectLine, span } from "../screen/frame.ts";
import { paragraph } from "../state/dialog.ts";
import type {
  SessionFacts,
  SessionFilter,
  SessionSort,
  SessionsState,
  TerminalState,
} from "../state/state.ts";
import { fieldLines } from "../state/text-field.ts";
import { bodyHeight } from "./layout.ts";
import { roleLook } from "./tabs.ts";
import { matchedSpans } from "./tree.ts";

/** A fact about a session, in a column after its title. */
interface Column {
  title: string;
  width: number;
  isLeft?: boolean;
  text: (session: ListedSession, facts: SessionFacts | undefined, now: number) => string;
}

const COLUMNS = {
  agent: { title: "agent", width: 11, isLeft: true, text: ({ agent }) => plainLine(agent) },
  project: { title: "project", width: 12, isLeft: true, text: ({ cwd }) => projectOf(cwd) },
  size: { title: "size", width: 7, text: ({ bytes }) => formatBytes(bytes) },
  branches: { title: "branches", width: 8, text: (_, facts) => (facts ? formatCount(facts.branches) : "·") },
  age: { title: "updated", width: 10, text: (session, _, now) => formatWhen(lastTimeOf(session), now) },
  cost: { title: "cost", width: 9, text: (_, facts) => (facts ? formatBill(facts.bill) : "·") },
} as const satisfies Record<string, Column>;

/** Columns by importance; the last ones are left out on a narrow screen. */
const BY_NEED: readonly (keyof typeof COLUMNS)[] = ["age", "agent", "project", "cost", "branches", "size"];

/** Minimum width in columns of the title. */
const TITLE = 24;

/** Returns the columns that fit next to a title, in their order on the screen, and the width of the title. */
function columnsWithin(columns: number): { shown: Column[]; room: number } {
  let room = columns - 2;
  const fitting = new Set<string>();
  for (const name of BY_NEED) {
    if (room - COLUMNS[name].width - 2 < TITLE) break;
    fitting.add(name);
    room -= COLUMNS[name].width + 2;
  }
  const shown = Object.entries(COLUMNS).flatMap(([name, column]) => (fitting.has(name) ? [column] : []));
  return { shown, room: Math.max(8, room) };
}

const inColumn = ({ width, isLeft }: Column, text: string): string => {
  const cut = cutToColumns(text, width);
  return `  ${isLeft ? padToColumns(cut, width) : cut.padStart(width)}`;
};

/** Describes a filter in words: `since 2026-11-16`, `codex`. */
export function filterWords({ since, until, project, agent }: SessionFilter): string[] {
  return [
    ...(since ? [`since ${formatTime(since.getTime())}`] : []),
    ...(until ? [`until ${formatTime(until.getTime())}`] : []),
    ...(project === undefined ? [] : [`in ${plainLine(project)}`]),
    ...(agent === undefined ? [] : [plainLine(agent)]),
  ];
}

/** Draws the heading of the list: the number of sessions, the filter and the order. */
export function sessionsHeading({ sessions, size }: TerminalState): Line {
  const facts = [
    formatMany(shownSessions(sessions).length, "session"),
    ...filterWords(sessions.filter),
    `by ${sessions.sort}`,
    ...(sessions.query && sessions.hits.length > 0
      ? [`${formatMany(sessions.hits.length, "place")}${sessions.isSearching ? " so far" : ""}`]
      : []),
    ...(sessions.isListing || sessions.isSearching ? ["…"] : []),
  ];
  return alignEnds([span(" Espalier", "heading")], [span(`${facts.join(" · ")} `, "dim")], size.columns);
}

export function viewSessions(state: TerminalState): Line[] {
  const { sessions, size } = state;
  const rows = sessionsRows(sessions);
  const height = bodyHeight(state);
  const fitting = columnsWithin(size.columns);
  const columns = `${padToColumns("  session", fitting.room + 2)}${fitting.shown.map((one) => inColumn(one, one.title)).join("")}`;
  const top = sessions.query
    ? { spans: [span("  search: ", "label"), ...(fieldLines(sessions.query)[0]?.spans ?? [])] }
    : line(span(columns, "dim"));
  const shown = rows
    .slice(sessions.top, sessions.top + height - 1)
    .map((row, at) => sessionsLine(state, row, sessions.top + at === sessions.cursor, fitting));
  const inLines = (texts: readonly string[]) =>
    texts.flatMap((text) => paragraph(text, size.columns - 4)).map(indented);
  if (shown.length === 0) shown.push(...inLines(emptyTexts(state)));
  else if (sessions.others !== "" && !sessions.query) shown.push(EMPTY, ...inLines(othersText(sessions)));
  return fitLines([top, ...shown], height);
}

const indented = ({ spans }: Line): Line => ({ spans: [span("  "), ...spans] });

const othersText = ({ others }: SessionsState): string[] => [
  `Found on this machine: ${others}.`,
  "Press i to import them; the sources are not changed.",
];

function emptyTexts({ sessions }: TerminalState): string[] {
  if (sessions.isListing) return ["Looking for sessions …"];
  if (sessions.isSearching) return ["Searching …"];
  if (sessions.query) return ["Nothing was found."];
  if (Object.keys(sessions.filter).length > 0) return ["No session matches the filter; f changes it."];
  if (sessions.others !== "") return ["There is no session yet.", ...othersText(sessions)];
  return ["There is no session yet; `espalier chat` begins one, `espalier import` brings in others."];
}

function sessionsLine(
  { sessions, now, size }: TerminalState,
  row: SessionsRow,
  isSelected: boolean,
  fitting: ReturnType<typeof columnsWithin>,
): Line {
  const mark = span(isSelected ? "▸ " : "  ", "leaf");
  const drawn =
    row.type === "hit"
      ? hitLine(row, sessions.query?.text.trim().toLowerCase() ?? "", size.columns)
      : listedLine(sessions.facts.get(row.session.ref), row, now, fitting);
  const marked = { spans: [mark, ...drawn] };
  return isSelected ? selectLine(marked, size.columns) : marked;
}

/** Width in columns of the session's title, and of the role, in a hit. */
const WHERE = 20;
const WHO = 7;

function hitLine({ hit, session }: Extract<SessionsRow, { type: "hit" }>, query: string, columns: number) {
  const where = cutToColumns(session ? titleOf(session) : plainLine(hit.sessionId), WHERE);
  const who = roleLook(hit.role).title;
  const room = Math.max(10, columns - WHERE - WHO - 6);
  return [
    span(`  ${padToColumns(where, WHERE)} `, "dim"),
    span(`${padToColumns(cutToColumns(who, WHO), WHO)} `, "user"),
    ...matchedSpans(aroundMatch(plainLine(hit.snippet), query, room), "plain", query),
  ];
}

function listedLine(
  facts: SessionFacts | undefined,
  { session, runs }: Extract<SessionsRow, { type: "session" }>,
  now: number,
  { shown, room }: ReturnType<typeof columnsWithin>,
): Span[] {
  const mark = markOfParent(session.parent);
  const count = runs > 0 ? ` ▸${runs}` : "";
  const title = cutToColumns(`${mark}${titleOf(session)}`, room - columnsOf(count));
  const cells = shown.map((column) => inColumn(column, column.text(session, facts, now)));
  return [
    span(title, session.name === null ? "plain" : "strong"),
    span(padToColumns(count, room - columnsOf(title)), "dim"),
    span(cells.join(""), "dim"),
  ];
}

/** A line of the list of sessions: a session, or a hit in one. */
type SessionsRow =
  /** `runs`: number of its sub-agents that are not shown. */
  | { type: "session"; session: ListedSession; runs: number }
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
      (facts.get(b.ref)?.bill.cost ?? 0) - (facts.get(a.ref)?.bill.cost ?? 0),
};
export const SORTS = Object.keys(COMPARE) as readonly SessionSort[];

/** Returns the sessions that are shown without a search. */
const shownSessions = ({ listed, showsSubAgents }: SessionsState): ListedSession[] =>
  listed.filter(({ parent }) => showsSubAgents || parent?.kind !== "subagent");

/** Rows of the list: sessions, each with its sub-agents; with a query, sessions with such a title, then all hits. */
export function sessionsRows(state: SessionsState): SessionsRow[] {
  const query = state.query?.text.trim().toLowerCase() ?? "";
  const sorted = shownSessions(state).sort(COMPARE[state.sort](state));
  const called = query === "" ? underParents(sorted) : sorted.filter((session) => isCalled(session, query));
  const runs = state.showsSubAgents ? new Map<string, number>() : runsOf(state.listed);
  const rows = called.map((session): SessionsRow => {
    return { type: "session", session, runs: runs.get(session.id) ?? 0 };
  });
  if (query === "") return rows;
  const byRef = new Map(state.listed.map((session) => [session.ref, session]));
  return [...rows, ...state.hits.map((hit) => ({ type: "hit" as const, hit, session: byRef.get(hit.file) }))];
}

/** Returns whether two rows show the same session, or the same hit. */
export const isSameRow = (a: SessionsRow, b: SessionsRow): boolean =>
  a.type === "hit" && b.type === "hit"
    ? a.hit.file === b.hit.file && a.hit.entryId === b.hit.entryId
    : a.type === "session" && b.type === "session" && a.session.ref === b.session.ref;

/** Counts the sub-agents by the session that started them. */
function runsOf(listed: readonly ListedSession[]): Map<string, number> {
  const counts = new Map<string, number>();
  for (const { parent } of listed)
    if (parent?.kind === "subagent") counts.set(parent.sessionId, (counts.get(parent.sessionId) ?? 0) + 1);
  return counts;
}

const isCalled = (session: ListedSession, query: string): boolean =>
  titleOf(session).toLowerCase().includes(query) || projectOf(session.cwd).toLowerCase().includes(query);
