import { existsSync, realpathSync, statSync } from "node:fs";
import { join, resolve } from "node:path";
import { generateSummary } from "@espalier/compaction";
import { copySession, espalierHome, openStore } from "@espalier/engine";
import {
  foundSessions,
  type ImportOptions,
  type ImportReport,
  importSessions,
  localAgents,
  type Summarize,
} from "@espalier/interop/node";
import { EspalierError } from "@espalier/jsonl-stream";
import type { SessionRef, SessionStore } from "@espalier/session-tree";
import { fileStore, sessionFileName } from "@espalier/session-tree/node";
import { type AddCommand, command } from "../command.ts";
import { markOfParent } from "../entry-reference.ts";
import { CommandError } from "../failure.ts";
import { DATE_LENGTH, formatCount, formatMany, formatTime } from "../numbers.ts";
import { readySummarizer, sessionNamed, storeInUse, withLog } from "../opening.ts";
import { startProgress } from "../progress.ts";
import { type Look, printStep, printWrapped, type Shell } from "../shell.ts";
import {
  columnsOf,
  cutToColumns,
  IMPORTED_AGENTS,
  NO_PROMPT,
  padToColumns,
  plainLine,
  projectOf,
} from "../text.ts";

/** Returns the agents with sessions on this machine, or with an unreadable folder, which their import names. */
export function foundAgents(): Set<string> {
  const agents = new Set<string>();
  for (const { agent } of foundSessions(process.env, (unreadable) => agents.add(unreadable)))
    agents.add(agent);
  return agents;
}

const isUnreadable = ({ issues }: ImportReport): boolean => issues.some(({ kind }) => kind === "unreadable");

async function importAll(shell: Shell, what: string, options: Pick<ImportOptions, "cwd" | "redact">) {
  const summarize = summaryWriter(shell);
  const progress = startProgress(shell, `Import of ${what}`);
  const reports: ImportReport[] = [];
  try {
    const imports = importSessions(what, {
      store: storeInUse(shell),
      ...options,
      ...(summarize ? { summarize } : {}),
      onProgress: ({ index, total }) => progress.tell(`file ${index + 1} of ${total}`),
    });
    for await (const report of imports) {
      reports.push(report);
      // Unchanged sessions are counted at the end. A session in several files grows with each of them.
      if (report.status === "unchanged" && !shell.json) continue;
      progress.clear();
      await printStep(shell, report, () => viewImport(report, shell));
    }
  } finally {
    progress.stop();
  }
  return reports;
}

/** Writer of summaries that the source encrypted. Undefined without --summarizer: imports cost nothing by default. */
function summaryWriter(shell: Shell): Summarize | undefined {
  if (shell.globals.summarizer === undefined) return undefined;
  return async (messages) => {
    const { text } = await generateSummary(messages, { summarizer: await readySummarizer(shell) });
    return text;
  };
}

/** Width in columns of a session's title when stdout is not a terminal, and of its project. */
const TITLE_WIDTH = 60;
const PROJECT_WIDTH = 14;

/** Draws one line for one session: status, date, project, title, size. */
function viewImport(report: ImportReport, { colours, columns }: Look): string {
  const { status, source, title, updatedAt, cwd, parent, entries, added, branches, compactions } = report;
  const word = status.padEnd(9);
  if (status === "skipped") return `${colours.yellow(word)} ${plainLine(source)}`;
  const sizes = [
    status === "updated"
      ? formatMany(added, "new entry", "new entries")
      : formatMany(entries, "entry", "entries"),
    ...(branches > 1 ? [formatMany(branches, "branch", "branches")] : []),
    ...(compactions > 0 ? [formatMany(compactions, "compaction")] : []),
  ];
  const size = `(${sizes.join(", ")})`;
  const facts = [
    colours.green(word),
    formatTime(updatedAt).slice(0, DATE_LENGTH).padEnd(DATE_LENGTH),
    padToColumns(cutToColumns(projectOf(cwd ?? ""), PROJECT_WIDTH), PROJECT_WIDTH),
  ].join("  ");
  const room = Number.isFinite(columns)
    ? columns - columnsOf(`${word}  ${" ".repeat(DATE_LENGTH + 2 + PROJECT_WIDTH + 2)}${size}`) - 2
    : TITLE_WIDTH;
  const words = cutToColumns(
    `${markOfParent(parent)}${plainLine(title ?? "") || NO_PROMPT}`,
    Math.max(NARROWEST, room),
  );
  return `${facts}  ${words}  ${colours.dim(size)}`;
}

