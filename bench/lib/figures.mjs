// The figures of the README, as a table between two markers.
import { rowOf } from "./results.mjs";
import { numberText } from "./table.mjs";

const BEGIN = "<!-- figures: written by bench/readme.mjs -->";
const END = "<!-- /figures -->";

/** Rows of the table: a line, the beginning of one of its rows, and how a reader would call it. */
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

/** The text with the figures of these results; undefined when it has no place for them. */
export function withFigures(
  /** @type {string} */ text,
  /** @type {import("./results.mjs").Results} */ results,
) {
  const from = text.indexOf(BEGIN);
  const to = text.indexOf(END, from);
  if (from < 0 || to < 0) return undefined;
  return `${text.slice(0, from + BEGIN.length)}\n\n${tableOf(results)}\n\n${text.slice(to)}`;
}

function tableOf(/** @type {import("./results.mjs").Results} */ results) {
  const rows = SHOWN.flatMap(([line, work, title]) => {
    const row = rowOf(results, line, work);
    return row
      ? [[title, ...["espalier", "pi", "limit"].map((name) => cell(row.figures[name], row.unit))]]
      : [];
  });
  const header = ["", "Espalier", "Pi 0.87.1", "the machine's limit"];
  const widths = header.map((name, at) =>
    Math.max(3, ...[name, ...rows.map((row) => row[at])].map((each) => each.length)),
  );
  const line = (/** @type {string[]} */ cells) =>
    `| ${cells.map((each, at) => each.padEnd(widths[at])).join(" | ")} |`;
  const rule = `| ${widths.map((width) => "-".repeat(width)).join(" | ")} |`;
  const { node, cores, date } = results.machine;
  return [
    [line(header), rule, ...rows.map(line)].join("\n"),
    `Node ${String(node).replace(/^v/, "")}, ${cores} cores, ${date}; \`npm run bench\` measures it again.`,
  ].join("\n\n");
}

function cell(/** @type {number | undefined} */ value, /** @type {string} */ unit) {
  if (value === undefined) return "–";
  if (unit === "µs" && value >= 1_000) return cell(value / 1_000, "ms");
  if (unit === "ms" && value >= 1_000) return `${numberText(value / 1_000)} s`;
  return `${numberText(value)} ${unit}`;
}
