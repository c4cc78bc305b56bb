import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { diagnose } from "@espalier/engine";
import { isDamage, type SessionContext, type SessionStore, type SessionTree } from "@espalier/session-tree";
import { fileStore } from "@espalier/session-tree/node";
import type { Findings } from "./harness.ts";
import { note, openTree } from "./stores.ts";

/** An act on a session that was acknowledged, and the state of the session then. */
export interface Acknowledged {
  act: string;
  leafId: string | null;
  /** Of the context at that leaf. */
  digest: string;
  ids: string[];
  /** Another file that must be there, whole. */
  file?: string;
}

/** Names a context, to compare it. */
export function digestOfContext({ messages }: SessionContext): string {
  return createHash("sha1").update(JSON.stringify(messages)).digest("hex");
}

/** Issues of a session whose writer was killed or whose disk lost its power: lines that were cut, and their consequences. */
const OF_CUTS: ReadonlySet<string> = new Set(["corrupt", "torn-tail", "unterminated-tail"]);
export const FROM_KILLS: ReadonlySet<string> = new Set([...OF_CUTS, "salvaged"]);
const FROM_OUTAGES: ReadonlySet<string> = new Set([...OF_CUTS, "orphan", "bad-reference"]);

/** Every acknowledged entry is in the session, and the context at the last acknowledged leaf is unchanged. */
export function judgeAcknowledged(
  findings: Findings,
  session: SessionTree,
  acked: readonly Acknowledged[],
): void {
  const { tree } = session;
  for (const { ids, act } of acked)
    for (const id of ids) findings.expect(tree.has(id), `an acknowledged entry of "${act}" is lost.`);
  const last = acked.at(-1);
  if (!last || (last.leafId !== null && !tree.has(last.leafId))) return;
  const now = digestOfContext(session.contextAt(last.leafId));
  findings.expect(now === last.digest, "the context of the last leaf has changed.");
}

/** Files that acknowledged acts made are there and open; a repaired copy has no damage. */
export async function judgeFiles(findings: Findings, acked: readonly Acknowledged[]): Promise<void> {
  for (const { file, act } of acked) {
    if (file === undefined) continue;
    findings.expect(existsSync(file), `the file of an acknowledged ${act} is gone.`);
    if (!existsSync(file)) continue;
    const session = await openTree(fileStore({ home: file }), file);
    const isSound = !(await diagnose(session.log)).issues.some(isDamage);
    findings.expect(act !== "repair" || isSound, "a repaired copy has issues.");
    await session.close();
  }
}

/** The session has no issues but the expected ones, which are counted. */
export async function judgeIssues(
  findings: Findings,
  session: SessionTree,
  expected: ReadonlySet<string>,
): Promise<void> {
  for (const { kind } of (await diagnose(session.log)).issues)
    if (expected.has(kind)) findings.count(kind);
    else findings.fault(`the session has the issue ${kind}.`);
}

/** The next append is the leaf of the session when it is opened anew. Closes the session. */
export async function judgeNextAppend(
  findings: Findings,
  session: SessionTree,
  store: SessionStore,
  file: string,
): Promise<SessionTree> {
  const [appended] = await session.append(note());
  await session.close();
  const again = await openTree(store, file);
  findings.expect(again.leafId === appended!.id, "the appended entry is not the leaf.");
  return again;
}

/**
 * The rules for every session after a loss of power: it opens, has no issue but those of a cut, and its next append is
 * clean. `judge` adds those of the trial.
 */
export async function judgeAfterOutage(
  findings: Findings,
  file: string,
  judge: (session: SessionTree) => void,
): Promise<void> {
  const store = fileStore({ home: file });
  const session = await openTree(store, file, "write").catch((error: Error) => error);
  if (session instanceof Error) return findings.fault(`the session does not open: ${session.message}`);
  judge(session);
  await judgeIssues(findings, session, FROM_OUTAGES);
  await (await judgeNextAppend(findings, session, store, file)).close();
}
