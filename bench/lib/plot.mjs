// Draws a plot with two logarithmic axes as SVG that is readable on light and dark pages.

import { sizeName } from "./results.mjs";

const WIDTH = 580;
const HEIGHT = 300;
const LEFT = 70;
const RIGHT = 170;
const TOP = 34;
const BOTTOM = 42;
const COLOURS = ["#2f8f5b", "#c2553d", "#8a6fc0", "#8a8a8a", "#b8862b", "#3f7fbf"];
const INK = "#808080";

export function plotSvg({ title, xTitle, xText, yText, series }) {
  const points = series.flatMap((each) => each.points);
  const x = axis(
    points.map((point) => point.x),
    LEFT,
    WIDTH - RIGHT,
    false,
  );
  const y = axis(
    points.map((point) => point.y),
    HEIGHT - BOTTOM,
    TOP,
    true,
  );
  const parts = [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${HEIGHT}" font-family="system-ui, sans-serif" font-size="12" fill="${INK}">`,
    `<title>${title}</title>`,
    `<text x="${LEFT}" y="18" font-size="14" font-weight="600">${title}</text>`,
  ];
  for (const tick of y.ticks) {
    const at = round(y.place(tick));
    parts.push(
      `<line x1="${LEFT}" x2="${WIDTH - RIGHT}" y1="${at}" y2="${at}" stroke="${INK}" stroke-opacity="0.25"/>`,
      `<text x="${LEFT - 8}" y="${at + 4}" text-anchor="end">${yText(tick)}</text>`,
    );
  }
  for (const tick of [...new Set(points.map((point) => point.x))])
    parts.push(
      `<text x="${round(x.place(tick))}" y="${HEIGHT - BOTTOM + 18}" text-anchor="middle">${xText(tick)}</text>`,
    );
  parts.push(
    `<text x="${(LEFT + WIDTH - RIGHT) / 2}" y="${HEIGHT - 6}" text-anchor="middle">${xTitle}</text>`,
  );
  const labels = apart(series.map((each) => round(y.place(each.points.at(-1)?.y ?? 1)) + 4));
  for (const [index, each] of series.entries()) {
    const colour = COLOURS[index % COLOURS.length];
    const places = each.points.map((point) => [round(x.place(point.x)), round(y.place(point.y))]);
    parts.push(`<polyline points="${places.join(" ")}" fill="none" stroke="${colour}" stroke-width="2"/>`);
    for (const [cx, cy] of places) parts.push(`<circle cx="${cx}" cy="${cy}" r="3" fill="${colour}"/>`);
    parts.push(`<text x="${WIDTH - RIGHT + 10}" y="${labels[index]}" fill="${colour}">${each.name}</text>`);
  }
  return `${parts.join("\n")}\n</svg>\n`;
}

/** A logarithmic axis from `start` to `end`; with `isWhole` its ticks are whole powers of ten. */
function axis(values, start, end, isWhole) {
  const logs = values.map((value) => Math.log10(value));
  const low = isWhole ? Math.floor(Math.min(...logs)) : Math.min(...logs);
  const high = isWhole ? Math.max(Math.ceil(Math.max(...logs)), low + 1) : Math.max(...logs, low + 0.1);
  return {
    place: (value) => start + ((Math.log10(value) - low) / (high - low)) * (end - start),
    ticks: Array.from({ length: Math.round(high - low) + 1 }, (_, at) => 10 ** (low + at)),
  };
}

/** Moves overlapping labels apart. */
function apart(places) {
  const order = places.map((_, index) => index).sort((a, b) => places[a] - places[b]);
  const moved = [...places];
  for (let at = 1; at < order.length; at++)
    moved[order[at]] = Math.max(moved[order[at]], moved[order[at - 1]] + 14);
  return moved;
}

const round = (value) => Math.round(value * 10) / 10;

const NAMES = {
  espalier: "Espalier",
  pi: "Pi 0.87.1",
  limit: "limit",
  langgraph: "LangGraph, memory",
  "langgraph sqlite": "LangGraph, SQLite",
  "langgraph on espalier": "LangGraph, Espalier",
  "langgraph postgres": "LangGraph, PostgreSQL",
  "langgraph on espalier postgres": "… Espalier in PostgreSQL",
};

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

/** Plots of the results, by name. */
export function plotsOf(results) {
  const rowsOf = (name) => results.lines.find((line) => line.name === name)?.rows ?? [];
  const turnsPlot = (title, yText, curve = []) => ({
    title,
    xTitle: "messages before it",
    xText: sizeName,
    yText,
    series: seriesOf(curve),
  });
  const [time, written] = rowsOf("turns");
  return {
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
    "turn-time": turnsPlot("Time of one turn", milliseconds, time?.curve),
    "turn-bytes": turnsPlot("Bytes written by one turn", bytes, written?.curve),
  };
}
