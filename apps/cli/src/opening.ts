import { existsSync } from "node:fs";
import {
  type ConfirmTrust,
  espalierHome,
  hasSession,
  type ListedSession,
  type ListOptions,
  listSessions,
  missingKey,
  type OpenOptions,
  openSession,
  openTrust,
  type ProjectTrust,
  type ResolvedSettings,
  resolvePolicy,
  resolveSettings,
  resolveSummarizer,
  type Session,
  type Settings,
  sessionOptionsOf,
  settleTail,
} from "@espalier/engine";
import { agentOfFile } from "@espalier/interop/node";
import { EspalierError } from "@espalier/jsonl-stream";
import {
  FORMAT_VERSION,
  type SessionIssue,
  type SessionLog,
  type SessionRef,
  type SessionStore,
} from "@espalier/session-tree";
import { fileStore } from "@espalier/session-tree/node";
import { chainOf, type Summarizer } from "@espalier/summarizer";
import { isShortFor } from "./entry-reference.ts";
import { CommandError, nearestId } from "./failure.ts";
import { formatBytes } from "./numbers.ts";
import { given } from "./options.ts";
import { confirmOnTerminal, type Shell } from "./shell.ts";
import { plainLine, titleOf } from "./text.ts";

/**
 * Purposes that a session is opened for.
 * - `read`: nothing changes, and only extensions of the command line run
 * - `tree`: like `read`, with a warning about unusable lines
 * - `plan`: like `read`, with the current settings, to show the effect of a compaction
 * - `change`: with the extensions and the settings of the project, and with the session's lease
 * - `annotate`: like `change`, but also while another process writes; for entries that are not part of the conversation
 * - `summarize`: like `change`, with the summarizer of the command line, the settings or the environment
 */
export type SessionUse = "read" | "tree" | "plan" | "change" | "annotate" | "summarize";

/** Options to open a session for each purpose. */
export const optionsFor: Readonly<Record<SessionUse, (shell: Shell) => OpenOptions>> = {
  read: (shell) => ({ ...openOptions(shell), mode: "read" }),
  tree: (shell) => optionsFor.read(shell),
  plan: (shell) => ({
    ...optionsFor.read(shell),
    settle: async (modelOf) => sessionOptionsOf((await currentSettings(shell, modelOf)).values),
  }),
  change: (shell) => changeOptions(shell),
  annotate: (shell) => ({ ...changeOptions(shell), lease: false }),
  summarize: (shell) => changeOptions(shell, true),
};

/**
 * Opens a session, runs a function on it, and closes it. Prints to stderr that another process writes the session, and
 * that its format was upgraded. A use that only reads also prints the problem of a header that makes the session
 * read-only; `tree` also prints the number of damaged lines.
 *
 * @param isContextEnough true: the function needs only the context at the leaf, so the whole tree is not loaded
 * @throws CommandError `foreign` for a session of another agent; errors of opening the session
 */
export async function withSession<Result>(
  shell: Shell,
  use: SessionUse,
  word: string,
  run: (session: Session) => Promise<Result>,
  isContextEnough = false,
): Promise<Result> {
  const options = { ...optionsFor[use](shell), ...(isContextEnough ? { whole: false } : {}) };
  const ref = await sessionNamed(shell.store, word);
  const session = await openSession(ref, options).catch((error: unknown) => {
    // The file may be a session of another agent.
    refuseForeign(word);
    throw error;
  });
  try {
    if (!session.header) refuseForeign(session.file);
    if (shell.globals.trace) shell.complain(readingTrace(session));
    // Views and references to entries need the whole session.
    if (!isContextEnough) {
      await session.load();
      await settleTail(session);
    }
    if (session.heldBy) shell.complain(`Another process writes ${word}; continuing with ${session.file}.`);
    if (use === "read" || use === "tree" || use === "plan") warnOfHeader(shell, session);
    if (use === "tree") warnOfDamage(shell, session, session.tree.issues);
    const oldFormat = session.log.upgraded?.from;
    try {
      return await run(session);
    } catch (error) {
      throw namingSession(error, word);
    } finally {
      if (oldFormat !== undefined && !session.log.upgraded)
        shell.complain(
          `${session.file} was upgraded to format version ${FORMAT_VERSION}; the old file is ${session.file}.v${oldFormat}.`,
        );
    }
  } finally {
    await session.close();
  }
}

