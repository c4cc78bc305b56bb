import { atLeast, ratio, within } from "../lib/goal.mjs";
import { sampleMessages } from "../lib/sample-messages.mjs";

const BATCH = 16;

/** @type {import("../lib/line.mjs").Line} */
export const line = {
  name: "append",
  title: "Append, in the file when it answers, and read back",
  async run(bench) {
    const messages = sampleMessages(400);
    const rows = [];
    for (const [batch, times] of [
      [1, 0.75],
      [BATCH, 3],
    ]) {
      const folder = bench.scratch();
      const { espalier, limit, pi } = await bench.alternate(
        {
          espalier: ["append", { folder, messages, batch }],
          limit: ["append", { folder, messages, batch }],
          pi: ["append", { folder: bench.scratch(), messages, batch }],
        },
        { rounds: bench.count(5, 1) },
      );
      const micro = (one) => one && (one.ms * 1_000) / batch;
      rows.push({
        work: batch === 1 ? "one message" : `a message in a batch of ${batch}`,
        unit: "µs",
        figures: { espalier: micro(espalier), pi: micro(pi), limit: micro(limit) },
        goals: [
          atLeast(`≥ ${times} × as fast as Pi`, ratio(pi?.ms, espalier?.ms), times),
          within("stringify + write", espalier?.ms, limit?.ms, 1.6),
        ],
      });
    }
    return rows;
  },
};
