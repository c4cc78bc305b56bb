// Texts, logs and histories that are built to be slow: the time may grow with their size, and not with its square.
import { atMost, rowOf } from "../lib/goal.mjs";

const slow = {
  name: "slow",
  title: "Inputs that are built to be slow",
  async run(bench) {
    const { titles = [] } = (await bench.once("slow", "titles")) ?? {};
    const rows = [];
    for (const title of titles) {
      const answer = await bench.once("slow", "growth", { title, isSmoke: bench.isSmoke });
      const { name, growth, ms, inputs } = answer ?? {};
      const work = `${title}, ${inputs} inputs, the worst at eight times the size: ${name}`;
      rows.push(
        rowOf(work, "×", growth, [atMost("≤ 32 × (its square: 64 ×)", growth, 32)], { facts: { ms } }),
      );
    }
    return rows;
  },
};

export const lines = [slow];
