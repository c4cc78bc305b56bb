import { existsSync, statSync } from "node:fs";
import { resolve } from "node:path";
import {
  type Diagnosis,
  deleteSession,
  hasSession,
  type ListedSession,
  type ListOptions,
  lastTimeOf,
  listSessions,
  othersMayRead,
  type RepairReport,
  repairSession,
  type SearchHit,
  type SearchOptions,
  searchSessions,
} from "@espalier/engine";
import { nothingBilled, type UsageTotals } from "@espalier/engine/reading";
import { agentNames } from "@espalier/interop";
import { describeFound, foundSessions } from "@espalier/interop/node";
import { EspalierError } from "@espalier/jsonl-stream";
import { ID_LENGTH, type SessionRef, Tree } from "@espalier/session-tree";
import { removeUnsent } from "../chat/unsent-texts.ts";
import { type AddCommand, command, sessionCommand } from "../command.ts";
import { markOfParent, shortIds, shortSessionIds } from "../entry-reference.ts";
import { CommandError } from "../failure.ts";
import {
  costValue,
  formatBill,
  formatCount,
  formatMany,
  formatWhen,
  parseCount,
  parseSince,
  parseUntil,
} from "../numbers.ts";
import { sessionNamed, storeInUse, storeOf, tellSkipped, withLog, withSession } from "../opening.ts";
import {
  confirmOnTerminal,
  jsonLine,
  type Look,
  print,
  printLine,
  printLines,
  type Shell,
} from "../shell.ts";
import {
  AGENTS_IN_PLACE,
  aroundMatch,
  columnsOf,
  cutToColumns,
  padToColumns,
  plainLine,
  projectOf,
  titleOf,
} from "../text.ts";
import { costsOf } from "./costs.ts";

const FILTERS = [
  ["--since <time>", "only sessions updated since this time: 3d, 1w, 2m, 2026-11-20", parseSince],
  ["--until <time>", "only sessions not updated after this time", parseUntil],
  ["--project <folder>", "only sessions that worked in this folder or below it: its path, or just its name"],
  ["--agent <name>", "only sessions of this agent", agentNames],
] as const;

/**
 * Message for a folder without session files. It names the import, because files of other agents may be there, and
 * --project, because agents write the sessions of a folder somewhere else.
 */
function projectHint(search: string, folder: string): string {
  const word = /^[\w./~-]+$/.test(folder) ? folder : JSON.stringify(folder);
  return `No session files are in ${resolve(folder)}. Those of other agents need an import: \`espalier import ${word}\`. For the sessions that worked there: \`${search} --project ${word}\`.`;
}

/** Counts the runs of sub-agents that belong to the listed sessions and are not listed. */
function* viewHiddenRuns(shown: readonly ListedSession[], all: readonly ListedSession[]): Generator<string> {
  const ids = new Set(shown.map(({ id }) => id));
  const listed = new Set(shown.map(({ ref }) => ref));
  const runs = all.filter(
    ({ ref, parent }) => parent?.kind === "subagent" && ids.has(parent.sessionId) && !listed.has(ref),
  ).length;
  if (runs > 0)
    yield `and ${formatMany(runs, "run of a sub-agent", "runs of sub-agents")}: --sub-agents lists ${runs === 1 ? "it" : "them"}`;
}

/** Returns a function that shortens the ids of sessions; every command accepts the short forms. */
function sessionNames(all: readonly ListedSession[]): (id: string) => string {
  return shortSessionIds(all.flatMap(({ id, parent }) => [id, ...(parent ? [parent.sessionId] : [])]));
}

/** Names sessions of other agents on this machine, if all known ones are Pi's. Prints nothing with `--store`. */
async function tellOfOthers(shell: Shell): Promise<void> {
  if (shell.store || (await hasOwnSession(shell))) return;
  const found = foundSessions();
  if (found.length === 0) return;
  await printLine(shell, "");
  await printLine(shell, `Found on this machine: ${describeFound(found)}.`);
  await printLine(shell, "To list and search them here, run `espalier import`.");
}

/** JSON of a session. `parent` is present for a fork, and with `--parent` or `--sub-agents`. */
function listedValue(session: ListedSession, asked: ListOptions, bill: UsageTotals | undefined): object {
  const { id, ref: file, cwd, parent, importedFrom: _, ...told } = session;
  const isLinked = asked.subAgents || asked.parent !== undefined || parent?.kind === "fork";
  const linked = isLinked ? { parent } : {};
  return { id: id || null, file, cwd: cwd || null, ...told, ...linked, ...(bill ? costValue(bill) : {}) };
}