/** Adds the session to the command that lists its ids, in the error for an unknown entry. Other errors stay the same. */
function namingSession(error: unknown, word: string): unknown {
  if (!(error instanceof EspalierError) || error.code !== "unknown-entry") return error;
  const message = error.message.replace("`espalier tree`", `\`espalier tree ${word}\``);
  return new EspalierError(error.code, message, { cause: error });
}

/** Milliseconds that a change waits until another change of the same session ends. */
const WAIT = 2_000;

/** Options to open a session for a change: with its extensions, the current settings, and its lease. */
function changeOptions(shell: Shell, summarizes = false): OpenOptions {
  const { onBusy = "error" } = shell.globals;
  const settle: OpenOptions["settle"] = async (modelOf) =>
    sessionSettings(shell, await currentSettings(shell, modelOf), summarizes);
  return { ...openOptions(shell), discoverExtensions: true, onBusy, waitMs: WAIT, settle };
}

/** Options for every opening of a session: the store, extensions, and functions that print to the user or ask. */
export function openOptions(shell: Shell): OpenOptions {
  return {
    extensions: shell.globals.extension ?? [],
    onReport: ({ message }) => shell.complainOnce(message),
    confirmTrust: confirmTrust(shell),
    ui: {
      notify: (message) => shell.complain(message),
      setStatus: (key, text) => shell.setStatus?.(key, text),
      ...given({ dialogs: shell.dialogs }),
    },
    ...storeOf(shell),
  };
}

/**
 * Returns the command's store as options of every function that opens a session; empty without `--store`. A session of
 * a store is loaded whole, because views and references need all entries.
 */
export const storeOf = ({ store }: Pick<Shell, "store">): Pick<OpenOptions, "store" | "whole"> =>
  store ? { store, whole: true } : {};

/** Prints one sentence to stderr for each skipped session and folder, even when several lists report it. */
export const tellSkipped = (shell: Pick<Shell, "complainOnce">): Pick<ListOptions, "onSkipped"> => ({
  onSkipped: (_place, { message }) => shell.complainOnce(message),
});

/** The store of `--store`, or files below the engine's home. */
export const storeInUse = ({ store }: Pick<Shell, "store">): SessionStore =>
  store ?? fileStore({ home: espalierHome() });

/**
 * Returns the session that an argument names: the path of a file, an id, in a store a name, the unique beginning of an
 * id, or the unique title that lists show, in upper or lower case. Without a store, a word with `/` or the ending
 * `.jsonl` is always a path. The ids of sub-agents begin with the id of their session; a beginning that fits both means
 * the session. A word that names nothing is returned as an id, and opening it fails.
 *
 * @throws CommandError `not-found` when several sessions match, or none but an id is similar; EspalierError
 * `ambiguous`, and errors of reading the store
 */
