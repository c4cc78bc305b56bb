import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Child } from "./children.ts";
import { Findings, type Harness } from "./harness.ts";
import { storeNamed, writeSession } from "./stores.ts";

/** Two processes want the lease that a dead one left, at the same moment, again and again: exactly one gets it. */
export const lease: Harness = async ({ folder, program, count, isShort }) => {
  const findings = new Findings();
  const file = writeSession(join(folder, "lease.jsonl"));
  const own = await storeNamed("file", folder).lease({ file });
  const dead = { ...JSON.parse(readFileSync(`${file}.lease`, "utf8")), processStart: "1" };
  await own.release();
  const takers = [1, 2].map(() => new Child(program, ["taking", folder, file]));
  await Promise.all(takers.map((taker) => taker.line(0)));
  const rounds = count ?? (isShort ? 40 : 1_000);
  for (let round = 0, heard = 1; round < rounds; round += 1) {
    writeFileSync(`${file}.lease`, JSON.stringify(dead));
    writeFileSync(`${file}.lease-0123456789ab`, JSON.stringify(dead));
    const moment = `${Date.now() + 3}`;
    for (const taker of takers) taker.say(moment);
    const said = await Promise.all(takers.map((taker) => taker.line(heard)));
    heard += 1;
    const won = takers.filter((_, at) => said[at] === "won");
    findings.count("rounds");
    findings.expect(
      won.length === 1,
      () => `Round ${round}: ${won.length} of 2 got the lease (${said.join(", ")}).`,
    );
    findings.expect(
      said.every((word) => word === "won" || word === "busy"),
      () => `Round ${round}: ${said.join(", ")}.`,
    );
    for (const taker of takers) taker.say("release");
    await Promise.all(takers.map((taker) => taker.line(heard)));
    heard += 1;
  }
  for (const { process } of takers) process.stdin!.end();
  await Promise.all(takers.map(({ over }) => over));
  return findings;
};
