import { existsSync, realpathSync, statSync } from "node:fs";
import { basename, join, resolve } from "node:path";
import { generateSummary } from "@espalier/compaction";
import { copySession, espalierHome, openStore, type Session } from "@espalier/engine";
import { type ExportFormat, exportSession } from "@espalier/interop";
import {
  type ImportOptions,
  type ImportReport,
  importSessions,
  localAgents,
  type Summarize,
} from "@espalier/interop/node";
import type { EspalierErrorCode } from "@espalier/jsonl-stream";
import { EspalierError } from "@espalier/jsonl-stream";
import { redactText, type SessionHeader, type SessionRef, type SessionStore } from "@espalier/session-tree";
import { fileStore, sessionFileName } from "@espalier/session-tree/node";
import { type Command, Option } from "commander";
import { entryNamed } from "../entry-reference.ts";
import { CommandError } from "../failure.ts";
import { formatCount, formatMany } from "../numbers.ts";
import { reading, readySummarizer, sessionNamed, storeInUse, warnOfDamage } from "../opening.ts";
import { startProgress } from "../progress.ts";
import { print, printLines, printStep, type Shell } from "../shell.ts";
import { plainLine, plainText } from "../text.ts";
import { exportHtml, writeExport } from "../write-export.ts";

export function addImport(program: Command, shell: Shell): void {
  program
    .command("import <what>")
    .description("bring sessions of other agents here: claude-code, codex, pi, or a file or folder of theirs")
    .option("--all", "those of all folders, not only of agents that worked in this one")
    .option("--no-redact", "keep well-known keys and tokens where the source has them")
    .addHelpText(
      "after",
      `
Where an agent is named, its own folders are looked through for sessions of the folder you are in; what a path names is
imported whole. Sources are only read. Importing again adds what is new.

Examples:
  espalier import claude-code
  espalier import codex --all
  espalier import ~/old-laptop/.claude/projects --json | jq -r .file`,
    )
    .action(async (what: string, { all = false, redact }: { all?: boolean; redact: boolean }) => {
      const isHere = !all && localAgents.some(({ agent }) => agent === what);
      const reports = await importAll(shell, what, {
        ...(isHere ? { cwd: process.cwd() } : {}),
        ...(redact ? {} : { redact: false }),
      });
      if (isHere && reports.every(({ status }) => status === "skipped"))
        throw new CommandError(
          "not-found",
          `No session of ${what} worked in ${process.cwd()}; --all imports those of all folders.`,
        );
      if (!shell.json) await printLines(shell, viewImports(reports, shell));
      if (reports.every(({ status }) => status === "skipped")) shell.exitCode = 1;
    });
}

async function importAll(
  shell: Shell,
  what: string,
  options: Pick<ImportOptions, "cwd" | "redact">,
): Promise<ImportReport[]> {
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
      progress.clear();
      await printStep(shell, report, () => viewImport(report, shell));
    }
  } finally {
    progress.stop();
  }
  return reports;
}

/** Only who names a summarizer has summaries written that can only be read elsewhere: an import asks nobody by itself. */
function summaryWriter(shell: Shell): Summarize | undefined {
  if (shell.globals.summarizer === undefined) return undefined;
  return async (messages) => {
    const { text } = await generateSummary(messages, { summarizer: await readySummarizer(shell) });
    return text;
  };
}

/** One line for one session. */
function viewImport(report: ImportReport, { colours }: Pick<Shell, "colours">): string {
  const { status, source, sessionId, entries, added, branches, compactions } = report;
  const word = status.padEnd(9);
  if (status === "skipped") return `${colours.yellow(word)} ${colours.dim(plainLine(source))}`;
  const news = status === "updated" ? ` (${formatCount(added)} new)` : "";
  const size = `${formatMany(entries, "entry", "entries")}${news}, ${formatMany(branches, "branch", "branches")}`;
  const compacted = compactions > 0 ? `, ${formatMany(compactions, "compaction")}` : "";
  const told = status === "unchanged" ? colours.dim(word) : colours.green(word);
  return `${told} ${plainLine(sessionId ?? "")}  ${size}${compacted}  ${colours.dim(plainLine(source))}`;
}