export async function sessionNamed(store: SessionStore | undefined, word: string): Promise<SessionRef> {
  if (!store && (existsSync(word) || /[/\\]|\.jsonl$/.test(word))) return { file: word };
  for (const ref of [{ id: word }, ...(store ? [{ file: word }] : [])])
    if (await hasSession(storeInUse({ store }), ref)) return ref;
  const begun: ListedSession[] = [];
  const titled: ListedSession[] = [];
  const names: string[] = [];
  let unreadable: EspalierError | undefined;
  const onSkipped = (place: string, error: EspalierError) => {
    if (!place.endsWith(".jsonl")) unreadable ??= error;
  };
  if (word !== "")
    for await (const session of listSessions({ ...storeOf({ store }), subAgents: true, onSkipped })) {
      if (titleOf(session).toLowerCase() === word.trim().toLowerCase()) titled.push(session);
      for (const name of [session.id, ...(store ? [session.ref] : [])]) {
        if (isShortFor(word, name) && begun.at(-1) !== session) begun.push(session);
        names.push(name);
      }
    }
  const meant = begun.filter(
    ({ id }) => id === word || !begun.some((other) => id.startsWith(`${other.id}.`)),
  );
  if (meant.length === 1) return { file: meant[0]!.ref };
  const notFound = (message: string) => new CommandError("not-found", message);
  const [id, ...otherIds] = new Set(meant.map((session) => session.id));
  if (otherIds.length > 0)
    throw notFound(
      `${meant.length} sessions have an id that begins with ${word}: ${idsOf(meant)}; type more of the id.`,
    );
  if (id !== undefined) {
    // An exported file can have the id of the session in the store; the id then means the session in the store.
    if (await hasSession(storeInUse({ store }), { id })) return { id };
    const files = meant.map(({ ref }) => ref).join(", ");
    throw notFound(`${meant.length} sessions have the id ${id}: ${files}; name one by its file.`);
  }
  if (titled.length === 1) return { file: titled[0]!.ref };
  if (titled.length > 1)
    throw notFound(
      `${titled.length} sessions have the title ${JSON.stringify(word)}: ${idsOf(titled)}; name one of them by its id.`,
    );
  // The session may be in the unreadable folder.
  if (unreadable) throw unreadable;
  const near = nearestId(word, names);
  if (near !== undefined) throw notFound(`There is no session with the id ${word}. Did you mean ${near}?`);
  // The error for a missing session is thrown when it is opened.
  return { id: word };
}

/** Joins the ids of at most three sessions. */
function idsOf(sessions: readonly ListedSession[]): string {
  const ids = sessions.slice(0, 3).map(({ id }) => id);
  return [...ids, ...(sessions.length > ids.length ? ["…"] : [])].join(", ");
}

/** Runs a function on the log of a session, which is open for reading while it runs. */
export async function withLog<Result>(
  store: SessionStore,
  ref: SessionRef,
  run: (log: SessionLog) => Result | Promise<Result>,
): Promise<Result> {
  const log = await store.open(ref, "read");
  try {
    return await run(log);
  } finally {
    await log.close();
  }
}

/**
 * Returns the sentence for `--trace`: the bytes of the file that were read to build the context at the leaf, and the
 * reason why no more were read. If the log was not read backwards, the sentence names the source of the path.
 */
function readingTrace({ log, window, file }: Session): string {
  const size = log.view?.size;
  const { readFrom, complete } = window;
  if (size === undefined || readFrom === undefined)
    return `The path of ${file} came from its store, or from an index of the whole file.`;
  const read = `${formatBytes(size - readFrom)} of ${formatBytes(size)}`;
  return complete
    ? `Read ${read} of ${file}, once: the path goes back to its root.`
    : `Read ${read} of ${file}, from its end: a compaction replaces the rest.`;
}

/** Prints the reason when a session is read-only because of its header. */
function warnOfHeader(shell: Shell, { header, file }: Session): void {
  if (!header) shell.complain(`${file} has no session header; it is opened read-only.`);
  else if (header.version > FORMAT_VERSION) {
    shell.complain(
      `${file} has format version ${header.version}, newer than this program writes (${FORMAT_VERSION}); it is opened read-only.`,
    );
  }
}

/** Prints the number of lines whose entries are lost; nothing if there are none. */
export function warnOfDamage(shell: Shell, { file }: Session, issues: readonly SessionIssue[]): void {
  const lines = new Set(issues.filter(({ kind }) => LOST.has(kind)).map(({ offset }) => offset)).size;
  if (lines === 0) return;
  const are = lines === 1 ? "1 line is" : `${lines} lines are`;
  shell.complain(`${are} damaged; \`espalier doctor ${file}\` shows the details.`);
}

/** Issues in which entries are lost. Duplicate lines and a missing final newline lose nothing. */
const LOST: ReadonlySet<string> = new Set(["corrupt", "torn-tail", "duplicate-id", "orphan"]);

/** Returns the name of the agent in whose own format a file is; undefined for every other file, and for Pi. */
export function foreignAgentOf(file: string): string | undefined {
  const found = agentOfFile(file);
  // Pi's format is ours.
  return found?.agent === "pi" ? undefined : found?.title;
}

