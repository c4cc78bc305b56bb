import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import type { ContextMessage } from "@espalier/session-tree";
import { describe, expect, it } from "vitest";
import { ask } from "./extractive-sessions.ts";

const shared = (path: string) => fileURLToPath(new URL(`../../../../shared/${path}`, import.meta.url));
const corpus = shared("corpus/pi/large-session.jsonl");
const tool = shared("tools/recall.mjs");

/** One point of a real session: what stands before it, and what is said after it. */
interface Cut {
  history: ContextMessage[];
}
interface RecallTool {
  load(file: string): ContextMessage[];
  cuts(messages: ContextMessage[], keep?: number, points?: number): Iterable<Cut>;
  score(summary: string, cut: Cut): { recall: number; tokens: number } | null;
}

const isHere = existsSync(corpus) && existsSync(tool);

describe.skipIf(!isHere)(
  `strings a real session uses again${isHere ? "" : " (skipped: no corpus beside the repository)"}`,
  () => {
    it.each([
      [20_000, 6, 0.6],
      [5_000, 8, 0.6],
    ])("stand in the summary, with a tail of %i tokens kept", async (keep, points, least) => {
      const { cuts, load, score } = (await import(tool)) as RecallTool;
      const scores: { recall: number; tokens: number }[] = [];
      for (const cut of cuts(load(corpus), keep, points)) {
        const scored = score((await ask(cut.history)).text, cut);
        if (scored !== null) scores.push(scored);
      }
      const mean = (key: "recall" | "tokens") =>
        scores.reduce((sum, scored) => sum + scored[key], 0) / scores.length;
      expect(scores.length).toBeGreaterThanOrEqual(6);
      expect(mean("recall")).toBeGreaterThanOrEqual(least);
      expect(mean("tokens")).toBeLessThanOrEqual(2_000);
    });
  },
);
