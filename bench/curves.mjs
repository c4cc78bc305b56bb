// Draws docs/performance/*.svg from results.json: node bench/curves.mjs
import { mkdirSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { plotSvg } from "./lib/plot.mjs";
import { readResults, sizeName } from "./lib/results.mjs";

const NAMES = {
  espalier: "Espalier",
  pi: "Pi 0.87.1",
  limit: "limit",
  langgraph: "LangGraph, memory",
  "langgraph sqlite": "LangGraph, SQLite",
};
const folder = fileURLToPath(new URL("../docs/performance/", import.meta.url));
const results = readResults();
if (!results) {
  console.error("There are no results yet; run `npm run bench` first.");
  process.exit(1);
}
const rowsOf = (name) => results.lines.find((line) => line.name === name)?.rows ?? [];

/** @returns {{ name: string, points: { x: number, y: number }[] }[]} */
function seriesOf(points) {
  const keys = [...new Set(points.flatMap((point) => Object.keys(point)))].filter((key) => key !== "x");
  return keys
    .map((key) => ({
      name: NAMES[key] ?? key,
      points: points.filter((point) => point[key] > 0).map((point) => ({ x: point.x, y: point[key] })),
    }))
    .filter((series) => series.points.length > 0);
}

const milliseconds = (value) => (value >= 1_000 ? `${value / 1_000} s` : `${value} ms`);
const bytes = (value) => {
  const names = ["B", "KB", "MB", "GB"];
  const step = Math.min(names.length - 1, Math.floor(Math.log10(value) / 3));
  return `${value / 1_000 ** step} ${names[step]}`;
};
const entriesIn = (work) =>
  Number.parseFloat(work) * (work.includes("M") ? 1e6 : work.includes("k") ? 1e3 : 1);
const turns = rowsOf("turns");
const plots = {
  open: {
    title: "Open a session and build its context",
    xTitle: "entries in the file",
    xText: sizeName,
    yText: milliseconds,
    series: seriesOf(
      rowsOf("open")
        .filter(({ work }) => work.endsWith("entries"))
        .map(({ work, figures }) => ({ x: entriesIn(work), ...figures })),
    ),
  },
  "turn-time": {
    title: "Time of one turn",
    xTitle: "messages before it",
    xText: sizeName,
    yText: milliseconds,
    series: seriesOf(turns[0]?.curve ?? []),
  },
  "turn-bytes": {
    title: "Bytes written by one turn",
    xTitle: "messages before it",
    xText: sizeName,
    yText: bytes,
    series: seriesOf(turns[1]?.curve ?? []),
  },
};
mkdirSync(folder, { recursive: true });
for (const [name, plot] of Object.entries(plots))
  if (plot.series.length > 0) writeFileSync(`${folder}${name}.svg`, plotSvg(plot));
