import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { custom, message, SessionTree } from "@espalier/session-tree";
import { fileStore } from "@espalier/session-tree/node";
import { judgeAfterCut } from "./after-a-cut.ts";
import { ForgetfulDisk, PowerCut } from "./forgetful-disk.ts";
import { Findings, type Harness } from "./harness.ts";
import { headerOf } from "./new-session.ts";
import { SeededRandom } from "./seeded-random.ts";

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
    const when = `Cut ${round}`;
    await judgeAfterCut(findings, join(after, "s.jsonl"), when, ({ tree }) => {
      const lost = durable.filter((id) => !tree.has(id)).length;
      findings.expect(lost === 0, () => `${when}: ${lost} entries acknowledged at fsync are lost.`);
    });
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
