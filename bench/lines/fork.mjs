import { fasterThan, within } from "../lib/line.mjs";

/** @type {import("../lib/line.mjs").Line} */
export const line = {
  name: "fork",
  title: "Fork",
  async run(bench) {
    const recipe = { entries: 100_000, compactions: false, branches: false, labels: false };
    const { path, leaf } = bench.session(recipe);
    const folder = bench.scratch();
    const { espalier, limit, pi } = await bench.alternate(
      {
        espalier: ["fork", { path, leaf, folder }],
        limit: ["copy", { path, folder }],
        pi: ["fork", { path, leaf, folder: bench.scratch() }, { rounds: 2 }],
      },
      { rounds: 3 },
    );
    return [
      {
        work: "a path of 100k entries",
        unit: "ms",
        figures: { espalier: espalier?.ms, pi: pi?.ms, limit: limit?.ms },
        goals: [
          fasterThan("Pi", pi?.ms, espalier?.ms, 5),
          within("copying and syncing those bytes", espalier?.ms, limit?.ms, 3),
        ],
        facts: { synced: espalier?.synced, limitSynced: limit?.synced },
      },
      {
        work: "the same without the wait for the disk, which Pi leaves out",
        unit: "ms",
        figures: { espalier: espalier?.unsynced, pi: pi?.ms, limit: limit?.unsynced },
        goals: [
          fasterThan("Pi", pi?.ms, espalier?.unsynced, 5),
          within("copying those bytes", espalier?.unsynced, limit?.unsynced, 3),
        ],
      },
    ];
  },
};
