import { existsSync } from "node:fs";
import {
  type ConfirmTrust,
  espalierHome,
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
import { EspalierError } from "@espalier/jsonl-stream";
import {
  FORMAT_VERSION,
  type SessionIssue,
  type SessionRef,
  type SessionStore,
} from "@espalier/session-tree";
import { fileStore } from "@espalier/session-tree/node";
import { chainOf, type Summarizer } from "@espalier/summarizer";
import { CommandError, nearestId } from "./failure.ts";
import { formatBytes } from "./numbers.ts";
import { confirmOnTerminal, type Shell } from "./shell.ts";
import { plainLine } from "./text.ts";

/**
 * Purposes that a session is opened for.
 * - `read`: nothing changes, and only extensions of the command line run
 * - `tree`: as `read`, with a warning about lines that cannot be used
 * - `plan`: as `read`, with the current settings, to tell the effect of a compaction
 * - `change`: with the extensions and the settings of the project, and with the session's lease
 * - `annotate`: as `change`, but also while another process writes: for entries beside the conversation
 * - `summarize`: as `change`, with the summarizer of the command line, the settings or the environment
 */
export type SessionUse = "read" | "tree" | "plan" | "change" | "annotate" | "summarize";

const USES: Readonly<Record<SessionUse, (shell: Shell) => OpenOptions>> = {
  read: (shell) => ({ ...openOptions(shell), mode: "read" }),
  tree: (shell) => USES.read(shell),
  plan: (shell) => planOptions(shell),
  change: (shell) => changeOptions(shell),
  annotate: (shell) => ({ ...changeOptions(shell), lease: false }),
  summarize: (shell) => changeOptions(shell, true),
};

/**
 * Opens a session, runs a function on it, and closes it. Tells on stderr why a session is only read, or is another one.
 *
 * @param isContextEnough true: the context at the leaf is needed, and nothing that only the whole tree can tell
 */
export async function withSession<Result>(
  shell: Shell,
  use: SessionUse,
  word: string,
  run: (session: Session) => Promise<Result>,
  isContextEnough = false,
): Promise<Result> {
  const options = { ...USES[use](shell), ...(isContextEnough ? { whole: false } : {}) };
  const ref = await sessionNamed(shell.store, word);
  const session = await openSession(ref, options).catch(async (error: unknown) => {
    // It may be a session of another agent.
    await refuseForeign(word);
    throw error;
  });
  try {
    if (!session.header) await refuseForeign(session.file);
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
    } finally {
      if (oldFormat !== undefined && !session.log.upgraded)
        shell.complain(
          `${session.file} has format version ${FORMAT_VERSION} now; as it was, it is kept as ${session.file}.v${oldFormat}.`,
        );
    }
  } finally {
    await session.close();
  }
}

/** Milliseconds that a change waits for another one of the same session. */
const WAIT = 2_000;

/** Options to open a session for a change: its extensions, the current settings, and its lease. */
export function changeOptions(shell: Shell, summarizes = false): OpenOptions {
  const { onBusy = "error" } = shell.globals;
  const settle: OpenOptions["settle"] = async (modelOf) =>
    sessionSettings(shell, await currentSettings(shell, modelOf), summarizes);
  return { ...openOptions(shell), discoverExtensions: true, onBusy, waitMs: WAIT, settle };
}

/** Options to open a session for a plan: it is only read, and the current settings count. */
export const planOptions = (shell: Shell): OpenOptions => ({
  ...openOptions(shell),
  mode: "read",
  settle: async (model) => sessionOptionsOf((await currentSettings(shell, model)).values),
});

/** Options that every session is opened with: the store, extensions, and the ways to tell and ask the user. */
export function openOptions(shell: Shell): OpenOptions {
  return {
    extensions: shell.globals.extension ?? [],
    onReport: ({ message }) => shell.complainOnce(message),
    confirmTrust: confirmTrust(shell),
    ui: {
      notify: (message) => shell.complain(message),
      setStatus: (key, text) => shell.setStatus?.(key, text),
      ...(shell.dialogs ? { dialogs: shell.dialogs } : {}),
    },
    ...storeOf(shell),
  };
}