/** Minimum width of a title in columns. */
const NARROWEST = 20;

/** Report of a whole import: one line for each reason why content was changed or left out, then the totals. */
function* viewImports(reports: readonly ImportReport[], { colours }: Pick<Shell, "colours">) {
  if (reports.some(({ status }) => status !== "unchanged")) yield "";
  // A session in several files is read again for each of them, although nothing changed.
  const changed = reports.filter(({ status }) => status !== "unchanged");
  const known = groupIssues(changed).filter(({ kind }) => SAYS_NOTHING.has(kind));
  for (const { kind, message, lines, files } of groupIssues(reports)) {
    if (SAYS_NOTHING.has(kind)) continue;
    const where = [...(lines > 0 ? [formatMany(lines, "line")] : []), formatMany(files, "file")].join(" in ");
    yield `${colours.yellow("note")} ${plainLine(message)} ${colours.dim(`(${where})`)}`;
  }
  const lines = known.reduce((sum, group) => sum + group.lines, 0);
  if (lines > 0)
    yield colours.dim(
      `${formatMany(lines, "line")} left out: bookkeeping of the agent, or duplicates of other lines. --json lists each.`,
    );
  yield importTotals(reports);
  yield* nextCommand(reports).map(colours.dim);
}

/** Names commands that show the imported sessions; empty when nothing was imported. */
function nextCommand(reports: readonly ImportReport[]): string[] {
  const imported = reports.filter(({ added }) => added > 0);
  const [id, ...others] = new Set(imported.flatMap(({ sessionId }) => sessionId ?? []));
  if (id === undefined) return [];
  return others.length === 0
    ? [`\`espalier open ${plainLine(id)}\` shows it.`]
    : ["`espalier` lists them, newest first; `espalier search <text>` finds a message."];
}

/** Kinds of issues about lines without content of the conversation, or with repeated content. */
const SAYS_NOTHING: ReadonlySet<string> = new Set(["bookkeeping", "repeats"]);

interface ImportedSession {
  isNew: boolean;
  isRun: boolean;
  added: number;
  entries: number;
}

/** Totals of an import in one sentence. Runs of sub-agents are counted apart, because a list does not show them by default. */
function importTotals(reports: readonly ImportReport[]): string {
  // Several files can belong to one session. The last report has all its entries.
  const sessions = new Map<string, ImportedSession>();
  for (const { sessionId, status, added, entries, parent } of reports) {
    if (sessionId === null) continue;
    const before = sessions.get(sessionId);
    sessions.set(sessionId, {
      isNew: status === "created" || before?.isNew === true,
      isRun: parent?.kind === "subagent",
      added: added + (before?.added ?? 0),
      entries,
    });
  }
  const all = [...sessions.values()];
  const entriesOf = (from: readonly ImportedSession[], key: "added" | "entries", noun = "entry") => {
    const sum = from.reduce((total, one) => total + one[key], 0);
    return formatMany(sum, noun, noun.replace(/y$/, "ies"));
  };
  const fresh = all.filter(({ isNew }) => isNew);
  const grown = all.filter(({ isNew, added }) => !isNew && added > 0);
  const unchanged = all.filter(({ added }) => added === 0);
  const skipped = reports.filter(({ status }) => status === "skipped").length;
  const parts: string[] = [];
  if (fresh.length > 0) parts.push(`${namesOf(fresh, "new session")} with ${entriesOf(fresh, "entries")}`);
  if (grown.length > 0)
    parts.push(`${namesOf(grown, "session")} with ${entriesOf(grown, "added", "new entry")}`);
  if (unchanged.length > 0)
    parts.push(`${namesOf(unchanged, "session")} unchanged (${entriesOf(unchanged, "entries")})`);
  if (skipped > 0) parts.push(`${formatMany(skipped, "file")} skipped`);
  const files = reports.length > all.length + skipped ? `${formatMany(reports.length, "file")}: ` : "";
  return `${files}${parts.join(", ")}.`;
}