/** The report of a whole import: the sums, and what could not be mapped as it stood, one line for each reason. */
function* viewImports(
  reports: readonly ImportReport[],
  { colours }: Pick<Shell, "colours">,
): Generator<string> {
  yield "";
  for (const { kind, message, lines, files } of noticed(reports)) {
    const where = [...(lines > 0 ? [formatMany(lines, "line")] : []), formatMany(files, "file")].join(" in ");
    yield `${colours.yellow(kind.padEnd(18))} ${plainLine(message)} ${colours.dim(`(${where})`)}`;
  }
  // Several files can tell of one session: the last one has seen all of it.
  const sessions = [...new Map(reports.map((report) => [report.file ?? "", report])).values()];
  const sum = (from: readonly ImportReport[], count: (report: ImportReport) => number) =>
    from.reduce((total, report) => total + count(report), 0);
  const entries = formatMany(
    sum(sessions, ({ entries: all }) => all),
    "entry",
    "entries",
  );
  yield [
    formatMany(sessions.filter(({ file }) => file !== null).length, "session"),
    `${entries} (${formatCount(sum(reports, ({ added }) => added))} new)`,
    formatMany(
      sum(sessions, ({ branches }) => branches),
      "branch",
      "branches",
    ),
    formatMany(
      sum(sessions, ({ compactions }) => compactions),
      "compaction",
    ),
  ].join(", ");
}

interface Noticed {
  kind: string;
  message: string;
  lines: number;
  files: number;
}

