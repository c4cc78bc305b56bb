import { join } from "node:path";
import { fasterThan, within } from "../lib/line.mjs";

const FIRST = 50;

/** @type {import("../lib/line.mjs").Line} */
export const line = {
  name: "list",
  title: "List",
  async run(bench) {
    const home = bench.scratch();
    const folder = bench.sessions({ sessions: bench.count(1_000, 10), entries: bench.count(270, 10) });
    const unknown = await bench.alternate(
      {
        espalier: ["list", { folder, home: join(home, "none") }],
        pi: ["list", { folder }, { rounds: 2 }],
      },
      { rounds: 5 },
    );
    const { espalier, limit, pi } = await bench.alternate(
      {
        espalier: ["list", { folder, home: bench.scratch() }],
        limit: ["stat", { folder }],
        pi: ["list", { folder }, { rounds: 2 }],
      },
      { rounds: 5 },
    );
    const many = bench.sessions({ sessions: bench.count(10_000, 20), entries: 10 });
    const page = await bench.alternate(
      {
        espalier: ["list", { folder: many, home: bench.scratch(), first: FIRST }],
        limit: ["stat", { folder: many }],
      },
      { rounds: 5 },
    );
    return [
      {
        work: "1,000 sessions (600 MB), listed before",
        unit: "ms",
        figures: { espalier: espalier?.ms, pi: pi?.ms, limit: limit?.ms },
        goals: [fasterThan("Pi", pi?.ms, espalier?.ms, 200)],
      },
      {
        work: "the same, never listed before",
        unit: "ms",
        figures: { espalier: unknown.espalier?.ms, pi: unknown.pi?.ms, limit: limit?.ms },
        goals: [fasterThan("Pi", unknown.pi?.ms, unknown.espalier?.ms, 10)],
      },
      {
        work: `10,000 sessions, the ${FIRST} newest`,
        unit: "ms",
        figures: { espalier: page.espalier?.ms, limit: page.limit?.ms },
        goals: [within("readdir + stat of all", page.espalier?.ms, page.limit?.ms, 10)],
      },
    ];
  },
};
