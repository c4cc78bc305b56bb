import { atLeast, ratio } from "../lib/line.mjs";
import { sampleMessages } from "../lib/session-lines.mjs";

/** Messages that were said before: a few, and 400 KB of JSON. */
const BEFORE = [10, 300];

/** @type {import("../lib/line.mjs").Line} */
export const line = {
  name: "request",
  title:
    "A message for the log, and the body of the request that it ends, healed and rendered for its provider",
  async run(bench) {
    const rows = [];
    for (const before of BEFORE) {
      const count = bench.count(Math.max(20, before / 3), 5);
      const given = { messages: sampleMessages(before + count), before, count };
      const { espalier, limit, pi } = await bench.alternate(
        {
          espalier: ["request", { ...given, folder: bench.scratch() }],
          limit: ["request", { ...given, folder: bench.scratch() }],
          pi: ["request", { ...given, folder: bench.scratch() }],
        },
        { rounds: bench.count(9, 1), warmUp: bench.count(20, 0) },
      );
      const micro = (/** @type {{ ms: number } | undefined} */ one) => one && one.ms * 1_000;
      rows.push({
        work: `behind ${before} messages`,
        unit: "µs",
        figures: { espalier: micro(espalier), pi: micro(pi), limit: micro(limit) },
        goals: [atLeast("≥ 1.5 × as fast as Pi", ratio(pi?.ms, espalier?.ms), 1.5)],
      });
    }
    return rows;
  },
};
