import { copyFileSync } from "node:fs";
import { join } from "node:path";
import { atMost } from "../lib/line.mjs";
import { sampleMessages } from "../lib/session-lines.mjs";

/** @type {import("../lib/line.mjs").Line} */
export const line = {
  name: "deciding",
  title: "Deciding whether to compact",
  async run(bench) {
    const path = join(bench.scratch(), "session.jsonl");
    copyFileSync(bench.session({ entries: 10_000 }).path, path);
    const message = sampleMessages(20).at(-1);
    const { espalier: decided } = await bench.alternate(
      { espalier: ["decide", { path, message }] },
      { rounds: 3 },
    );
    const long = bench.session({ entries: 2_000, compactions: false, branches: false });
    const { espalier: pruned } = await bench.alternate(
      { espalier: ["prune", { path: long.path, count: 1_000 }] },
      { rounds: 3 },
    );
    const row = (work, ms, bound) => ({
      work,
      unit: "ms",
      figures: { espalier: ms },
      goals: [atMost(`< ${bound} ms`, ms, bound)],
    });
    return [
      row("judging the policy at a context of 100,000 tokens", decided?.judge, 1),
      row("estimating the context when one message is new", decided?.estimate, 1),
      row("pruning 1,000 messages to a third", pruned?.ms, 10),
    ];
  },
};
