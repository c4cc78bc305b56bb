import { existsSync, statSync } from "node:fs";
import { basename, resolve } from "node:path";
import {
  type Diagnosis,
  deleteSession,
  type ListedSession,
  type ListOptions,
  listSessions,
  migrateStore,
  nothingBilled,
  othersMayRead,
  type RepairReport,
  repairSession,
  type SearchHit,
  type SearchOptions,
  type SessionStats,
  searchSessions,
  statsOf,
  type UsageTotals,
} from "@espalier/engine";
import { EspalierError } from "@espalier/jsonl-stream";
import { type SessionRef, Tree } from "@espalier/session-tree";
import { type Call, command, type OptionShape, type SessionCall, sessionCommand } from "../command.ts";
import { CommandError } from "../failure.ts";
import {
  costValue,
  formatAge,
  formatBill,
  formatCount,
  formatMany,
  parseCount,
  parseSince,
  parseUntil,
} from "../numbers.ts";
import { currentSettings, sessionNamed, storeInUse, storeOf, tellSkipped, withSession } from "../opening.ts";
import { confirmOnTerminal, jsonLine, print, printLine, printStep, type Shell } from "../shell.ts";
import {
  cutToColumns,
  lastTimeOf,
  markOfParent,
  padToColumns,
  plainLine,
  projectOf,
  titleOf,
} from "../text.ts";
import { billWithRuns } from "./costs.ts";

/** Filters of sessions, for `list` and `search`. */
type Filters = Pick<ListOptions, "agent" | "project" | "since" | "until">;

const FILTERS: readonly OptionShape[] = [
  ["--since <time>", "only sessions with an entry since this time: 3d, 1w, 2m, 2026-11-20", parseSince],
  ["--until <time>", "only sessions without an entry after this time", parseUntil],
  ["--project <folder>", "only sessions that worked in this folder or below it: its path, or just its name"],
  ["--agent <name>", "only sessions of this agent", ["espalier", "claude-code", "codex", "pi"]],
];

const list = command({
  usage: "list [folder]",
  description: "list sessions, newest first: of a folder, or by default all of Espalier and Pi",
  options: [
    ...FILTERS,
    ["--sub-agents", "list sub-agents too"],
    ["--cost", "show the cost of each session with its sub-agents; reads every session completely"],
    ["--parent <id>", "only forks and sub-agents of this session; the beginning of its id is enough"],
  ],
  examples: [
    "espalier list",
    "espalier list --since 1w --agent claude-code",
    "espalier list ~/.pi/agent/sessions --json | jq -r .file",
    "espalier list --parent 3kq7",
  ],
  async run(
    {
      shell,
      options: { cost: isPriced = false, ...options },
    }: Call<Filters & Pick<ListOptions, "subAgents" | "parent"> & { cost?: boolean }>,
    folder: string | undefined,
  ) {
    if (folder !== undefined && !existsSync(folder))
      throw new CommandError("not-found", `There is no folder ${folder}; check the path.`);
    if (folder !== undefined && !statSync(folder).isDirectory())
      throw new CommandError(
        "usage",
        `${folder} is not a folder; \`espalier tree ${folder}\` shows a session.`,
      );
    const place = folder === undefined ? storeOf(shell) : { folder: resolve(folder) };
    const costs = isPriced ? await costsOf(shell, place) : undefined;
    const sessions = listSessions({
      ...place,
      ...options,
      ...tellSkipped(shell),
    });
    if (shell.json)
      for await (const session of sessions)
        await shell.output.writeLine(jsonLine(listedValue(session, options, costs?.get(session.ref))));
    else {
      let ownCount = 0;
      const counted = counting(sessions, () => ownCount++);
      const shown = options.subAgents ? underParents(await allOf(counted)) : counted;
      const none =
        Object.keys(options).length > 0
          ? "No session matches; `espalier list` lists all."
          : "There are no sessions here.";
      for await (const line of viewList(shown, { none, costs }, shell)) await printLine(shell, line);
      if (folder === undefined && ownCount === 0) await tellOfOthers(shell);
    }
  },
});

/** Yields the same sessions, and calls back for each session that is not Pi's own. */
async function* counting(
  sessions: AsyncIterable<ListedSession>,
  onOwn: () => void,
): AsyncGenerator<ListedSession> {
  for await (const session of sessions) {
    if (session.agent !== "pi") onOwn();
    yield session;
  }
}

