import type { Session } from "@espalier/engine";
import { FORMAT_VERSION, type SessionIssue } from "@espalier/session-tree";
import type { Shell } from "./shell.ts";

/** Says in one sentence why a session is only read, where its header is the reason. */
export function warnOfHeader(shell: Shell, { header, file }: Session): void {
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
