import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { plotSvg } from "../lib/plot.mjs";
import { withFigures } from "../lib/results.mjs";

const results = {
  machine: { node: "v24.0.0", cores: 2, date: "2026-01-05" },
  lines: [
    {
      name: "open",
      title: "Open",
      rows: [{ work: "1M entries", unit: "ms", figures: { espalier: 5.128, pi: 23_087 }, goals: [] }],
    },
  ],
};
const page = "# A\n\n<!-- figures: written by bench/readme.mjs -->\nold\n<!-- /figures -->\n\nB\n";

describe("the README's figures", () => {
  test("are between the markers, with a dash for missing ones, and other text is not changed", () => {
    const text = withFigures(page, results);
    expect(text).toMatch(/^# A\n\n<!-- figures/);
    expect(text).toMatch(/<!-- \/figures -->\n\nB\n$/);
    expect(text).not.toContain("old");
    expect(text).toMatch(/1,000,000 entries, 2.2 GB\s+\| 5.13 ms\s+\| 23.1 s\s+\| –/);
    expect(withFigures(text, results)).toBe(text);
    expect(withFigures("# A\n", results)).toBeUndefined();
  });

  test("are those of the last results", () => {
    const script = fileURLToPath(new URL("../readme.mjs", import.meta.url));
    const { status, stderr } = spawnSync(process.execPath, [script, "--check"], { encoding: "utf8" });
    expect(stderr).not.toContain("are not those");
    expect(status).toBe(0);
  });
});

test("a curve has a point for each figure, and larger figures are higher", () => {
  const svg = plotSvg({
    title: "T",
    xTitle: "x",
    xText: String,
    yText: String,
    series: [{ name: "one", points: [1, 10, 100].map((x) => ({ x, y: x })) }],
  });
  const heights = [...svg.matchAll(/cy="([\d.]+)"/g)].map(([, height]) => Number(height));
  expect(heights).toHaveLength(3);
  expect(heights[0]).toBeGreaterThan(heights[1]);
  expect(heights[1]).toBeGreaterThan(heights[2]);
  expect(readFileSync(new URL("../../docs/performance.md", import.meta.url), "utf8")).toContain(".svg");
});
