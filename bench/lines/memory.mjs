import { atLeast, atMost, ratio } from "../lib/goal.mjs";
import { sizeName } from "../lib/size-name.mjs";

const BYTES_PER_ENTRY = 48;

/** @type {import("../lib/line.mjs").Line} */
export const line = {
  name: "memory",
  title: "Memory",
  async run(bench) {
    const entries = bench.sizes.at(-1) ?? 1_000;
    const { path, entries: count } = bench.session({ entries });
    const nodeOptions = ["--max-old-space-size=14000"];
    const context = await bench.alternate(
      {
        espalier: ["open", { path }],
        limit: ["nothing"],
        pi: ["open", { path }, { rounds: 1, nodeOptions }],
      },
      { rounds: 3, fresh: true },
    );
    const { espalier: tree } = await bench.alternate(
      { espalier: ["index", { path }] },
      { rounds: 3, fresh: true },
    );
    return [
      {
        work: `peak of the process with the context, ${sizeName(entries)}`,
        unit: "MB",
        figures: { espalier: context.espalier?.peak, pi: context.pi?.peak, limit: context.limit?.peak },
        goals: [atLeast("≤ 1/40 of Pi's", ratio(context.pi?.peak, context.espalier?.peak), 40)],
      },
      {
        work: `peak of the process with the whole tree, ${sizeName(entries)}`,
        unit: "MB",
        figures: { espalier: tree?.peak, pi: context.pi?.peak, limit: context.limit?.peak },
        facts: { bytesPerEntry: tree?.bytesPerEntry, entries: count },
        goals: [
          atLeast("≤ 1/25 of Pi's", ratio(context.pi?.peak, tree?.peak), 25),
          atMost("≤ 48 bytes an entry in the index", tree?.bytesPerEntry, BYTES_PER_ENTRY),
        ],
      },
    ];
  },
};
