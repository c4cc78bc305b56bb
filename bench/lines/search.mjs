import { readdirSync } from "node:fs";
import { join } from "node:path";
import { within } from "../lib/line.mjs";

/** @type {import("../lib/line.mjs").Line} */
export const line = {
  name: "search",
  title: "Search",
  async run(bench) {
    const folder = bench.sessions({ sessions: bench.count(1_000, 10), entries: bench.count(270, 10) });
    const files = readdirSync(folder).map((name) => join(folder, name));
    const rows = [];
    for (const [query, work] of [
      ["zebra crossing", "a text that is nowhere, in 600 MB"],
      ["largest index timeout", "a rare text, in 600 MB"],
    ]) {
      const { espalier, limit } = await bench.alternate(
        { espalier: ["search", { files, query }], limit: ["grep", { files, query }] },
        { rounds: 3 },
      );
      rows.push({
        work,
        unit: "ms",
        figures: { espalier: espalier?.ms, limit: limit?.ms },
        facts: { hits: espalier?.hits, lines: limit?.hits },
        goals: [within("grep -c -i -F", espalier?.ms, limit?.ms, 4)],
      });
    }
    return rows;
  },
};
