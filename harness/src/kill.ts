import { existsSync } from "node:fs";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { diagnose } from "@espalier/engine";
import { isDamage, SessionTree } from "@espalier/session-tree";
import { FileLog } from "@espalier/session-tree/node";
import { type Acknowledged, digestOfContext } from "./children/acting.ts";
import { Child } from "./children.ts";
import { Findings, type Harness, SeededRandom } from "./harness.ts";
import { writeSession } from "./stores.ts";

/** Kills of one session before the next begins, so that looking at it stays cheap. */
const KILLS_A_SESSION = 20;

/** Trials at the same time. */
const LANES = 2;

/** What killed processes may leave: a line that was cut, and what follows from it. */
const FROM_KILLS: ReadonlySet<string> = new Set(["corrupt", "torn-tail", "unterminated-tail", "salvaged"]);

/** `kill -9` at random moments of everything one does with a session: what was acknowledged is there, and says the same. */
export const kill: Harness = async (options) => {
  const findings = new Findings();
  const count = options.count ?? (options.isShort ? 12 : 10_000);
  let begun = 0;
  const lane = async (number: number) => {
    const random = new SeededRandom(options.seed * 7919 + number);
    for (let round = 0; begun < count; round += 1) {
      const file = writeSession(join(options.folder, `lane${number}-${round}.jsonl`));
      const acked: Acknowledged[] = [];
      for (let at = 0; at < KILLS_A_SESSION && begun < count; at += 1) {
        begun += 1;
        const args = ["acting", options.store, options.folder, file, `${begun + options.seed}`];
        const child = new Child(options.program, args, { isMute: options.store !== "file" });
        if ((await child.line(0)) === undefined) {
          findings.fault(`Round ${begun}: the session could not be opened again.`);
          break;
        }
        // While it runs already; the first acts take longer, since the program is warming up.
        await setTimeout(random.next() * 300);
        child.process.kill("SIGKILL");
        await child.over;
        findings.count("kills");
        const before = acked.length;
        acked.push(...child.lines.slice(1).map((line) => JSON.parse(line) as Acknowledged));
        for (const { act } of acked.slice(before)) findings.count(`acked ${act}`);
        await judge(findings, file, acked, acked.slice(before), `round ${begun}`);
      }
    }
  };
  await Promise.all(Array.from({ length: LANES }, (_, number) => lane(number)));
  return findings;
};

async function judge(
  findings: Findings,
  file: string,
  all: readonly Acknowledged[],
  recent: readonly Acknowledged[],
  when: string,
): Promise<void> {
  const session = await SessionTree.open(FileLog.open(file, "read"));
  const { tree } = session;
  for (const { ids, act } of all)
    for (const id of ids)
      findings.expect(tree.has(id), () => `${when}: an acknowledged entry of "${act}" is lost.`);
  const last = all.at(-1);
  if (last && (last.leafId === null || tree.has(last.leafId))) {
    const now = digestOfContext(session.contextAt(last.leafId));
    findings.expect(now === last.digest, () => `${when}: the context of the last leaf has changed.`);
  }
  const { issues } = await diagnose(session.log);
  for (const { kind } of issues) {
    if (FROM_KILLS.has(kind)) findings.count(kind);
    else findings.fault(`${when}: the session has the issue ${kind}.`);
  }
  await session.close();
  for (const { file: made, act } of recent) {
    if (made === undefined) continue;
    findings.expect(existsSync(made), () => `${when}: the file of an acknowledged ${act} is gone.`);
    if (!existsSync(made)) continue;
    const log = FileLog.open(made, "read");
    const other = await SessionTree.open(log);
    const sound = (await diagnose(log)).issues.filter(isDamage).length === 0;
    findings.expect(act !== "repair" || sound, () => `${when}: a healed copy has issues.`);
    await other.close();
  }
}
