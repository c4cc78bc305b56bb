import { atMost, fasterThan, ratio } from "../lib/line.mjs";

const SETTINGS = { keepRecentTokens: 20_000 };

/** @type {import("../lib/line.mjs").Line} */
export const line = {
  name: "plan",
  title: "Plans",
  async run(bench) {
    const plans = async (entries) => {
      const { path, landmarks, leaf } = bench.session({ entries });
      const { id } = landmarks.at(-1) ?? {};
      const plan = await bench.alternate(
        {
          espalier: ["plan", { path, settings: SETTINGS }],
          pi: ["plan", { path, settings: SETTINGS }, { rounds: 1 }],
        },
        { rounds: 3 },
      );
      const collect = await bench.alternate(
        {
          espalier: ["collect", { path, from: leaf, to: id }],
          pi: ["collect", { path, from: leaf, to: id }, { rounds: 1 }],
        },
        { rounds: 3 },
      );
      return { plan, collect };
    };
    const small = await plans(1_000);
    const large = await plans(100_000);
    const row = (work, what, more) => ({
      work,
      unit: "ms",
      figures: { espalier: large[what].espalier?.ms, pi: large[what].pi?.ms },
      goals: [fasterThan("Pi", large[what].pi?.ms, large[what].espalier?.ms, 100), ...more],
    });
    const ofSmall = ratio(large.plan.espalier?.ms, small.plan.espalier?.ms);
    const { entries } = large.collect.espalier ?? {};
    return [
      row("a compaction at 100k entries", "plan", [
        atMost("cost of the kept part: at 100k ≤ 2 × of 1k", ofSmall, 2),
      ]),
      row(`what a branch of ${entries} entries says, at 100k entries`, "collect", [
        atMost(
          "cost of the branch: ≤ 20 µs an entry",
          ratio((large.collect.espalier?.ms ?? Number.NaN) * 1_000, entries),
          20,
        ),
      ]),
    ];
  },
};
