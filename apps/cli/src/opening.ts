import { existsSync } from "node:fs";
import { createInterface } from "node:readline/promises";
import {
  type ConfirmTrust,
  espalierHome,
  type ListedSession,
  type ListOptions,
  listSessions,
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
import { CommandError } from "./failure.ts";
import { formatBytes } from "./numbers.ts";
import type { Shell } from "./shell.ts";
import { plainLine } from "./text.ts";

/** How much of a session a command needs. */
interface Reach {
  /** True: the context at the leaf, and nothing that only the whole tree can tell. Default false. */
  isContextEnough?: boolean;
  /** Told of the session as it was opened, before anything else of it is read. */
  onOpened?: (session: Session) => void;
}

/**
 * Opens a session to read it, and lets go of it when `read` is done; nothing of it changes, and no extension runs but
 * those named on the command line. Says on stderr, one sentence each, why the session is only read.
 */
export function reading<Result>(
  shell: Shell,
  ref: string,
  read: (session: Session) => Promise<Result>,
  reach: Reach = {},
): Promise<Result> {
  return using(ref, { ...heard(shell), ...reach, mode: "read" }, async (session) => {
    warnOfHeader(shell, session);
    return await read(session);
  });
}

/** As {@link reading}, with the settings in force: for what says what a compaction would do. */
export function planning<Result>(
  shell: Shell,
  ref: string,
  read: (session: Session) => Promise<Result>,
): Promise<Result> {
  const settle: OpenOptions["settle"] = async (model) => {
    const { values } = await settingsInForce(shell, model);
    return sessionOptionsOf(values);
  };
  return using(ref, { ...heard(shell), settle, mode: "read" }, async (session) => {
    warnOfHeader(shell, session);
    return await read(session);
  });
}

/** Opens a session to change it, with its extensions, and lets go of it when `change` is done. */
export function changing<Result>(
  shell: Shell,
  ref: string,
  change: (session: Session) => Promise<Result>,
  options: OpenOptions & Reach = {},
): Promise<Result> {
  return using(ref, { ...toChange(shell), ...options }, async (session) => {
    if (session.heldBy) shell.complain(`Another process writes ${ref}; this goes on with ${session.file}.`);
    return await change(session);
  });
}

/** Milliseconds that a change waits for another one of the same session. */
const WAIT = 2_000;

/** How a session is opened to be changed: with its extensions, the settings in force, and its lease. */
export function toChange(shell: Shell, summarizes = false): OpenOptions & Reach {
  const { onBusy = "error" } = shell.globals;
  const settle = settledBy(shell, { summarizes });
  return { ...heard(shell), discoverExtensions: true, onBusy, waitMs: WAIT, settle };
}

/** As {@link changing}, for what stands beside the conversation: it is appended whoever else writes the session. */
export function appendingBeside<Result>(
  shell: Shell,
  ref: string,
  change: (session: Session) => Promise<Result>,
): Promise<Result> {
  return changing(shell, ref, change, { lease: false });
}

/** As {@link changing}, with the summarizer that the command line, the settings or the environment name. */
export function summarizing<Result>(
  shell: Shell,
  ref: string,
  change: (session: Session) => Promise<Result>,
): Promise<Result> {
  return changing(shell, ref, change, { settle: settledBy(shell, { summarizes: true }) });
}

/** What a command needs to know of extensions, and where they can say something. */
export function heard(shell: Shell): OpenOptions & Reach {
  return {
    ...(shell.globals.trace ? { onOpened: (session) => shell.complain(readingTrace(session)) } : {}),
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

/** The store that commands work in, as an option of whatever opens a session. Views and references ask about all of it. */
export const storeOf = ({ store }: Pick<Shell, "store">): Pick<OpenOptions, "store" | "whole"> =>
  store ? { store, whole: true } : {};

/** What a list or a search passes over is told on stderr, one sentence each. */
export const tellSkipped = (shell: Pick<Shell, "complain">): Pick<ListOptions, "onSkipped"> => ({
  onSkipped: (_place, { message }) => shell.complain(message),
});

/** Where sessions are opened by name: the store of `--store`, or files below the engine's home. */
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
  let unreadable: EspalierError | undefined;
  const onSkipped = (_place: string, error: EspalierError) => {
    unreadable ??= error;
  };
  if (word !== "")
    for await (const session of listSessions({ ...storeOf({ store }), subAgents: true, onSkipped }))
      if ([session.id, ...(store ? [session.ref] : [])].some((name) => name.startsWith(word)))
        begun.push(session);
  const meant = begun.filter(
    ({ id }) => id === word || !begun.some((other) => id.startsWith(`${other.id}.`)),
  );
  if (meant.length === 1) return { file: meant[0]!.ref };
  // The session may be in the folder that cannot be read.
  if (meant.length === 0 && unreadable) throw unreadable;
  // Opening it says that there is none.
  if (meant.length === 0) return { id: word };
  const names = meant.slice(0, 3).map(({ id }) => id);
  if (meant.length > names.length) names.push("…");
  throw new CommandError(
    "not-found",
    `${meant.length} sessions have an id that begins with ${word}: ${names.join(", ")}; give more of it.`,
  );
}

async function isThere(store: SessionStore, ref: SessionRef): Promise<boolean> {
  try {
    await (await store.open(ref, "read")).close();
    return true;
  } catch (error) {
    if (error instanceof EspalierError && error.code === "not-found") return false;
    throw error;
  }
}

async function using<Result>(
  word: string,
  { isContextEnough = false, onOpened, ...options }: OpenOptions & Reach,
  use: (session: Session) => Promise<Result>,
): Promise<Result> {
  const ref = await sessionNamed(options.store, word);
  const session = await openSession(ref, isContextEnough ? { ...options, whole: false } : options).catch(
    async (error: unknown) => {
      // What is no session of ours may be somebody else's.
      await refuseForeign(word);
      throw error;
    },
  );
  try {
    if (!session.header) await refuseForeign(session.file);
    onOpened?.(session);
    // Views and references to entries ask about all of it.
    if (!isContextEnough) {
      await session.load();
      await settleTail(session);
    }
    return await use(session);
  } finally {
    await session.close();
  }
}

/** How much of the log the context at its leaf took: the path, read backwards, and whether that led to the first line. */
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

/** Says in one sentence why a session is only read, where its header is the reason. */
function warnOfHeader(shell: Shell, { header, file }: Session): void {
  if (!header) shell.complain(`${file} has no session header; it is only read.`);
  else if (header.version > FORMAT_VERSION) {
    shell.complain(
      `${file} has format version ${header.version}, newer than this program writes (${FORMAT_VERSION}); it is only read.`,
    );
  }
}

/** Says in one sentence that lines of the session cannot be used. */
export function warnOfDamage(shell: Shell, { file }: Session, issues: readonly SessionIssue[]): void {
  const lines = new Set(issues.filter(({ kind }) => LOST.has(kind)).map(({ offset }) => offset)).size;
  if (lines === 0) return;
  const are = lines === 1 ? "1 line is" : `${lines} lines are`;
  shell.complain(`${are} damaged; \`espalier doctor ${file}\` says where.`);
}

/** What a reader of the tree should know; duplicates and missing ends lose nothing. */
const LOST: ReadonlySet<string> = new Set(["corrupt", "torn-tail", "duplicate-id", "orphan"]);

/** What people call the agents whose files are not ours. Pi's are. */
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
 * The settings in force here, what the command line says above them; `modelOf` names the model whose own settings
 * count. The project is the folder in which the command runs.
 *
 * @param above what stands above all else
 */
export function settingsInForce(
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

async function ask({ folder, changes }: ProjectTrust): Promise<boolean> {
  const terminal = createInterface({ input: process.stdin, output: process.stderr });
  try {
    const lines = [
      `${folder} has changed since you trusted it:`,
      ...changes.slice(0, MOST_CHANGES).map((path) => `  ${path}`),
      ...(changes.length > MOST_CHANGES ? [`  and ${changes.length - MOST_CHANGES} more`] : []),
      "Its settings may spend and its extensions run code. Trust it as it is now? [y/N] ",
    ];
    const answer = await terminal.question(lines.map(plainLine).join("\n"));
    return /^y(es)?$/i.test(answer.trim());
  } finally {
    terminal.close();
  }
}

/** Files that a question names. */
const MOST_CHANGES = 10;

/**
 * Brings the settings in force into the session that is opened. Who writes its summaries is found only for what
 * `summarizes`, and where the policy compacts behind an append: nobody needs a key to give an entry a label.
 */
export function settledBy(
  shell: Shell,
  { summarizes = false }: { summarizes?: boolean } = {},
): NonNullable<OpenOptions["settle"]> {
  return async (modelOf) => settled(shell, await settingsInForce(shell, modelOf), summarizes);
}

/** What settings make of a session; says which of them do not count. */
export function settled(
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
 * Who writes summaries: the one that was named, else the one of the settings, else the usual one. One that the command
 * line names fails with its own error unless a fallback is wanted.
 */
export function summarizerOf(
  { globals }: Pick<Shell, "globals">,
  settings: Pick<Settings, "summarizer" | "model" | "fallback">,
): Required<Pick<OpenOptions, "summarizer" | "fallback">> {
  const name = globals.summarizer ?? settings.summarizer ?? (canAskClaude() ? "anthropic" : "extractive");
  const { model } = settings;
  return {
    summarizer: resolveSummarizer(name === "anthropic" && model !== undefined ? `anthropic:${model}` : name),
    fallback: globals.fallback ?? settings.fallback ?? globals.summarizer === undefined,
  };
}

const canAskClaude = (): boolean => Boolean(process.env["ANTHROPIC_API_KEY"]);

/** The summarizer in force, made ready for any number of messages. */
export async function readySummarizer(shell: Shell): Promise<Summarizer> {
  const { values } = await settingsInForce(shell);
  const { summarizer, fallback } = summarizerOf(shell, values);
  return chainOf(summarizer, { fallback });
}
