// The last results by line, the table of figures in the README (between two markers), and tables for people.
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

export const resultsPath = fileURLToPath(new URL("../results.json", import.meta.url));

/** @typedef {{ machine: Record<string, string | number>, lines: { name: string, title: string, rows: import("./goal.mjs").Row[] }[] }} Results */

/** @returns {Results | undefined} undefined before the first run */
export function readResults() {
  try {
    return JSON.parse(readFileSync(resultsPath, "utf8"));
  } catch (error) {
    if (error.code === "ENOENT") return undefined;
    throw error;
  }
}

const BEGIN = "<!-- figures: written by bench/readme.mjs -->";
const END = "<!-- /figures -->";

/** Rows of the README's table: a line, the beginning of a row's `work`, and its name for readers. */
const SHOWN = [
  ["open", "1k ", "Open and build the context, 1,000 entries"],
  ["open", "100k ", "… 100,000 entries, 220 MB"],
  ["open", "1M ", "… 1,000,000 entries, 2.2 GB"],
  ["index", "1M ", "Index of all entries and branches, 1,000,000"],
  ["memory", "peak of the process with the context, 1M", "Memory of a process that has opened 1,000,000"],
  ["step", "in a session", "One step of an agent at 100,000 entries"],
  ["append", "one message", "Append a message, read back"],
  ["fork", "a path", "Fork a path of 100,000 entries"],
  ["list", "the same", "List 1,000 sessions, 600 MB, for the first time"],
  ["list", "1,000 sessions", "… and again"],
  ["search", "a text that is nowhere", "Search 600 MB for a text"],
];

/** Returns the text with the figures of these results; undefined if it has no markers. */
export function withFigures(text, results) {
  const from = text.indexOf(BEGIN);
  const to = text.indexOf(END, from);
  if (from < 0 || to < 0) return undefined;
  return `${text.slice(0, from + BEGIN.length)}\n\n${figuresTable(results)}\n\n${text.slice(to)}`;
}

function figuresTable(results) {
  const rows = SHOWN.flatMap(([name, work, title]) => {
    const line = results.lines.find((line) => line.name === name);
    const row = line?.rows.find((row) => row.work.startsWith(work));
    return row
      ? [[title, ...["espalier", "pi", "limit"].map((name) => cell(row.figures[name], row.unit))]]
      : [];
  });
  const header = ["", "Espalier", "Pi 0.87.1", "the machine's limit"];
  const widths = header.map((name, at) =>
    Math.max(3, ...[name, ...rows.map((row) => row[at])].map((each) => each.length)),
  );
  const line = (cells) => `| ${cells.map((each, at) => each.padEnd(widths[at])).join(" | ")} |`;
  const rule = `| ${widths.map((width) => "-".repeat(width)).join(" | ")} |`;
  const { node, cores, date } = results.machine;
  return [
    [line(header), rule, ...rows.map(line)].join("\n"),
    `Node ${String(node).replace(/^v/, "")}, ${cores} cores, ${date}; \`npm run bench\` measures it again.`,
  ].join("\n\n");
}

function cell(value, unit) {
  if (value === undefined) return "–";
  if (unit === "µs" && value >= 1_000) return cell(value / 1_000, "ms");
  if (unit === "ms" && value >= 1_000) return `${numberText(value / 1_000)} s`;
  return `${numberText(value)} ${unit}`;
}

/** A line as a table with its rows. */
export function tableOf(title, rows) {
  const parts = [`\n${title}`];
  for (const { work, unit, figures, goals } of rows) {
    const shown = Object.entries(figures)
      .filter(([, value]) => value !== undefined)
      .map(([name, value]) => `${name} ${numberText(value)} ${unit}`);
    parts.push(`  ${work}: ${shown.join(", ")}`);
    for (const goal of goals)
      parts.push(
        `    ${mark(goal)} ${goal.text}${goal.value === null ? "" : ` (${numberText(goal.value)})`}`,
      );
  }
  return parts.join("\n");
}

/** Sentence with the number of goals that hold. */
export function verdictOf(lines) {
  const goals = lines
    .flatMap(({ rows }) => rows.flatMap((row) => row.goals))
    .filter(({ isStretch }) => !isStretch);
  const count = (holds) => goals.filter((goal) => goal.holds === holds).length;
  return `\n${count(true)} goals hold, ${count(false)} do not, ${count(null)} were not measured.`;
}

function mark({ holds, isStretch }) {
  if (holds === null) return "?";
  if (holds) return "✓";
  return isStretch ? "·" : "✗";
}

/** Formats a number with three significant digits. */
function numberText(value) {
  if (value >= 100) return Math.round(value).toLocaleString("en");
  return `${Number(value.toPrecision(3))}`;
}

/** Formats 1,000 as 1k and 1,000,000 as 1M. */
export function sizeName(count) {
  if (count >= 1_000_000) return `${count / 1_000_000}M`;
  return count >= 1_000 ? `${count / 1_000}k` : `${count}`;
}