/** Prints the number of sessions that an import would add, if the store has only sessions of Pi. */
async function tellOfOthers(shell: Shell): Promise<void> {
  if (shell.store || (await hasOwnSession(shell))) return;
  const { describeFound, foundSessions } = await import("@espalier/interop/node");
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

/** Returns the cost of each session of a list with its sub-agents, by the session's name in its store. */
async function costsOf(
  shell: Shell,
  place: Pick<ListOptions, "folder" | "store">,
): Promise<Map<string, UsageTotals>> {
  const { prices } = (await currentSettings(shell)).values;
  const store = place.store ?? storeInUse(shell);
  const all: { listing: ListedSession; stats: SessionStats }[] = [];
  for await (const listing of listSessions({ ...place, ...tellSkipped(shell), subAgents: true })) {
    const log = await store.open({ file: listing.ref }, "read");
    try {
      all.push({ listing, stats: statsOf(new Tree(await log.load()), undefined, prices) });
    } finally {
      await log.close();
    }
  }
  const whole = ({ listing, stats }: (typeof all)[number], seen: ReadonlySet<string>): UsageTotals => {
    const runs = all.filter(
      ({ listing: { id, parent } }) =>
        parent?.kind === "subagent" && parent.sessionId === listing.id && !seen.has(id),
    );
    return billWithRuns(
      stats,
      runs.map((run) => ({
        cost: whole(run, new Set([...seen, run.listing.id])),
        isOfClaudeCode: run.listing.importedFrom === "claude-code",
      })),
    );
  };
  return new Map(all.map((one) => [one.listing.ref, whole(one, new Set([one.listing.id]))]));
}

/** Width of the table in columns when stdout is not a terminal. */
const WIDE = 160;
const ID_LENGTH = 12;
const PROJECT_LENGTH = 14;
const COST_WIDTH = 9;

/** Width in columns of id, age, agent and project, with two spaces after each. */
const FACTS_WIDTH = ID_LENGTH + 2 + 8 + 2 + 11 + 2 + PROJECT_LENGTH + 2;

/** Draws a table of sessions for people. */
async function* viewList(
  sessions: AsyncIterable<ListedSession> | Iterable<ListedSession>,
  { none, costs }: { none: string; costs: ReadonlyMap<string, UsageTotals> | undefined },
  { colours, columns }: Pick<Shell, "colours" | "columns">,
  now = Date.now(),
): AsyncGenerator<string> {
  const costWidth = costs ? COST_WIDTH + 2 : 0;
  const room = Math.max(20, Math.min(columns, WIDE) - FACTS_WIDTH - costWidth);
  let count = 0;
  for await (const session of sessions) {
    if (count++ === 0) yield colours.dim(row("id", "age", "agent", "project", costs && "cost", "session"));
    const { id, agent, name, cwd, parent } = session;
    const about = cutToColumns(`${markOfParent(parent)}${titleOf(session)}`, room);
    yield row(
      plainLine(id).slice(0, ID_LENGTH),
      formatAge(now - Date.parse(lastTimeOf(session))),
      plainLine(agent),
      cutToColumns(projectOf(cwd), PROJECT_LENGTH),
      costs && formatBill(costs.get(session.ref) ?? nothingBilled()),
      name === null ? colours.dim(about) : about,
    );
  }
  if (count === 0) yield none;
}

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

function row(
  id: string,
  age: string,
  agent: string,
  project: string,
  cost: string | undefined,
  about: string,
): string {
  const facts = [
    id.padEnd(ID_LENGTH),
    age.padStart(8),
    agent.padEnd(11),
    padToColumns(project, PROJECT_LENGTH),
    ...(cost === undefined ? [] : [cost.padStart(COST_WIDTH)]),
  ];
  return [...facts, about].join("  ");
}

const search = command({
  usage: "search <query> [folder]",
  description: "search the sessions below a folder, or by default all of Espalier and Pi",
  options: [
    ...FILTERS,
    ["--limit <count>", "stop after this many", parseCount],
    ["--case-sensitive", "distinguish upper and lower case"],
  ],
  notes: `The query is literal text. It is searched for in messages, calls with their arguments, results and summaries, on all
branches and behind compactions, but not in the model's thoughts; the newest sessions come first. Instead of a folder, the
file of one session can be named. As with grep, the exit code is 1 when nothing is found.`,
  examples: [
    'espalier search "disk full" --since 1w',
    "espalier search cache-control ~/old-sessions --limit 20",
    "espalier search flaky session.jsonl --json | jq -r .entryId",
  ],
  async run(
    { shell, options }: Call<Filters & { limit?: number; caseSensitive?: boolean }>,
    query: string,
    place: string | undefined,
  ) {
    const found = searchSessions(query, {
      ...options,
      ...(place === undefined ? storeOf(shell) : placeOf(place)),
      ...tellSkipped(shell),
    });
    let count = 0;
    for await (const hit of found) {
      count++;
      await printStep(shell, { ...hit, sessionId: hit.sessionId || null }, () => viewHit(hit, shell));
      // On a terminal, hits appear during the search.
      if (Number.isFinite(shell.columns)) await shell.output.flush();
    }
    if (count > 0) return;
    shell.exitCode = 1;
    if (shell.json) return;
    await printLine(shell, "Nothing was found.");
    if (place === undefined) await tellOfOthers(shell);
  },
});

/** Returns whether the store has a session that is not Pi's own. */
async function hasOwnSession(shell: Shell): Promise<boolean> {
  for await (const { agent } of listSessions({ ...storeOf(shell), subAgents: true }))
    if (agent !== "pi") return true;
  return false;
}

function placeOf(place: string): Pick<SearchOptions, "files" | "folder"> {
  if (!existsSync(place))
    throw new CommandError("not-found", `There is no file or folder ${place}; check the path.`);
  const path = resolve(place);
  return statSync(path).isDirectory() ? { folder: path } : { files: [path] };
}

/** Maximum length of an id or a file name in a line. */
const NAME_LENGTH = 12;

/** Draws one line for a hit: its session, its entry, and the text around it. */
function viewHit(
  { file, sessionId, entryId, role, snippet, onPath }: SearchHit,
  { colours }: Pick<Shell, "colours">,
): string {
  const session = (sessionId === "" ? basename(file) : sessionId).slice(0, NAME_LENGTH);
  const place = colours.dim(`${plainLine(session)}  ${plainLine(entryId)}`);
  const mark = onPath ? "" : colours.dim(" (another branch)");
  return `${place}  ${colours.cyan(plainLine(role))}${mark}  ${plainLine(snippet)}`;
}

const deleteCommand = command({
  usage: "delete <session>",
  description: "delete a session's file and all files that belong to it; this cannot be undone",
  options: [["--yes", "do not ask"]],
  examples: ["espalier delete session.jsonl --yes"],
  async run({ shell, options: { yes = false } }: Call<{ yes?: boolean }>, ref: string) {
    if (!yes) await confirm(shell, ref);
    const named = await sessionNamed(shell.store, ref);
    const id = await idOf(shell, named);
    const deleted = await deleteSession(named, storeOf(shell));
    const orphans = id ? await orphansOf(shell, id) : [];
    return {
      value: { deleted, ...(orphans.length > 0 ? { orphans } : {}) },
      lines: [
        ...deleted.map((file) => `Removed ${file}`),
        ...orphans.map(
          (file) =>
            `${file} was forked from the deleted session and stays complete; its parent no longer exists.`,
        ),
      ],
    };
  },
});

async function idOf(shell: Shell, ref: SessionRef): Promise<string | undefined> {
  try {
    const log = await storeInUse(shell).open(ref, "read");
    await log.close();
    return log.header?.id;
  } catch (error) {
    // An unreadable session can be deleted. A missing session is an error of deleteCommand.
    if (error instanceof EspalierError) return undefined;
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

const doctor = sessionCommand({
  usage: "doctor <session>",
  description: "check every line and report errors with line and offset; exit 1 if there are any",
  options: [["--repair <file>", "write a healed copy to this file, and a report next to it"]],
  examples: ["espalier doctor session.jsonl", "espalier doctor session.jsonl --repair healed.jsonl"],
  use: "read",
  async run({ session, shell, ref, options: { repair } }: SessionCall<{ repair?: string }>) {
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
      shell.complain(`\`espalier doctor ${ref} --repair <file>\` writes a healed copy.`);
  },
});

function* viewDiagnosis({ colours }: Shell, { ok, entries, issues }: Diagnosis): Generator<string> {
  for (const { kind, line, offset, id, message } of issues) {
    const byte = `byte ${formatCount(offset)}`;
    const place = line === null ? byte : `line ${formatCount(line)}, ${byte}`;
    yield `${colours.yellow(kind.padEnd(18))} ${colours.dim(place)} ${plainLine(id ? `${id}: ${message}` : message)}`;
  }
  const usable = `${formatMany(entries, "entry", "entries")} can be used`;
  yield ok
    ? colours.green(`The session is sound: ${usable}.`)
    : `${usable}; ${formatMany(issues.length, "issue")}.`;
}

function* viewRepair({ file, report, entries, issues, changes, lost }: RepairReport): Generator<string> {
  const bytes = lost.reduce((sum, { length }) => sum + length, 0);
  yield `The healed copy is ${file}: ${formatMany(entries, "entry", "entries")}, ${formatMany(issues.length, "issue")} repaired.`;
  yield `${formatMany(changes.length, "change")} to readable lines; ${formatMany(bytes, "byte")} were lost.`;
  yield `The report is in ${report}; the session itself was only read.`;
}

const storeCommand = command({
  usage: "store <action>",
  description: "set up the store of --store: migrate creates its tables, or updates them",
  examples: ["ESPALIER_STORE=postgres://localhost/agents espalier store migrate"],
  async run({ shell }: Call<object>, action: string) {
    if (action !== "migrate") throw new CommandError("usage", "expected an action for the store: migrate.");
    const { store } = shell.globals;
    if (store === undefined) throw new CommandError("usage", "Name the store by --store or ESPALIER_STORE.");
    const report = await migrateStore(store);
    for (const warning of report.warnings) shell.complain(warning);
    const { applied, place, version } = report;
    const line =
      applied.length > 0
        ? `${place} was updated to version ${version}: ${applied.join(", ")}.`
        : `${place} is up to date.`;
    return { value: report, lines: [line] };
  },
});

/** Commands that find sessions, and look after them and their stores. */
export const sessionsCommands = [list, search, doctor, deleteCommand, storeCommand] as const;