/** The same thing in many files is told once. */
function noticed(reports: readonly ImportReport[]): Noticed[] {
  const byMessage = new Map<string, Noticed>();
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

interface ExportCommandOptions {
  format: ExportFormat | "html";
  at?: string;
  all?: boolean;
  redact?: boolean;
  out?: string;
}

/** The formats, and how the file is called where nobody says. */
const ENDINGS: Record<ExportCommandOptions["format"], string> = {
  html: "html",
  markdown: "md",
  json: "json",
  jsonl: "copy.jsonl",
  anthropic: "anthropic.json",
  openai: "openai.json",
  "openai-responses": "openai-responses.json",
  "ai-sdk": "ai-sdk.json",
};

/** Formats that hold the whole session, unless one path is asked for. */
const HOLDS_ALL: ReadonlySet<string> = new Set(["html", "json", "jsonl"]);

export function addExport(program: Command, shell: Shell): void {
  program
    .command("export <session>")
    .description("write a session for people, for other programs, or as the request that its context makes")
    .addOption(
      new Option("--format <format>", "what to write").choices(Object.keys(ENDINGS)).makeOptionMandatory(),
    )
    .option("--at <id>", "the path that ends here; by default the leaf's, and for html, json and jsonl all")
    .option("--all", "with markdown all branches; html, json and jsonl hold them without it")
    .option("--redact", "leave out well-known keys and tokens")
    .option("--out <file>", "where to write it, readable for you alone; by default it is printed")
    .addHelpText(
      "after",
      `
With --json and no --out the file is named after the session, in this folder. A session is never written over.

Examples:
  espalier export session.jsonl --format markdown | less
  espalier export session.jsonl --format html --redact --out session.html
  espalier export session.jsonl --format anthropic --at before-cache`,
    )
    .action(async (ref: string, options: ExportCommandOptions) => {
      refuseNeedlessAll(options);
      await reading(shell, ref, async (session) => {
        warnOfDamage(shell, session, session.tree.issues);
        const pieces = await exported(session, options);
        const { out } = options;
        if (out === undefined && !shell.json) {
          // On a screen it is for a person; anywhere else it is the document itself.
          const isScreen = Number.isFinite(shell.columns);
          for (const piece of pieces) await shell.output.write(isScreen ? plainText(piece) : piece);
          return;
        }
        const file = out ?? `${basename(session.file, ".jsonl")}.${ENDINGS[options.format]}`;
        const written = writeExport(file, pieces);
        await print(shell, written, () => [
          `${formatMany(written.entries, "entry", "entries")} written to ${plainLine(written.file)}.`,
        ]);
      });
    });
}

/** An option that would do nothing may stand for a wish that is not granted. */
function refuseNeedlessAll({ format, all }: ExportCommandOptions): void {
  if (!all || format === "markdown") return;
  const why = HOLDS_ALL.has(format)
    ? `${format} holds all branches without it`
    : "a request is made of one path, and --at says of which";
  throw new CommandError("usage", `Leave out --all, which is for markdown: ${why}.`);
}

async function exported(
  session: Session,
  { format, at, all, redact }: ExportCommandOptions,
): Promise<Generator<string, number>> {
  const options = {
    ...(at === undefined ? {} : { at: entryNamed(session, at) }),
    ...(redact ? { redact: redactText } : {}),
  };
  return format === "html"
    ? await exportHtml(session, options)
    : exportSession(session, { format, all, ...options });
}

export function addCopy(program: Command, shell: Shell): void {
  program
    .command("copy <from> <to>")
    .description("copy sessions between files and stores, byte for byte; again, and it adds what is missing")
    .addHelpText(
      "after",
      `
A place is a file, a folder (all sessions in it), store: or store:ID (in the store of --store), or the address of a
database, with #ID for one of its sessions. A session that \`espalier doctor\` finds fault with is not copied.

Examples:
  espalier copy session.jsonl store:
  espalier copy store:LDY0PbhBuvRG out.jsonl
  espalier copy ~/.espalier/sessions/ "postgres://localhost/agents?namespace=me"`,
    )
    .action(async (from: string, to: string) => {
      if (isSameFolder(from, to))
        throw new CommandError("usage", `${to} is where these sessions are already; name another place.`);
      const source = await copyPlace(shell, from);
      const target = await copyPlace(shell, to);
      if (source.ref === undefined && target.ref !== undefined)
        throw new CommandError(
          "usage",
          "Many sessions do not fit one name; copy to a folder or a store; the name of a new folder ends with /.",
        );
      if (source.ref !== undefined) {
        const named = await sessionNamed(source.isFiles ? undefined : source.store, source.ref);
        return copyOne(shell, source, named, target);
      }
      for await (const { ref } of source.store.list())
        await copyOrComplain(shell, source, { file: ref }, target);
    });
}

/** A folder copied to itself would have each session that is called otherwise twice. */
const isSameFolder = (from: string, to: string): boolean =>
  existsSync(from) && existsSync(to) && realpathSync(from) === realpathSync(to);

async function copyOne(shell: Shell, source: CopyPlace, ref: SessionRef, target: CopyPlace): Promise<void> {
  const log = await source.store.open(ref, "read");
  try {
    const name = target.ref ?? (log.header && target.nameOf(log.header));
    const copy = await copySession(log, target.store, name);
    await printStep(shell, { from: log.ref, ...copy }, () => {
      const how = copy.written === 0 ? "was there already" : `${formatMany(copy.written, "byte")} written`;
      return plainLine(`${log.ref} → ${copy.file} (${formatCount(copy.bytes)} bytes, ${how})`);
    });
  } finally {
    await log.close();
  }
}

/** Of many, one that cannot be copied keeps none of the others. */
async function copyOrComplain(
  shell: Shell,
  source: CopyPlace,
  ref: SessionRef,
  target: CopyPlace,
): Promise<void> {
  try {
    await copyOne(shell, source, ref, target);
  } catch (error) {
    const isDamaged = error instanceof Error && (error as { code?: unknown }).code === "damaged";
    if (!isDamaged && (!(error instanceof EspalierError) || OF_THE_STORE.has(error.code))) throw error;
    shell.complain(error.message);
    shell.exitCode = 1;
  }
}

/** Codes of an error that every session of the store would have. */
const OF_THE_STORE: ReadonlySet<EspalierErrorCode> = new Set([
  "address",
  "not-installed",
  "not-migrated",
  "newer",
  "unsuitable",
  "refused",
  "unreachable",
  "timeout",
  "closed",
] satisfies EspalierErrorCode[]);

/** One end of a copy: a store, and which session in it. */
interface CopyPlace {
  store: SessionStore;
  /** Whether it is named as files are, by paths, and ids below the home. */
  isFiles: boolean;
  /** Undefined: all sessions, or whichever the store names. */
  ref: string | undefined;
  /** What a session is called here when nobody names it; undefined leaves it to the store. */
  nameOf(header: SessionHeader): string | undefined;
}

/** How the store of `--store` is written as a place, with or without a session. */
const OF_STORE = /^store:(.*)$/s;
const DATABASE = /^postgres(ql)?:\/\//i;

/**
 * The place that a word names: `store:` or `store:ID` in the store of --store; `postgres://…` or `postgres://…#ID`; a
 * folder; a file; the id of a session in a file.
 * @throws CommandError `usage`; EspalierError `address`
 */
async function copyPlace(shell: Shell, word: string): Promise<CopyPlace> {
  const ofStore = OF_STORE.exec(word);
  if (ofStore) {
    if (!shell.store) throw new CommandError("usage", "`store:` is the store of --store; name one.");
    return inStore(shell.store, ofStore[1]!);
  }
  if (DATABASE.test(word)) {
    const [address, ref = ""] = word.split("#", 2) as [string, string?];
    const name = decoded(ref);
    return inStore(await openStore(address), name);
  }
  const home = espalierHome();
  if (!isFolder(word))
    return { store: fileStore({ home }), isFiles: true, ref: word, nameOf: () => undefined };
  const folder = resolve(word);
  return {
    store: fileStore({ home, folders: [folder] }),
    isFiles: true,
    ref: undefined,
    nameOf: (header) => join(folder, sessionFileName(header)),
  };
}

function decoded(ref: string): string {
  try {
    return decodeURIComponent(ref);
  } catch (cause) {
    const message = `#${ref} is no name of a session as addresses write it: a % in it is %25.`;
    throw new CommandError("usage", message, { cause });
  }
}

const inStore = (store: SessionStore, ref: string): CopyPlace => ({
  store,
  isFiles: false,
  ref: ref === "" ? undefined : ref,
  nameOf: () => undefined,
});

const isFolder = (path: string): boolean =>
  path.endsWith("/") || (existsSync(path) && statSync(path).isDirectory());
