import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { diagnose } from "@espalier/engine";
import { custom, message, SessionTree } from "@espalier/session-tree";
import { fileStore } from "@espalier/session-tree/node";
import { ForgetfulDisk, PowerCut } from "./forgetful-disk.ts";
import { Findings, type Harness } from "./harness.ts";
import { headerOf } from "./new-session.ts";
import { SeededRandom } from "./seeded-random.ts";

/** What unsynced lines may look like after a cut. */
const FROM_CUTS: ReadonlySet<string> = new Set([
  "corrupt",
  "torn-tail",
  "unterminated-tail",
  "orphan",
  "bad-reference",
]);

/** Counts what a session has of the issues that a cut may leave; any other one is a fault. */
export async function noteIssues(findings: Findings, session: SessionTree, when: string): Promise<void> {
  for (const { kind } of (await diagnose(session.log)).issues) {
    if (FROM_CUTS.has(kind)) findings.count(kind);
    else findings.fault(`${when}: the session has the issue ${kind}.`);
  }
}

/** The power goes at a random call of a simulated disk; what was not synced may be there, in part, as NUL bytes, or not at all. */
export const power: Harness = async ({ folder, seed, isShort, count }) => {
  const findings = new Findings();
  for (let round = 0; round < (count ?? (isShort ? 20 : 200)); round += 1) {
    const random = new SeededRandom(seed * 7919 + round);
    const before = join(folder, `before${round}`);
    const after = join(folder, `after${round}`);
    mkdirSync(before);
    mkdirSync(after);
    const disk = new ForgetfulDisk(before, 5 + random.below(220));
    const durable: string[] = [];
    let isCreated = false;
    try {
      const store = fileStore({ home: before, calls: disk.calls });
      const session = await SessionTree.open(await store.create(headerOf("s1"), [], join(before, "s.jsonl")));
      isCreated = true;
      await Promise.all([writer(session, random, durable), writer(session, random, durable)]);
    } catch (error) {
      // Nothing is acknowledged any more once the power is gone.
      if (!disk.isCut) throw error;
    }
    disk.restore(after, random);
    findings.count("cuts");
    if (!isCreated) {
      findings.count("before the session was made");
      continue;
    }
    findings.count("acked at fsync", durable.length);
    await judge(findings, join(after, "s.jsonl"), durable, `Cut ${round}`);
  }
  return findings;
};

async function writer(session: SessionTree, random: SeededRandom, durable: string[]): Promise<void> {
  for (let n = 0; n < 200; n += 1) {
    const text = "x".repeat(random.below(6_000));
    if (random.below(2) === 0) await session.append(custom.of({ customType: "trial", data: text }));
    else {
      const [entry] = await session.append(
        message.of({ message: { role: "user", content: text, timestamp: n } }),
      );
      durable.push(entry!.id);
    }
  }
  throw new PowerCut();
}

async function judge(
  findings: Findings,
  file: string,
  durable: readonly string[],
  when: string,
): Promise<void> {
  const store = fileStore({ home: file });
  const session = await SessionTree.open(await store.open(file, "write")).catch((error: Error) => error);
  if (session instanceof Error) {
    findings.fault(`${when}: the session does not open: ${session.message}`);
    return;
  }
  const lost = durable.filter((id) => !session.tree.has(id)).length;
  findings.expect(lost === 0, () => `${when}: ${lost} entries acknowledged at fsync are lost.`);
  await noteIssues(findings, session, when);
  const [appended] = await session.append(custom.of({ customType: "trial" }));
  const again = await SessionTree.open(await store.open(file, "read"));
  findings.expect(again.leafId === appended!.id, () => `${when}: the next append is not clean.`);
  await again.close();
  await session.close();
}
