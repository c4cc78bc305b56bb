import { atMost, fasterThan, ratio, stretch, within } from "../lib/line.mjs";
import { sizeName } from "../lib/results.mjs";

/** Entries: times faster than Pi, and with how much luck. */
const AGAINST_PI = { 1000: [3, 4], 10000: [30, 40], 100000: [200, 300], 1000000: [2_000, 5_000] };

/** @type {import("../lib/line.mjs").Line} */
export const line = {
  name: "open",
  title: "Cold open + context",
  async run(bench) {
    const rows = [];
    for (const entries of bench.sizes) {
      const { path } = bench.session({ entries });
      const row = await openRow(bench, path, `${sizeName(entries)} entries`, {
        rounds: entries >= 1_000_000 ? 1 : entries >= 100_000 ? 3 : 9,
      });
      const [wanted, hoped] = AGAINST_PI[entries] ?? [1, 1];
      const { pi, espalier } = row.figures;
      row.goals.unshift(
        fasterThan("Pi", pi, espalier, wanted),
        stretch(fasterThan("Pi", pi, espalier, hoped)),
      );
      rows.push(row);
    }
    const cost = (entries) => {
      const row = rows[bench.sizes.indexOf(entries)];
      return row && ratio(row.figures.espalier, row.facts.contextBytes);
    };
    if (rows.length > 0)
      rows
        .at(-1)
        .goals.push(atMost("per byte of context 1M ≤ 2 × of 10k", ratio(cost(1_000_000), cost(10_000)), 2));
    rows.push(await farSettingRow(bench));
    return rows;
  },
};

/** A session whose compactions do not record the settings, and whose first lines alone name the thinking level. */
async function farSettingRow(bench) {
  const entries = Math.min(100_000, bench.sizes.at(-1) ?? 1_000);
  const { path } = bench.session({ entries, thinking: false });
  const { espalier, limit } = await bench.alternate(
    { espalier: ["open", { path }], limit: ["newlines", { path }] },
    { rounds: 5 },
  );
  return {
    work: `a setting that only the first of ${sizeName(entries)} entries names: one pass back`,
    unit: "ms",
    figures: { espalier: espalier?.ms, limit: limit?.ms },
    goals: [within("counting newlines", espalier?.ms, limit?.ms, 3)],
  };
}

/** Opening one file against Pi, and against reading and parsing what is read. */
export async function openRow(bench, path, work, { rounds, ourRounds = 15, times = 2.5, hoped = 1.5 }) {
  const { spans } = (await bench.once("espalier", "spans", { path })) ?? { spans: [] };
  const all = await bench.alternate(
    {
      espalier: ["open", { path }],
      limit: ["parse", { path, spans }],
      pi: ["open", { path }, { rounds, nodeOptions: ["--max-old-space-size=14000"] }],
    },
    { rounds: ourRounds, warmUp: 4 },
  );
  const { espalier, pi, limit } = all;
  if (espalier && pi && pi.messages !== espalier.messages)
    throw new Error(`Pi reads ${pi.messages} messages of ${path}, Espalier ${espalier.messages}.`);
  const bound = "reading and parsing the context's bytes";
  return {
    work,
    unit: "ms",
    figures: { espalier: espalier?.ms, pi: pi?.ms, limit: limit?.ms },
    facts: { contextBytes: limit?.bytes, messages: espalier?.messages },
    goals: [
      within(bound, espalier?.ms, limit?.ms, times),
      ...(hoped ? [stretch(within(bound, espalier?.ms, limit?.ms, hoped))] : []),
    ],
  };
}