/** Maximum width of the table in columns, and its width when stdout is not a terminal. */
const WIDE = 160;

/** Minimum width of a title, and maximum width of a project, in columns. */
const TITLE_LENGTH = 20;
const PROJECT_LENGTH = 14;

/** Draws a table of sessions for people; no line for no session. */
function* viewList(
  sessions: readonly ListedSession[],
  { costs, names }: { costs?: ReadonlyMap<string, UsageTotals> | undefined; names: (id: string) => string },
  { colours, columns }: Look,
): Generator<string> {
  if (sessions.length === 0) return;
  const facts = sessions.map((session) => [
    ...factsOf(session, names),
    ...(costs ? [formatBill(costs.get(session.ref) ?? nothingBilled())] : []),
  ]);
  const headings = ["id", "updated", "agent", "project", ...(costs ? ["cost"] : [])];
  const widths = headings.map((heading, column) =>
    facts.reduce((width, cells) => Math.max(width, columnsOf(cells[column]!)), columnsOf(heading)),
  );
  const row = (cells: readonly string[]) =>
    cells.map((cell, column) => `${padToColumns(cell, widths[column]!)}  `).join("");
  const used = widths.reduce((sum, width) => sum + width + 2, 0);
  const room = Math.max(TITLE_LENGTH, Math.min(columns, WIDE) - used);
  yield colours.dim(`${row(headings)}session`);
  for (const [at, session] of sessions.entries()) {
    const about = cutToColumns(`${markOfParent(session.parent, names)}${titleOf(session)}`, room);
    yield `${row(facts[at]!)}${session.name === null ? colours.dim(about) : about}`;
  }
}

/** Formats the id, time, agent and project of a session. */
const factsOf = (session: ListedSession, names: (id: string) => string): string[] => [
  plainLine(names(session.id)),
  formatWhen(lastTimeOf(session), Date.now()),
  plainLine(session.agent),
  cutToColumns(projectOf(session.cwd), PROJECT_LENGTH),
];

async function allOf(sessions: AsyncIterable<ListedSession>): Promise<ListedSession[]> {
  const all: ListedSession[] = [];
  for await (const session of sessions) all.push(session);
  return all;
}

/** Moves sub-agents behind the session that started them, the earliest first. The input is newest first. */
export function underParents(all: readonly ListedSession[]): ListedSession[] {
  const ids = new Set(all.map(({ id }) => id));
  const beganBy = ({ parent }: ListedSession) =>
    parent?.kind === "subagent" && ids.has(parent.sessionId) ? parent.sessionId : undefined;
  const runs = new Map<string, ListedSession[]>();
  for (const session of all.toReversed()) {
    const id = beganBy(session);
    if (id !== undefined) runs.set(id, [...(runs.get(id) ?? []), session]);
  }
  const withRuns = (session: ListedSession): ListedSession[] => [
    session,
    ...(runs.get(session.id) ?? []).flatMap(withRuns),
  ];
  return all.filter((session) => beganBy(session) === undefined).flatMap(withRuns);
}

/** Returns whether the store has a session that is not Pi's own. */
async function hasOwnSession(shell: Shell): Promise<boolean> {
  for await (const { agent } of listSessions({ ...storeOf(shell), subAgents: true, ...tellSkipped(shell) }))
    if (agent !== "pi") return true;
  return false;
}

type SearchPlace = Pick<SearchOptions, "files" | "folder">;

/** Finds a word's folder, file or session. @throws CommandError `not-found`; the word may be a part of the query */
async function placeOf(shell: Shell, query: string, word: string): Promise<SearchPlace> {
  if (existsSync(word)) {
    const path = resolve(word);
    return statSync(path).isDirectory() ? { folder: path } : { files: [path] };
  }
  const quoted = `For a query of several words, use quotes: \`espalier search ${JSON.stringify(`${query} ${word}`)}\`.`;
  const ref = await sessionNamed(shell.store, word).catch((error: unknown) => {
    if (error instanceof CommandError) throw new CommandError(error.code, `${error.message} ${quoted}`);
    throw error;
  });
  if (!(await hasSession(storeInUse(shell), ref))) {
    const none = `${JSON.stringify(word)} is no folder, file or session.`;
    throw new CommandError("not-found", `${none} ${quoted}`);
  }
  return { files: [typeof ref === "string" ? ref : "file" in ref ? ref.file : ref.id] };
}

/** Minimum width of the text around a match, and width of a role, in columns. */
const SNIPPET_LENGTH = 24;
const ROLE_LENGTH = 10;