/** Counts sessions and runs of sub-agents: `7 new sessions and 1 run of a sub-agent`. */
function namesOf(sessions: readonly ImportedSession[], noun: string): string {
  const runs = sessions.filter(({ isRun }) => isRun).length;
  const own = sessions.length - runs;
  return [
    ...(own > 0 ? [formatMany(own, noun)] : []),
    ...(runs > 0 ? [formatMany(runs, "run of a sub-agent", "runs of sub-agents")] : []),
  ].join(" and ");
}

function groupIssues(reports: readonly ImportReport[]) {
  const byMessage = new Map<string, { kind: string; message: string; lines: number; files: number }>();
  for (const { issues } of reports) {
    for (const { kind, message, count, lines } of issues) {
      const key = `${kind} ${message}`;
      const known = byMessage.get(key) ?? { kind, message, lines: 0, files: 0 };
      known.lines += lines === "" ? 0 : count;
      known.files++;
      byMessage.set(key, known);
    }
  }
  return [...byMessage.values()];
}

/** Returns whether two paths lead to one place. A folder copied to itself would get renamed sessions twice. */
const isSameFolder = (from: string, to: string): boolean =>
  existsSync(from) && existsSync(to) && realpathSync(from) === realpathSync(to);

const copyOne = (shell: Shell, source: CopyPlace, ref: SessionRef, target: CopyPlace): Promise<void> =>
  withLog(source.store, ref, async (log) => {
    const { folder } = target;
    const named = folder && log.header && join(folder, sessionFileName(log.header));
    const copy = await copySession(log, target.store, target.ref ?? named);
    await printStep(shell, { from: log.ref, ...copy }, () => {
      const how = copy.written === 0 ? "already existed" : `${formatMany(copy.written, "byte")} written`;
      return plainLine(`${log.ref} → ${copy.file} (${formatCount(copy.bytes)} bytes, ${how})`);
    });
  });

/** One end of a copy: a store, and a session in it. */
interface CopyPlace {
  store: SessionStore;
  /** True for files by path, and for ids in the home folder. */
  isFiles: boolean;
  /** Session in the store. Undefined: as a source, all sessions; as a target, a name that the store chooses. */
  ref?: string | undefined;
  /** Folder of the sessions; undefined for a store, and for one session. */
  folder?: string;
}

/** Matches the store of `--store` as a place, with or without a session. */
const OF_STORE = /^store:(.*)$/s;
const ADDRESS = /^[a-z][a-z0-9+.-]+:\/\//i;

/**
 * Parses a place: `store:` or `store:ID` in the store of --store; `postgres://…` or `postgres://…#ID`; a folder; a
 * file; the id of a session in a file.
 * @throws CommandError `usage`; EspalierError `address`
 */
async function copyPlace(shell: Shell, word: string): Promise<CopyPlace> {
  const ofStore = OF_STORE.exec(word);
  if (ofStore) {
    if (!shell.store) throw new CommandError("usage", "`store:` needs a store; name one by --store.");
    return inStore(shell.store, ofStore[1]!);
  }
  if (ADDRESS.test(word)) {
    const [address, ref = ""] = word.split("#", 2) as [string, string?];
    const name = decodeName(ref);
    return inStore(await openStore(address), name);
  }
  const home = espalierHome();
  if (!isFolder(word)) return { store: fileStore({ home }), isFiles: true, ref: word };
  const folder = resolve(word);
  return { store: fileStore({ home, folders: [folder] }), isFiles: true, folder };
}

