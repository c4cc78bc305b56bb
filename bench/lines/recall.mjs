import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";

/** @type {import("../lib/line.mjs").Line} */
export const line = {
  name: "recall",
  title: "What a summary made without a model still has of what is needed later (see recall.mjs)",
  async run(bench) {
    const script = fileURLToPath(new URL("../recall.mjs", import.meta.url));
    // It summarises a dozen times: not for a run that only looks whether everything runs.
    const output = bench.isSmoke ? "" : spawnSync(process.execPath, [script], { encoding: "utf8" }).stdout;
    const found = output.matchAll(/^(.+): recall ([\d.]+) with (\d+) tokens/gm);
    return [...found].map(([, name, recall, tokens]) => ({
      work: `${name}, in ${tokens} tokens`,
      unit: "of 1",
      figures: { espalier: Number(recall) },
      goals: [],
    }));
  },
};
