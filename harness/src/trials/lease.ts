import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { EspalierError } from "@espalier/jsonl-stream";
import { Child, type Harness, say } from "../harness.ts";
import { storeNamed, writeSession } from "../stores.ts";

/** Two processes take the lease of a dead process at the same moment, again and again: exactly one succeeds. */
export const lease: Harness = {
  async run(options, findings) {
    const { folder, count, isShort } = options;
    const file = writeSession(join(folder, "lease.jsonl"));
    const own = await storeNamed("file", folder).lease({ file });
    const dead = JSON.stringify({ ...JSON.parse(readFileSync(`${file}.lease`, "utf8")), processStart: "1" });
    await own.release();
    const takers = [1, 2].map(() => new Child(options, ["lease", folder, file]));
    await Promise.all(takers.map((taker) => taker.line(0)));
    const rounds = count ?? (isShort ? 40 : 1_000);
    for (let round = 0; round < rounds; round += 1) {
      writeFileSync(`${file}.lease`, dead);
      writeFileSync(`${file}.lease-0123456789ab`, dead);
      const moment = `${Date.now() + 3}`;
      for (const taker of takers) taker.tell(moment);
      const answers = await Promise.all(takers.map((taker) => taker.line(1 + 2 * round)));
      findings.count("rounds");
      findings.expect(
        [...answers].sort().join() === "busy,won",
        `Round ${round}: ${answers.join(", ")} in place of one won and one busy.`,
      );
      for (const taker of takers) taker.tell("release");
      await Promise.all(takers.map((taker) => taker.line(2 + 2 * round)));
    }
    for (const { process } of takers) process.stdin!.end();
    await Promise.all(takers.map(({ over }) => over));
  },

  /** `<home> <file>`: takes the lease at each moment it is told, and says `won` or the error's code; `release` ends it. */
  async child([home, file]) {
    const store = storeNamed("file", home!);
    let release = async (): Promise<void> => undefined;
    say("ready");
    for await (const line of createInterface({ input: process.stdin })) {
      if (line === "release") {
        await release();
        say("released");
        continue;
      }
      // Both have the same moment, so that they meet.
      while (Date.now() < Number(line));
      try {
        const own = await store.lease({ file: file! });
        release = () => own.release();
        say("won");
      } catch (error) {
        if (!(error instanceof EspalierError)) throw error;
        say(error.code);
      }
    }
  },
};