/** The store that commands work in, as an option of every function that opens a session. Views and references ask about all of it. */
export const storeOf = ({ store }: Pick<Shell, "store">): Pick<OpenOptions, "store" | "whole"> =>
  store ? { store, whole: true } : {};

/** Prints to stderr what a list or a search skips, one sentence each. */
export const tellSkipped = (shell: Pick<Shell, "complain">): Pick<ListOptions, "onSkipped"> => ({
  onSkipped: (_place, { message }) => shell.complain(message),
});

/** The store of `--store`, or files below the engine's home. */
export const storeInUse = ({ store }: Pick<Shell, "store">): SessionStore =>
  store ?? fileStore({ home: espalierHome() });

/**
 * The session that a word of the command line means: the path of a file, the id of a session, or the beginning of one
 * that no other session has. In a store a name, too. Of a session and its sub-agents, whose ids begin with its own, it is
 * the session.
 *
 * @throws CommandError `not-found` where several sessions have such an id; EspalierError `ambiguous`, and what keeps
 *   the store from being read
 */
export async function sessionNamed(store: SessionStore | undefined, word: string): Promise<SessionRef> {
  const isPath = !store && (existsSync(word) || /[/\\]|\.jsonl$/.test(word));
  if (isPath) return { file: word };
  for (const ref of [{ id: word }, ...(store ? [{ file: word }] : [])])
    if (await isThere(storeInUse({ store }), ref)) return ref;
  const begun: ListedSession[] = [];
  const names: string[] = [];
  let unreadable: EspalierError | undefined;
  const onSkipped = (_place: string, error: EspalierError) => {
    unreadable ??= error;
  };
  if (word !== "")
    for await (const session of listSessions({ ...storeOf({ store }), subAgents: true, onSkipped }))
      for (const name of [session.id, ...(store ? [session.ref] : [])]) {
        if (name.startsWith(word) && begun.at(-1) !== session) begun.push(session);
        names.push(name);
      }
  const meant = begun.filter(
    ({ id }) => id === word || !begun.some((other) => id.startsWith(`${other.id}.`)),
  );
  if (meant.length === 1) return { file: meant[0]!.ref };
  // The session may be in the folder that cannot be read.
  if (meant.length === 0 && unreadable) throw unreadable;
  const near = meant.length === 0 ? nearestId(word, names) : undefined;
  if (near !== undefined)
    throw new CommandError("not-found", `There is no session with the id ${word}. Did you mean ${near}?`);
  // Opening it says that there is none.
  if (meant.length === 0) return { id: word };
  const ids = meant.slice(0, 3).map(({ id }) => id);
  if (meant.length > ids.length) ids.push("…");
  throw new CommandError(
    "not-found",
    `${meant.length} sessions have an id that begins with ${word}: ${ids.join(", ")}; give more of it.`,
  );
}

/** Returns whether a store has a session. */
export async function isThere(store: SessionStore, ref: SessionRef): Promise<boolean> {
  try {
    await (await store.open(ref, "read")).close();
    return true;
  } catch (error) {
    if (error instanceof EspalierError && error.code === "not-found") return false;
    throw error;
  }
}

/** Sentence on how much of the log was read for the context at the leaf, and whether that reached the first line. */
function readingTrace({ log, window, file }: Session): string {
  const size = log.view?.size;
  const { readFrom, complete } = window;
  if (size === undefined || readFrom === undefined)
    return `The path of ${file} was given by its store, or by an index of the whole.`;
  const read = `${formatBytes(size - readFrom)} of ${formatBytes(size)}`;
  return complete
    ? `Read ${read} of ${file}, once: the path leads to its root.`
    : `Read ${read} of ${file}, from its end: a compaction stands for the rest.`;
}

/** Prints why a session can only be read, when its header is the reason. */
function warnOfHeader(shell: Shell, { header, file }: Session): void {
  if (!header) shell.complain(`${file} has no session header; it is only read.`);
  else if (header.version > FORMAT_VERSION) {
    shell.complain(
      `${file} has format version ${header.version}, newer than this program writes (${FORMAT_VERSION}); it is only read.`,
    );
  }
}

