import { copyFileSync } from "node:fs";
import { join } from "node:path";
import { atMost, fasterThan, ratio } from "../lib/line.mjs";
import { sampleMessages } from "../lib/session-lines.mjs";

const MICRO = 1_000;

/** @type {import("../lib/line.mjs").Line} */
export const line = {
  name: "step",
  title: "One step of a running agent: append, context, tokens, judge the policy",
  async run(bench) {
    const messages = sampleMessages(200);
    const stepAt = async (entries) => {
      const folder = bench.scratch();
      const path = (name) => {
        const copy = join(folder, `${name}.jsonl`);
        copyFileSync(bench.session({ entries }).path, copy);
        return copy;
      };
      return bench.alternate(
        {
          espalier: ["step", { path: path("espalier"), messages }],
          limit: ["append", { folder, messages, batch: 1, count: 1_000 }],
          pi: ["step", { path: path("pi"), messages, steps: bench.count(15, 2) }, { rounds: 1 }],
        },
        { rounds: 3 },
      );
    };
    const small = await stepAt(1_000);
    const large = await stepAt(100_000);
    const micro = (/** @type {{ ms: number } | undefined} */ one) => one && one.ms * MICRO;
    const ours = micro(large.espalier);
    const limit = micro(large.limit);
    const beyond = ours === undefined || limit === undefined ? undefined : ours - limit;
    return [
      {
        work: "in a session of 100k entries",
        unit: "µs",
        figures: { espalier: ours, pi: micro(large.pi), limit },
        facts: { at1k: micro(small.espalier) },
        goals: [
          fasterThan("Pi", large.pi?.ms, large.espalier?.ms, 1_000),
          atMost("≤ 50 µs beyond stringify and write", beyond, 50),
          atMost("at 100k ≤ 1.2 × of 1k", ratio(large.espalier?.ms, small.espalier?.ms), 1.2),
        ],
      },
    ];
  },
};
