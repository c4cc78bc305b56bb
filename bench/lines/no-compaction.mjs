import { fasterThan } from "../lib/line.mjs";
import { openRow } from "./open.mjs";

/** @type {import("../lib/line.mjs").Line} */
export const line = {
  name: "no-compaction",
  title: "Cold open + context where nothing was ever compacted",
  async run(bench) {
    const entries = Math.min(200_000, (bench.sizes.at(-1) ?? 1_000) * 2);
    const { path } = bench.session({ entries, compactions: false, branches: false });
    const row = await openRow(bench, path, `${entries.toLocaleString("en")} entries, all of them read`, {
      rounds: 2,
      ourRounds: 4,
      times: 1.8,
      hoped: undefined,
    });
    row.goals.unshift(fasterThan("Pi", row.figures.pi, row.figures.espalier, 1.8));
    return [row];
  },
};
