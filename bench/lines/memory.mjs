import { atLeast, atMost, ratio } from "../lib/goal.mjs";
import { sizeName } from "../lib/results.mjs";

const BYTES_PER_ENTRY = 48;

const peakOf = ({ peak }) => peak;

const memory = {
  name: "memory",
  title: "Memory",
  async run(bench) {
    const entries = bench.sizes.at(-1) ?? 1_000;
    const { path, entries: count } = bench.session({ entries });
    const nodeOptions = ["--max-old-space-size=14000"];
    const context = await bench.row({
      work: `peak of the process with the context, ${sizeName(entries)}`,
      unit: "MB",
      tasks: {
        espalier: ["open", { path }],
        limit: ["nothing"],
        pi: ["open", { path }, { rounds: 1, nodeOptions }],
      },
      rounds: 3,
      fresh: true,
      of: peakOf,
      goals: ({ espalier, pi }) => [atLeast("≤ 1/40 of Pi's", ratio(pi, espalier), 40)],
    });
    const { pi, limit } = context.figures;
    const tree = await bench.row({
      work: `peak of the process with the whole tree, ${sizeName(entries)}`,
      unit: "MB",
      tasks: { espalier: ["index", { path, countsBytes: true }] },
      rounds: 3,
      fresh: true,
      of: peakOf,
      goals: ({ espalier }, answers) => [
        atLeast("≤ 1/25 of Pi's", ratio(pi, espalier), 25),
        atMost("≤ 48 bytes an entry in the index", answers.espalier?.bytesPerEntry, BYTES_PER_ENTRY),
      ],
      facts: ({ espalier }) => ({ bytesPerEntry: espalier?.bytesPerEntry, entries: count }),
    });
    return [context, { ...tree, figures: { ...tree.figures, pi, limit } }];
  },
};

export const lines = [memory];