/** Prints that lines of the session cannot be used. */
export function warnOfDamage(shell: Shell, { file }: Session, issues: readonly SessionIssue[]): void {
  const lines = new Set(issues.filter(({ kind }) => LOST.has(kind)).map(({ offset }) => offset)).size;
  if (lines === 0) return;
  const are = lines === 1 ? "1 line is" : `${lines} lines are`;
  shell.complain(`${are} damaged; \`espalier doctor ${file}\` says where.`);
}

/** Issues that lose entries; duplicates and missing ends lose nothing. */
const LOST: ReadonlySet<string> = new Set(["corrupt", "torn-tail", "duplicate-id", "orphan"]);

/** Names of agents with a format of their own. Pi's files are ours. */
const FOREIGN: Readonly<Record<string, string>> = { "claude-code": "Claude Code", codex: "Codex" };

/** The name of the agent that wrote a file in a format of its own; undefined for every other file. */
export async function foreignAgentOf(file: string): Promise<string | undefined> {
  const { agentOfFile } = await import("@espalier/interop/node");
  return FOREIGN[agentOfFile(file)?.agent ?? ""];
}

/** @throws CommandError `foreign` for a file that has to be imported first */
export async function refuseForeign(file: string): Promise<void> {
  const agent = await foreignAgentOf(file);
  if (agent === undefined) return;
  throw new CommandError(
    "foreign",
    `${file} is a session of ${agent}; \`espalier import ${file}\` brings it here, and \`espalier demo\` takes it as it is.`,
  );
}

/**
 * The current settings, overridden by the command line; `modelOf` names the model whose own settings
 * count. The project is the folder in which the command runs.
 *
 * @param above what stands above all else
 */
export function currentSettings(
  shell: Shell,
  modelOf: () => string | undefined = () => undefined,
  above: Partial<Settings> = {},
): Promise<ResolvedSettings> {
  const { summarizer, fallback } = shell.globals;
  const flags = {
    ...(summarizer === undefined ? {} : { summarizer }),
    ...(fallback === undefined ? {} : { fallback }),
    ...above,
  };
  return resolveSettings({ flags, model: modelOf, confirmTrust: confirmTrust(shell) });
}

/** Asks a person about a project that changed since it was trusted, once a command; without a terminal it does not count. */
const confirmTrust =
  (shell: Shell): ConfirmTrust =>
  (project) => {
    if (!shell.interactive) return false;
    const answer = shell.trustAnswers.get(project.folder) ?? ask(project);
    shell.trustAnswers.set(project.folder, answer);
    return answer;
  };

/** Asks about the folder in which the command runs, for what draws on the terminal and cannot ask later. */
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

/** Files that a question names. */
const MOST_CHANGES = 10;

/**
 * Session options of the settings; tells which settings are ignored. The summarizer is resolved only when `summarizes` is
 * true, or when the policy compacts after an append: a label needs no API key.
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
 * The writer of summaries: the named one, else the one of the settings, else the default. One that the command
 * line names fails with its own error unless a fallback is wanted.
 */
export function summarizerOf(
  { globals }: Pick<Shell, "globals">,
  settings: Partial<Settings>,
): Required<Pick<OpenOptions, "summarizer" | "fallback">> {
  const name =
    globals.summarizer ??
    settings.summarizer ??
    (missingKey("anthropic", { settings }) ? "extractive" : "anthropic");
  const { model } = settings;
  return {
    summarizer: resolveSummarizer(name === "anthropic" && model !== undefined ? `anthropic:${model}` : name, {
      settings,
    }),
    fallback: globals.fallback ?? settings.fallback ?? globals.summarizer === undefined,
  };
}

/** The current summarizer, made ready for any number of messages. */
export async function readySummarizer(shell: Shell): Promise<Summarizer> {
  const { values } = await currentSettings(shell);
  const { summarizer, fallback } = summarizerOf(shell, values);
  return chainOf(summarizer, { fallback });
}
