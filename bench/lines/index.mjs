import { fasterThan, within } from "../lib/line.mjs";
import { sizeName } from "../lib/results.mjs";

/** @type {import("../lib/line.mjs").Line} */
export const line = {
  name: "index",
  title: "Index of the whole tree",
  async run(bench) {
    const rows = [];
    for (const entries of bench.sizes.filter((size) => size >= 10_000 || bench.isSmoke)) {
      const { path } = bench.session({ entries });
      const { espalier, limit, pi } = await bench.alternate(
        {
          espalier: ["index", { path }],
          limit: ["newlines", { path }],
          pi: ["index", { path }, { rounds: 1, nodeOptions: ["--max-old-space-size=14000"] }],
        },
        { rounds: entries >= 1_000_000 ? 5 : 9 },
      );
      rows.push({
        work: `${sizeName(entries)} entries`,
        unit: "ms",
        figures: { espalier: espalier?.ms, pi: pi?.ms, limit: limit?.ms },
        // Of a large log: reading a small one is over before the runtime has made its code fast.
        goals:
          entries < 1_000_000 && !bench.isSmoke
            ? []
            : [
                fasterThan("Pi's open", pi?.ms, espalier?.ms, 30),
                within("counting newlines", espalier?.ms, limit?.ms, 2),
              ],
      });
    }
    return rows;
  },
};