function decodeName(ref: string): string {
  try {
    return decodeURIComponent(ref);
  } catch (cause) {
    const message = `The session name #${ref} is not percent-encoded; write %25 for a % in it.`;
    throw new CommandError("usage", message, { cause });
  }
}

const inStore = (store: SessionStore, ref: string): CopyPlace => ({
  store,
  isFiles: false,
  ref: ref === "" ? undefined : ref,
});

const isFolder = (path: string): boolean =>
  path.endsWith("/") || (existsSync(path) && statSync(path).isDirectory());

/** Commands that move sessions between places. */
export const transferCommands: readonly AddCommand[] = [
  command({
    usage: "import [what...]",
    description: `import sessions of other agents: ${localAgents.map(({ agent }) => agent).join(", ")}, or their files and folders; by default all of ${IMPORTED_AGENTS}`,
    options: [
      ["--all", "with the name of an agent: import its sessions of all folders, not only of this one"],
      ["--no-redact", "do not remove well-known keys and tokens from the copy"],
    ],
    notes: `For the name of an agent, its own folders are searched for sessions of the current folder; a path is imported whole.
Sources are only read. Importing again adds new entries.`,
    examples: [
      "espalier import",
      "espalier import claude-code",
      "espalier import ~/Downloads/*.jsonl",
      "espalier import ~/old-laptop/.claude/projects --json | jq -r .file",
    ],
    async run({ shell, options: { all = false, redact } }, what) {
      const reports: ImportReport[] = [];
      const sources = what.length === 0 ? [...foundAgents()] : what;
      if (sources.length === 0)
        throw new CommandError(
          "not-found",
          `${IMPORTED_AGENTS} have no sessions on this machine; name a file or folder: \`espalier import <path>\`.`,
        );
      for (const source of sources) {
        const isHere = what.length > 0 && !all && localAgents.some(({ agent }) => agent === source);
        const imported = await importAll(shell, source, {
          ...(isHere ? { cwd: process.cwd() } : {}),
          ...(redact ? {} : { redact: false }),
        });
        reports.push(...imported);
        // A session of this folder may be in a place that cannot be read; the report names it.
        if (isHere && imported.every((report) => report.status === "skipped" && !isUnreadable(report)))
          throw new CommandError(
            "not-found",
            `No session of ${source} worked in ${process.cwd()}; --all imports those of all folders.`,
          );
      }
      const isEmpty = reports.every(({ status }) => status === "skipped");
      if (!shell.json) await printWrapped(shell, viewImports(reports, shell));
      if (isEmpty) shell.exitCode = 1;
    },
  }),
  command({
    usage: "copy <from> <to>",
    description: "copy sessions between files and stores, byte for byte; a repeated copy adds new entries",
    notes: `A place is a file, a folder (all sessions in it), store: or store:ID (in the store of --store), or the address of a
database, with #ID for one of its sessions. A session in which \`espalier doctor\` finds an error is not copied.`,
    examples: [
      "espalier copy session.jsonl store:",
      "espalier copy store:LDY0PbhBuvRG out.jsonl",
      'espalier copy ~/.espalier/sessions/ "postgres://localhost/agents?namespace=me"',
    ],
    async run({ shell }, from, to) {
      if (isSameFolder(from, to))
        throw new CommandError("usage", `These sessions are already in ${to}; name another place.`);
      const source = await copyPlace(shell, from);
      const target = await copyPlace(shell, to);
      if (source.ref === undefined && target.ref !== undefined)
        throw new CommandError(
          "usage",
          "Several sessions cannot be copied to one name; name a folder (a new one ends with /) or a store.",
        );
      if (source.ref !== undefined) {
        const named = await sessionNamed(source.isFiles ? undefined : source.store, source.ref);
        return copyOne(shell, source, named, target);
      }
      for await (const { ref } of source.store.list()) {
        try {
          await copyOne(shell, source, { file: ref }, target);
        } catch (error) {
          // An error of one session does not stop the other copies.
          if (!(error instanceof EspalierError)) throw error;
          shell.complain(error.message);
          shell.exitCode = 1;
        }
      }
    },
  }),
];
