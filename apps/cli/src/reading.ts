import { type OpenOptions, openSession, type Session } from "@espalier/engine";
import { FORMAT_VERSION } from "@espalier/session-tree";
import type { Shell } from "./shell.ts";

/**
 * Opens a session to read it, and lets go of it when `read` is done; nothing of it changes. Says on stderr, one
 * sentence each, what keeps the session from being written or read whole.
 */
export async function reading<Result>(
  shell: Shell,
  ref: string,
  read: (session: Session) => Promise<Result>,
  options: OpenOptions = {},
): Promise<Result> {
  const session = await openSession(ref, { ...options, mode: "read" });
  try {
    warnOfHeader(shell, session);
    return await read(session);
  } finally {
    await session.close();
  }
}

/** Opens a session to change it, and lets go of it when `change` is done. */
export async function changing<Result>(
  ref: string,
  change: (session: Session) => Promise<Result>,
  options: OpenOptions = {},
): Promise<Result> {
  const session = await openSession(ref, options);
  try {
    return await change(session);
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

/** Says in one sentence that lines of the session cannot be used, once its whole tree was read. */
export function warnOfDamage(shell: Shell, { tree, file }: Session): void {
  const lines = new Set(tree.issues.filter(({ kind }) => LOST.has(kind)).map(({ offset }) => offset)).size;
  if (lines === 0) return;
  const are = lines === 1 ? "1 line is" : `${lines} lines are`;
  shell.complain(`${are} damaged; \`espalier doctor ${file}\` says where.`);
}

/** What a reader of the tree should know; duplicates and missing ends lose nothing. */
const LOST: ReadonlySet<string> = new Set(["corrupt", "torn-tail", "duplicate-id", "orphan"]);
