import { atLeast } from "../lib/line.mjs";

/** More than Pi's objects find room for on the default heap. */
const ENTRIES = 1_350_000;

/** @type {import("../lib/line.mjs").Line} */
export const line = {
  name: "many-entries",
  title: "1.35 million entries on the default heap",
  async run(bench) {
    // Small texts: what fills a heap is how many entries there are.
    const { path } = bench.session({ entries: ENTRIES, scale: 0.1 });
    const whole = await bench.once("espalier", "whole", { path });
    return [
      {
        work: "open, context and the whole tree",
        unit: "ms",
        figures: { espalier: whole?.ms },
        facts: { peak: whole?.peak, entries: whole?.entries },
        goals: [atLeast("opens: all entries are there", whole?.entries, bench.isSmoke ? 300 : ENTRIES)],
      },
    ];
  },
};