/**
 * Returns a function that draws the lines of a hit, with short ids; `undefined` ends the search. When several sessions
 * are searched, the first hit of each session has a line with the session's id, time, agent, project and title before
 * it. Hits on copied entries are counted in one line after the other hits of their session.
 */
async function hitView(
  shell: Shell,
  query: string,
  { folder, files }: SearchPlace,
): Promise<(hit: SearchHit | undefined) => Promise<string[]>> {
  const { colours, columns } = shell;
  const place = folder === undefined ? storeOf(shell) : { folder };
  const all = files ? [] : await allOf(listSessions({ ...place, subAgents: true, ...tellSkipped(shell) }));
  const names = sessionNames(all);
  const sessions = new Map(all.map((session) => [session.ref, session]));
  let last: string | undefined;
  let short: ((id: string) => string) | undefined;
  let copies: SearchHit[] = [];
  return async (hit) => {
    const heading: string[] = [];
    if (last !== hit?.file) {
      short = undefined;
      heading.push(...viewCopies(copies, sessions, names).map(colours.dim));
      copies = [];
    }
    if (!hit) return heading;
    const { file, entryId, role, snippet, onPath } = hit;
    if (last !== file) {
      const session = sessions.get(file);
      if (session) heading.push(...(last === undefined ? [] : [""]), viewFound(session, names, shell));
      last = file;
    }
    if (hit.sameAs) {
      copies.push(hit);
      return heading;
    }
    // Only long ids are shortened, so most sessions are not read again.
    if (entryId.length > ID_LENGTH) short ??= await entryNames(shell, file);
    const indent = files ? "" : "  ";
    const mark = onPath ? "" : " (another branch)";
    const place = `${indent}${plainLine(short?.(entryId) ?? entryId)}  `;
    const room = columns - columnsOf(`${place}${plainLine(role).padEnd(ROLE_LENGTH)}${mark}  `);
    const words = aroundMatch(plainLine(snippet), query, Math.max(SNIPPET_LENGTH, room));
    const who = `${colours.cyan(plainLine(role).padEnd(mark ? 0 : ROLE_LENGTH))}${colours.dim(mark)}`;
    return [...heading, `${colours.dim(place)}${who}  ${words}`];
  };
}

/** Counts the hits of a session on copied entries, and names the sessions whose hits show these entries. */
function viewCopies(
  copies: readonly SearchHit[],
  sessions: ReadonlyMap<string, ListedSession>,
  names: (id: string) => string,
): string[] {
  const counts = new Map<string, number>();
  for (const { sessionId, sameAs } of copies) {
    // A file for another agent can have the id of the session that it continues.
    const agent = sameAs!.sessionId === sessionId ? sessions.get(sameAs!.file)?.agent : undefined;
    const name = `${names(sameAs!.sessionId)}${agent === undefined ? "" : ` (${agent})`}`;
    counts.set(name, (counts.get(name) ?? 0) + 1);
  }
  return [...counts].map(
    ([name, count]) => `  ${formatMany(count, "entry", "entries")}, the same as in ${plainLine(name)}`,
  );
}

function viewFound(session: ListedSession, names: (id: string) => string, { colours, columns }: Look) {
  const facts = factsOf(session, names).filter((fact) => fact !== "");
  const title = `${markOfParent(session.parent, names)}${titleOf(session)}`;
  return colours.bold(cutToColumns([...facts, title].join("  "), Math.min(columns, WIDE)));
}

/** Reads the ids of a session's entries; returns a function that shortens them. */
const entryNames = (shell: Shell, file: string): Promise<(id: string) => string> =>
  withLog(storeInUse(shell), { file }, async (log) => shortIds(new Tree(await log.load()).ids()));

async function idOf(shell: Shell, ref: SessionRef): Promise<string | undefined> {
  try {
    return await withLog(storeInUse(shell), ref, ({ header }) => header?.id);
  } catch (error) {
    // An unreadable session can be deleted.
    if (error instanceof EspalierError && error.code !== "not-found") return undefined;
    throw error;
  }
}

/** Lists forks and sub-agents of a deleted session; none while a copy of that session exists. */
async function orphansOf(shell: Shell, parentId: string): Promise<string[]> {
  const orphans: string[] = [];
  for await (const { id, ref, parent } of listSessions({
    ...storeOf(shell),
    ...tellSkipped(shell),
    subAgents: true,
  })) {
    if (id === parentId) return [];
    if (parent?.sessionId === parentId) orphans.push(ref);
  }
  return orphans;
}

