import { fasterThan } from "../lib/line.mjs";
import { sampleMessages } from "../lib/session-lines.mjs";

const CALLERS = 16;

/** @type {import("../lib/line.mjs").Line} */
export const line = {
  name: "sync",
  title: "Append that survives the loss of power",
  async run(bench) {
    const given = {
      folder: bench.scratch(),
      messages: sampleMessages(64),
      callers: CALLERS,
      rounds: bench.count(40, 2),
    };
    const { espalier, limit } = await bench.alternate(
      { espalier: ["sync", given], limit: ["sync", given] },
      { rounds: 3 },
    );
    return [
      {
        work: `${CALLERS} callers at once, a message each`,
        unit: "ms",
        figures: { espalier: espalier?.ms, limit: limit?.ms },
        goals: [fasterThan("one fdatasync each", limit?.ms, espalier?.ms, 2.5)],
      },
    ];
  },
};