/** Throws CommandError `foreign` for a session of another agent, which has to be imported first. */
export function refuseForeign(file: string): void {
  const agent = foreignAgentOf(file);
  if (agent === undefined) return;
  throw new CommandError(
    "foreign",
    `${file} is a session of ${agent}; \`espalier import ${file}\` imports it, and \`espalier demo ${file}\` shows it without an import.`,
  );
}

/**
 * Returns the current settings with the options of the command line. Some settings are for one model: `modelOf` names
 * the model. The project is the folder in which the command runs.
 *
 * @param above settings that override all others
 */
export function currentSettings(
  shell: Shell,
  modelOf: () => string | undefined = () => undefined,
  above: Partial<Settings> = {},
): Promise<ResolvedSettings> {
  const { summarizer, fallback } = shell.globals;
  const flags = { ...given({ summarizer, fallback }), ...above };
  return resolveSettings({ flags, model: modelOf, confirmTrust: confirmTrust(shell) });
}

/**
 * Asks a person about a project that changed since it was trusted, at most once per folder in a command. Without a
 * terminal the project counts as not trusted.
 */
const confirmTrust =
  (shell: Shell): ConfirmTrust =>
  (project) => {
    if (!shell.interactive) return false;
    const answer = shell.trustAnswers.get(project.folder) ?? ask(project);
    shell.trustAnswers.set(project.folder, answer);
    return answer;
  };

/** Asks whether to trust this folder's project again, if it changed. Full-screen programs cannot ask later. */
export async function askAboutProject(shell: Shell): Promise<void> {
  const trust = openTrust();
  const project = trust.look(process.cwd());
  if (project.state === "changed" && (await confirmTrust(shell)(project))) await trust.trust(project.folder);
}

function ask({ folder, changes }: ProjectTrust): Promise<boolean> {
  const lines = [
    `${folder} has changed since you trusted it:`,
    ...changes.slice(0, MOST_CHANGES).map((path) => `  ${path}`),
    ...(changes.length > MOST_CHANGES ? [`  and ${changes.length - MOST_CHANGES} more`] : []),
    "Its settings may cause costs and its extensions run code. Trust it as it is now?",
  ];
  return confirmOnTerminal(lines.map(plainLine).join("\n"));
}

/** Maximum number of files in a question. */
const MOST_CHANGES = 10;

/**
 * Turns settings into options of a session, and prints the ignored settings to stderr. The summarizer is resolved only
 * when `summarizes` is true, or when the policy compacts automatically after an append, so that a label needs no API
 * key.
 */
export function sessionSettings(
  shell: Shell,
  { values, ignored }: Pick<ResolvedSettings, "values" | "ignored">,
  summarizes: boolean,
) {
  for (const sentence of ignored) shell.complainOnce(sentence);
  return {
    ...sessionOptionsOf(values),
    extensions: [...values.extensions, ...(shell.globals.extension ?? [])],
    ...(summarizes || compactsBehindAppends(values) ? summarizerOf(shell, values) : {}),
  };
}

const compactsBehindAppends = ({ autoCompact, policy }: Settings): boolean =>
  autoCompact && resolvePolicy(policy).judgedAt === "append";

/**
 * Returns the summarizer of the command line, else of the settings, else the default: `anthropic` with an API key,
 * `extractive` without one. `fallback` is that of the command line, else of the settings; by default it is false only
 * if the command line names a summarizer, so that its error is thrown.
 */
export function summarizerOf(
  { globals }: Pick<Shell, "globals">,
  settings: Partial<Settings>,
): Required<Pick<OpenOptions, "summarizer" | "fallback">> {
  const name =
    globals.summarizer ??
    settings.summarizer ??
    (missingKey("anthropic", { settings }) ? "extractive" : "anthropic");
  return {
    summarizer: resolveSummarizer(name, { settings }),
    fallback: globals.fallback ?? settings.fallback ?? globals.summarizer === undefined,
  };
}

/** Returns the current summarizer with its fallback. Input of any length is split to fit. */
export async function readySummarizer(shell: Shell): Promise<Summarizer> {
  const { values } = await currentSettings(shell);
  const { summarizer, fallback } = summarizerOf(shell, values);
  return chainOf(summarizer, { fallback });
}