async function confirm(shell: Shell, ref: string): Promise<void> {
  if (!shell.interactive)
    throw new CommandError("confirm", "A deleted session cannot be restored; add --yes to delete it.");
  const question = await withSession(shell, "read", ref, async ({ file, name, tree }) =>
    plainLine(
      `Delete ${file}${name ? ` (${name})` : ""} with ${formatMany(tree.length, "entry", "entries")}?`,
    ),
  );
  if (!(await confirmOnTerminal(question))) throw new CommandError("confirm", "Nothing was deleted.");
}

function* viewDiagnosis({ colours }: Shell, { ok, entries, issues }: Diagnosis): Generator<string> {
  const placed = issues.map(({ kind, line, offset, id, message }) => {
    const byte = `byte ${formatCount(offset)}`;
    const place = line === null ? byte : `line ${formatCount(line)}, ${byte}`;
    return { kind, place, text: plainLine(id ? `${id}: ${message}` : message) };
  });
  const widest = (column: "kind" | "place") =>
    placed.reduce((width, issue) => Math.max(width, issue[column].length), 0);
  const [kinds, places] = [widest("kind"), widest("place")];
  for (const { kind, place, text } of placed)
    yield `${colours.yellow(kind.padEnd(kinds))}  ${colours.dim(place.padEnd(places))}  ${text}`;
  const usable = `${formatMany(entries, "entry", "entries")} can be used`;
  yield ok
    ? colours.green(`The session is sound: ${usable}.`)
    : `${usable}; ${formatMany(issues.length, "issue")}.`;
}

function* viewRepair({ file, report, entries, issues, changes, lost }: RepairReport): Generator<string> {
  const bytes = lost.reduce((sum, { length }) => sum + length, 0);
  yield `The repaired copy is ${file}: ${formatMany(entries, "entry", "entries")}, ${formatMany(issues.length, "issue")} repaired.`;
  yield `${formatMany(changes.length, "change")} to readable lines; ${formatMany(bytes, "byte")} were lost.`;
  yield `The report is in ${report}; the session itself was only read.`;
}

