import { fasterThan, within } from "../lib/line.mjs";
import { sizeName } from "../lib/results.mjs";

/** @type {import("../lib/line.mjs").Line} */
export const line = {
  name: "old-leaf",
  title: "Context at an old leaf",
  async run(bench) {
    const entries = bench.sizes.at(-1) ?? 1_000;
    const { path, landmarks, entries: count } = bench.session({ entries });
    const { id } = landmarks.findLast(({ at }) => at <= count / 10) ?? landmarks[0];
    const all = await bench.alternate(
      {
        espalier: ["oldLeaf", { path, id }],
        limit: ["newlines", { path }],
        pi: ["oldLeaf", { path, id }, { rounds: 1, nodeOptions: ["--max-old-space-size=14000"] }],
      },
      { rounds: 5, warmUp: 2 },
    );
    const { espalier, limit, pi } = all;
    return [
      {
        work: `at 10 % of ${sizeName(entries)}, the second time`,
        unit: "ms",
        figures: { espalier: espalier?.again, pi: pi?.first, limit: espalier?.newest },
        goals: [
          fasterThan("Pi", pi?.first, espalier?.again, 1_000),
          within("the newest leaf's", espalier?.again, espalier?.newest, 3),
        ],
      },
      {
        work: `at 10 % of ${sizeName(entries)}, the first time`,
        unit: "ms",
        figures: { espalier: espalier?.first, pi: pi?.first, limit: limit?.ms },
        goals: [within("counting newlines: one scan of the file", espalier?.first, limit?.ms, 2)],
      },
    ];
  },
};
