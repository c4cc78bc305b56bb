import { type OpenOptions, openSession, resolveSummarizer, type Session } from "@espalier/engine";
import { FORMAT_VERSION, type SessionIssue } from "@espalier/session-tree";
import type { Shell } from "./shell.ts";

/**
 * Opens a session to read it, and lets go of it when `read` is done; nothing of it changes, and no extension runs but
 * those named on the command line. Says on stderr, one sentence each, why the session is only read.
 */
export function reading<Result>(
  shell: Shell,
  ref: string,
  read: (session: Session) => Promise<Result>,
): Promise<Result> {
  return using(ref, { ...heard(shell), mode: "read" }, async (session) => {
    warnOfHeader(shell, session);
    return await read(session);
  });
}

/** Milliseconds that a command waits for another one which writes the same session. */
const WAIT = 2_000;

/** Opens a session to change it, with its extensions, and lets go of it when `change` is done. */
export function changing<Result>(
  shell: Shell,
  ref: string,
  change: (session: Session) => Promise<Result>,
  options: OpenOptions = {},
): Promise<Result> {
  const { onBusy = "error" } = shell.globals;
  const held = { discoverExtensions: true, onBusy, waitMs: WAIT };
  return using(ref, { ...heard(shell), ...held, ...options }, async (session) => {
    if (session.heldBy) shell.complain(`Another process writes ${ref}; this goes on with ${session.file}.`);
    return await change(session);
  });
}

/** As {@link changing}, for what stands beside the conversation: it is appended whoever else writes the session. */
export function appendingBeside<Result>(
  shell: Shell,
  ref: string,
  change: (session: Session) => Promise<Result>,
): Promise<Result> {
  return changing(shell, ref, change, { lease: false });
}

/** As {@link changing}, with the summarizer that the command line or the environment names. */
export function summarizing<Result>(
  shell: Shell,
  ref: string,
  change: (session: Session) => Promise<Result>,
): Promise<Result> {
  return changing(shell, ref, change, summarizerOf(shell));
}

/** Who writes summaries: the one that was named, else the usual one. One that was named fails with its own error unless a fallback is wanted. */
export function summarizerOf(
  { globals }: Shell,
  usual?: string,
): Required<Pick<OpenOptions, "summarizer" | "fallback">> {
  const { summarizer, fallback = summarizer === undefined } = globals;
  return { summarizer: resolveSummarizer(summarizer ?? usual), fallback };
}

/** What a command needs to know of extensions, and where they can say something. */
export function heard(shell: Shell): OpenOptions {
  return {
    extensions: shell.globals.extension ?? [],
    onReport: ({ message }) => shell.complain(message),
    ui: { notify: (message) => shell.complain(message) },
  };
}

async function using<Result>(
  ref: string,
  options: OpenOptions,
  use: (session: Session) => Promise<Result>,
): Promise<Result> {
  const session = await openSession(ref, options);
  try {
    return await use(session);
  } finally {
    await session.close();
  }
}

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