/** Commands that find, check and delete sessions. */
export const sessionsCommands: readonly AddCommand[] = [
  command({
    usage: "list [folder]",
    description: `list sessions, newest first: of a folder, or by default all of Espalier and ${AGENTS_IN_PLACE}`,
    options: [
      ...FILTERS,
      ["--sub-agents", "list sub-agents too"],
      [
        "--cost",
        "show the cost of each session with its sub-agents, of a fork since its beginning; reads every session completely",
      ],
      ["--parent <id>", "only forks and sub-agents of this session; the beginning of its id is enough"],
    ],
    examples: [
      "espalier list",
      "espalier list --since 1w --agent claude-code",
      "espalier list ~/.pi/agent/sessions --json | jq -r .file",
      "espalier list --parent 3kq7",
    ],
    async run({ shell, options: { cost: isPriced = false, ...options } }, folder) {
      if (folder !== undefined && !existsSync(folder))
        throw new CommandError("not-found", `There is no folder ${folder}; check the path.`);
      if (folder !== undefined && !statSync(folder).isDirectory())
        throw new CommandError(
          "usage",
          `${folder} is not a folder; \`espalier tree ${folder}\` shows a session.`,
        );
      const place = folder === undefined ? storeOf(shell) : { folder: resolve(folder) };
      const costs = isPriced ? await costsOf(shell, place) : undefined;
      let isWhole = true;
      const onSkipped: ListOptions["onSkipped"] = (_, { message }) => {
        isWhole = false;
        shell.complainOnce(message);
      };
      const sessions = listSessions({ ...place, ...options, onSkipped });
      if (shell.json) {
        for await (const session of sessions)
          await shell.output.writeLine(jsonLine(listedValue(session, options, costs?.get(session.ref))));
        return;
      }
      const listed = await allOf(sessions);
      const shown = options.subAgents ? underParents(listed) : listed;
      // Short names are unique among all sessions, even when only some are shown.
      const all = await allOf(listSessions({ ...place, subAgents: true, onSkipped }));
      await printLines(shell, viewList(shown, { costs, names: sessionNames(all) }, shell));
      if (!options.subAgents) await printLines(shell, viewHiddenRuns(shown, all));
      // The sessions may be in a place that was skipped.
      if (shown.length === 0 && !isWhole) shell.exitCode = 1;
      else if (shown.length === 0)
        await printLine(
          shell,
          folder !== undefined && all.length === 0
            ? projectHint("espalier list", folder)
            : Object.keys(options).length > 0
              ? "No session matches; `espalier list` lists all."
              : "There are no sessions here.",
        );
      if (isWhole && folder === undefined && listed.every(({ agent }) => agent === "pi"))
        await tellOfOthers(shell);
    },
  }),
  command({
    usage: "search <query> [place]",
    description: "search a session, the sessions below a folder, or by default all of Espalier and Pi",
    options: [
      ...FILTERS,
      ["--limit <count>", "stop after this many", parseCount],
      ["--case-sensitive", "distinguish upper and lower case"],
    ],
    notes: `The query is literal text: put several words between quotes. It is searched for in messages, calls with their
arguments, results and summaries, on all branches and behind compactions, but not in the model's thoughts. The newest
sessions come first. An entry that a fork copied is one hit. A place is a folder, a file, or the id of a session.
\`espalier history\` searches one session for words in any order. As with grep, the exit code is 1 when nothing is found.`,
    examples: [
      'espalier search "disk full" --since 1w',
      "espalier search merge 1284c080",
      "espalier search cache-control ~/old-sessions --limit 20",
      "espalier search flaky session.jsonl --json | jq -r .entryId",
    ],
    async run({ shell, options }, query, word) {
      const place = word === undefined ? {} : await placeOf(shell, query, word);
      const { limit = Number.POSITIVE_INFINITY, ...filters } = options;
      const found = searchSessions(query, { ...storeOf(shell), ...filters, ...place, ...tellSkipped(shell) });
      const view = shell.json ? undefined : await hitView(shell, query, place);
      let count = 0;
      for await (const hit of found) {
        // In the output for people, a copy is not counted as a hit.
        if (!view || !hit.sameAs) count++;
        if (view) await printLines(shell, await view(hit));
        else await shell.output.writeLine(jsonLine({ ...hit, sessionId: hit.sessionId || null }));
        // On a terminal, hits appear during the search.
        if (Number.isFinite(shell.columns)) await shell.output.flush();
        if (count >= limit) break;
      }
      if (view) await printLines(shell, await view(undefined));
      if (count > 0) return;
      shell.exitCode = 1;
      if (shell.json) return;
      await printLine(shell, "Nothing was found.");
      if (word === undefined) return tellOfOthers(shell);
      if (place.folder === undefined) return;
      const { done: isEmpty } = await listSessions({ folder: place.folder, subAgents: true }).next();
      if (isEmpty) await printLine(shell, projectHint(`espalier search ${JSON.stringify(query)}`, word));
    },
  }),
  command({
    usage: "delete <session>",
    description: "delete a session's file and all files that belong to it; this cannot be undone",
    options: [["--yes", "do not ask"]],
    examples: ["espalier delete session.jsonl --yes"],
    async run({ shell, options: { yes = false } }, ref) {
      const named = await sessionNamed(shell.store, ref);
      const id = await idOf(shell, named);
      if (!yes) await confirm(shell, ref);
      const deleted = await deleteSession(named, storeOf(shell));
      for (const file of deleted) removeUnsent(file);
      const orphans = id ? await orphansOf(shell, id) : [];
      return {
        value: { deleted, orphans: orphans.length > 0 ? orphans : undefined },
        lines: [
          ...deleted.map((file) => `Removed ${file}`),
          ...orphans.map(
            (file) =>
              `${file} was forked from the deleted session and stays complete; its parent no longer exists.`,
          ),
        ],
      };
    },
  }),
  sessionCommand({
    usage: "doctor <session>",
    description: "check every line and report errors with line and offset; exit 1 if there are any",
    options: [["--repair <file>", "write a repaired copy to this file, and a report next to it"]],
    examples: ["espalier doctor session.jsonl", "espalier doctor session.jsonl --repair repaired.jsonl"],
    use: "read",
    async run({ session, shell, ref, options: { repair } }) {
      if (repair !== undefined) {
        const report = await repairSession(session.log, repair);
        return { value: report, lines: viewRepair(report) };
      }
      if (othersMayRead(session.file))
        shell.complain(`Other users of this machine can read ${session.file}; \`chmod 600\` prevents this.`);
      const diagnosis = session.diagnose();
      if (!diagnosis.ok) shell.exitCode = 1;
      await print(shell, diagnosis, viewDiagnosis(shell, diagnosis));
      if (!diagnosis.ok && !shell.json)
        shell.complain(`\`espalier doctor ${ref} --repair <file>\` writes a repaired copy.`);
    },
  }),
];
