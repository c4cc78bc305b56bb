import { diagnose } from "@espalier/engine";
import { custom, SessionTree } from "@espalier/session-tree";
import { fileStore } from "@espalier/session-tree/node";
import type { Findings } from "./harness.ts";

/** What unsynced lines may look like after a cut. */
const FROM_CUTS: ReadonlySet<string> = new Set([
  "corrupt",
  "torn-tail",
  "unterminated-tail",
  "orphan",
  "bad-reference",
]);

/**
 * What holds for every session after the power went: it opens, has no issue but those that a cut may leave, and its
 * next append is clean. `judge` says what else has to hold of it.
 */
export async function judgeAfterCut(
  findings: Findings,
  file: string,
  when: string,
  judge: (session: SessionTree) => void | Promise<void>,
): Promise<void> {
  const store = fileStore({ home: file });
  const session = await SessionTree.open(await store.open({ file }, "write")).catch((error: Error) => error);
  if (session instanceof Error) {
    findings.fault(`${when}: the session does not open: ${session.message}`);
    return;
  }
  await judge(session);
  for (const { kind } of (await diagnose(session.log)).issues) {
    if (FROM_CUTS.has(kind)) findings.count(kind);
    else findings.fault(`${when}: the session has the issue ${kind}.`);
  }
  const [appended] = await session.append(custom.of({ customType: "trial" }));
  const again = await SessionTree.open(await store.open({ file }, "read"));
  findings.expect(again.leafId === appended!.id, () => `${when}: the next append is not clean.`);
  await again.close();
  await session.close();
}
