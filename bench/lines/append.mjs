import { atLeast, ratio, within } from "../lib/line.mjs";
import { sampleMessages } from "../lib/session-lines.mjs";

const BATCH = 16;

/** Rounds that do not count: what is measured is a process that has run for a while, and all contenders are faster then. */
const WARM_UP = 12;

/** Each in rounds of so many appends. */
const WORKS = [
  { work: "one message", batch: 1, count: 1_000, timesPi: 0.75, timesLimit: 1.6 },
  { work: `a message in a batch of ${BATCH}`, batch: BATCH, count: 1_000, timesPi: 3, timesLimit: 1.6 },
];

/** @type {import("../lib/line.mjs").Line} */
export const line = {
  name: "append",
  title: "Append, in the file when it answers, and read back",
  async run(bench) {
    const messages = sampleMessages(400);
    const rows = [];
    for (const { work, batch, count, timesPi, timesLimit } of WORKS) {
      const given = { messages, batch, count: bench.count(count, 20) };
      const folder = bench.scratch();
      const { espalier, limit, pi } = await bench.alternate(
        {
          espalier: ["append", { ...given, folder }],
          limit: ["append", { ...given, folder }],
          pi: ["append", { ...given, folder: bench.scratch() }],
        },
        { rounds: bench.count(5, 1), warmUp: bench.count(WARM_UP, 0) },
      );
      const micro = (one) => one && (one.ms * 1_000) / batch;
      rows.push({
        work,
        unit: "µs",
        figures: { espalier: micro(espalier), pi: micro(pi), limit: micro(limit) },
        goals: [
          atLeast(`≥ ${timesPi} × as fast as Pi`, ratio(pi?.ms, espalier?.ms), timesPi),
          within("stringify + write", espalier?.ms, limit?.ms, timesLimit),
        ],
      });
    }
    // What of the goals is out of reach: these calls are the promise, whoever makes them.
    const { limit } = await bench.alternate(
      {
        limit: ["keptAppend", { messages, batch: 1, count: bench.count(1_000, 20), folder: bench.scratch() }],
      },
      { rounds: bench.count(5, 1), warmUp: bench.count(WARM_UP, 0) },
    );
    rows.push({
      work: "one message: stringify, look who stands at the path, write, read back, and nothing else",
      unit: "µs",
      figures: { limit: limit && limit.ms * 1_000 },
      goals: [],
    });
    return rows;
  },
};
