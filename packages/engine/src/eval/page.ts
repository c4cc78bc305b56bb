// Report as one page for a browser: no script, no network, light and dark.
import { formatCost } from "../reading/figures.ts";
import type { JudgedSession } from "./judge.ts";
import { CATEGORIES } from "./probes.ts";
import {
  COLUMNS,
  type Column,
  type DetailedRow,
  type Report,
  type Row,
  type SessionReport,
} from "./report.ts";

/** Makes the page of a report; the same report always gives the same page. */
export function reportPage(report: Report): string {
  const measured = report.sessions.filter(({ skipped }) => skipped === null);
  const names = measured.map(({ session }) => session).join(", ");
  const body = [
    "<h1>What a compaction keeps</h1>",
    `<p>${measured.length === 0 ? "No session could be measured." : `${textOf(measured.length === 1 ? "Session" : `Mean of ${measured.length} sessions`)}: ${textOf(names)}.`}</p>`,
    ...(report.mean.length > 0
      ? [
          figure("What the summary carries", carriedPicture(drawn(report.mean)), CARRIED),
          "<h2>All figures</h2>",
          tableOf(report.mean),
          LEGEND,
        ]
      : []),
    ...(report.judged ?? []).map(judgedPart),
    ...report.sessions.map(sessionPart),
  ];
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>What a compaction keeps</title>
<style>${STYLE}</style>
</head>
<body>
<main>
${body.join("\n")}
</main>
</body>
</html>
`;
}

const STYLE = `
:root { color-scheme: light dark; --ink: #1d2329; --soft: #66707a; --line: #d9dee3; --page: #ffffff; --card: #f6f8fa;
  --c0: #2f7d52; --c1: #b8522f; --c2: #6d55b0; --c3: #26709e; --c4: #8a6d1b; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e8ec; --soft: #98a2ad; --line: #38414a; --page: #14181c; --card: #1c2227;
  --c0: #5cc48c; --c1: #ee8a66; --c2: #a994ea; --c3: #66b4e4; --c4: #d6b758; } }
body { margin: 0; background: var(--page); color: var(--ink); font: 15px/1.5 system-ui, sans-serif; }
main { max-width: 1100px; margin: 0 auto; padding: 24px 20px 60px; }
h1 { font-size: 26px; margin: 0 0 4px; } h2 { font-size: 19px; margin: 36px 0 8px; } h3 { font-size: 15px; margin: 20px 0 6px; }
p { margin: 0 0 10px; } .soft { color: var(--soft); font-size: 13.5px; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; font-size: 13px; font-variant-numeric: tabular-nums; }
th { color: var(--soft); font-weight: 600; } th, td { padding: 3px 9px; text-align: right; white-space: nowrap; border-bottom: 1px solid var(--line); }
th:nth-child(-n+2), td:nth-child(-n+2) { text-align: left; } tr.control td { color: var(--soft); }
figure { margin: 18px 0; } figcaption { font-weight: 600; margin-bottom: 2px; } svg { display: block; width: 100%; height: auto; max-width: 900px; }
svg text { fill: var(--ink); font: 12.5px system-ui, sans-serif; } svg .soft { fill: var(--soft); font-size: 12.5px; } svg .axis { stroke: var(--line); }
details { margin: 8px 0; } summary { cursor: pointer; color: var(--soft); } ul { margin: 4px 0 10px; padding-left: 22px; }
code { font-size: 12.5px; overflow-wrap: anywhere; }
`;

/** Escapes a text of a session or a person for the page. */
const textOf = (text: string): string =>
  text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);

const nameOf = ({ policy, summarizer }: Pick<Row, "policy" | "summarizer">): string =>
  policy === null ? `${summarizer}, at once` : `${policy}, ${summarizer}`;

/** Rows to draw: real summarizers, and the ends of the scale. */
const drawn = (rows: readonly Row[]): Row[] =>
  rows.filter(({ isControl, policy, rounds }) => rounds > 0 && (!isControl || policy === null));

const CARRIED = "Share of each that it has, from 0 to 1. Controls are below the line.";

const figure = (caption: string, picture: string, note: string): string =>
  `<figure><figcaption>${caption}</figcaption><p class="soft">${note}</p>${picture}</figure>`;

const count = (value: number): string => Math.round(value).toLocaleString("en-US");
const share = (value: number): string => value.toFixed(2);

const ROW_HEIGHT = 22;
const NAMES_WIDTH = 190;

function carriedPicture(rows: readonly Row[]): string {
  const columns = ["reach", "user", "found", "state"] as const;
  const [width, top] = [820, 42];
  const height = top + rows.length * ROW_HEIGHT + 6;
  const x = (value: number) => round(NAMES_WIDTH + value * (width - NAMES_WIDTH - 24));
  const parts = columns.map(
    (column, at) =>
      `<circle cx="${NAMES_WIDTH + at * 110}" cy="10" r="5" fill="var(--c${at})"/><text x="${NAMES_WIDTH + 10 + at * 110}" y="14">${column}</text>`,
  );
  for (const tick of [0, 0.25, 0.5, 0.75, 1])
    parts.push(
      `<line class="axis" x1="${x(tick)}" x2="${x(tick)}" y1="${top}" y2="${height}"/><text class="soft" x="${x(tick)}" y="${top - 6}" text-anchor="middle">${tick}</text>`,
    );
  rows.forEach((row, at) => {
    const y = top + at * ROW_HEIGHT + ROW_HEIGHT / 2;
    if (row.isControl && !rows[at - 1]?.isControl)
      parts.push(
        `<line class="axis" x1="0" x2="${width}" y1="${y - ROW_HEIGHT / 2}" y2="${y - ROW_HEIGHT / 2}"/>`,
      );
    parts.push(
      `<text x="0" y="${y + 4}"${row.isControl ? ' class="soft"' : ""}>${textOf(nameOf(row))}</text>`,
    );
    columns.forEach((column, place) => {
      const value = row[column];
      if (value === null) return;
      // Dots of equal figures are drawn apart.
      const raised = y + (place - 1.5) * 3.2;
      parts.push(
        `<circle cx="${x(value)}" cy="${round(raised)}" r="5" fill="var(--c${place})" fill-opacity="0.85"><title>${column} ${value}</title></circle>`,
      );
    });
  });
  return svg(width, height, "Shares that each summary carries", parts);
}

const round = (value: number): number => Math.round(value * 10) / 10;

const svg = (width: number, height: number, title: string, parts: readonly string[]): string =>
  `<svg viewBox="0 0 ${width} ${height}" role="img" aria-label="${title}">${parts.join("")}</svg>`;

function tableOf(rows: readonly Row[]): string {
  const heading = ["policy", "summarizer", "rounds", ...COLUMNS].map((name) => `<th>${name}</th>`).join("");
  const lines = rows.map((row) => {
    const cells = COLUMNS.map((column) => `<td>${cell(column, row[column])}</td>`).join("");
    return `<tr${row.isControl ? ' class="control"' : ""}><td>${row.policy ?? "at once"}</td><td>${textOf(row.summarizer)}</td><td>${row.rounds}</td>${cells}</tr>`;
  });
  return table(heading, lines);
}

const table = (heading: string, lines: readonly string[]): string =>
  `<div class="scroll"><table><thead><tr>${heading}</tr></thead><tbody>${lines.join("\n")}</tbody></table></div>`;

const list = (title: string, items: readonly string[]): string =>
  items.length === 0 ? "" : `<details><summary>${title}</summary><ul>${items.join("")}</ul></details>`;

function cell(column: Column, value: number | null): string {
  if (value === null) return "–";
  if (column === "tokens" || column === "refetch") return count(value);
  if (column === "price") return formatCost(value);
  return column === "invented" ? value.toFixed(1) : share(value);
}

const LEGEND = `<p class="soft">reach: of what the next calls need, what it or a file that it names has · user, found: what users asked for
and what the agent concluded · state: files, commands, failures, ids and open tasks · dump: its characters in bare lists · prec: its names
that are written again · current, stale: values that changed, as they are and as they were · invented: names and numbers that no message has.
Grey rows are controls.</p>`;

function sessionPart({
  session,
  messages,
  tokens,
  keepTokens,
  skipped,
  unmeasured,
  rows,
}: SessionReport): string {
  const heading = `<h2>${textOf(session)}</h2>`;
  if (skipped !== null) return `${heading}<p>${textOf(skipped)}</p>`;
  const real = rows.filter(({ isControl, policy, rounds }) => !isControl && policy !== null && rounds > 0);
  return [
    heading,
    `<p class="soft">${count(messages)} messages, ${count(tokens)} tokens; each compaction keeps ${count(keepTokens)}.</p>`,
    ...(unmeasured === null ? [] : [`<p class="soft">${textOf(unmeasured)}</p>`]),
    rulesPart(real),
    ...rows
      .filter(({ problem }) => problem !== null)
      .map((row) => `<p>${textOf(`${nameOf(row)}: ${row.problem}`)}</p>`),
    `<details><summary>Figures of this session</summary>${tableOf(rows)}</details>`,
    inventedPart(rows.filter(({ isControl }) => !isControl)),
  ].join("\n");
}

function judgedPart({ session, judge, probes, dropped, empty, full, rows }: JudgedSession): string {
  const heading = ["policy", "summarizer", "score", ...CATEGORIES, "next call"]
    .map((name) => `<th>${name}</th>`)
    .join("");
  const written = (value: number | null) => `<td>${value === null ? "–" : share(value)}</td>`;
  const lines = rows.map(
    (row) =>
      `<tr><td>${row.policy ?? "at once"}</td><td>${textOf(row.summarizer)}</td>${[row.score, ...CATEGORIES.map((category) => row.categories[category]), row.next].map(written).join("")}</tr>`,
  );
  const lost = rows.flatMap((row) =>
    row.lost.map(
      ({ category, question }) => `<li>${textOf(`${nameOf(row)}, ${category}: ${question}`)}</li>`,
    ),
  );
  const { unquoted, unreadable, inTail, ungraded } = dropped;
  return [
    `<h2>${textOf(`${session}, judged by ${judge}`)}</h2>`,
    `<p class="soft">${probes} questions. Score without any history ${empty ?? "–"}, with the whole history ${full ?? "–"}. Left out: ${unquoted} without a literal quotation, ${unreadable} unreadable, ${inTail} that the kept messages answer, ${ungraded} without an answer or a grade.</p>`,
    table(heading, lines),
    list(`Questions that were lost: ${lost.length}`, lost),
  ].join("\n");
}

function rulesPart(rows: readonly DetailedRow[]): string {
  const stated = Math.max(0, ...rows.map(({ ruleFigures }) => ruleFigures.of));
  if (stated === 0) return `<p class="soft">No rule of the user was found in it.</p>`;
  const fallen = rows.flatMap((row) =>
    row.ruleFigures.fallen.map(
      ({ text, stated: from, fell }) =>
        `<li>${textOf(nameOf(row))}: <code>${textOf(text.slice(0, 200))}</code>, stated in round ${from}, fell in round ${fell}</li>`,
    ),
  );
  return `${figure("Rules of the user by round", rulesPicture(rows), "Those that the model still reads. The grey line is those that hold.")}${list(`Rules that fell: ${fallen.length}`, fallen)}`;
}

/** Draws a line for each policy; lines of equal figures are drawn side by side. */
function rulesPicture(rows: readonly DetailedRow[]): string {
  const rounds = Math.max(...rows.map(({ ruleFigures }) => ruleFigures.byRound.length));
  const most = Math.max(1, ...rows.flatMap(({ ruleFigures }) => ruleFigures.byRound.map(({ of }) => of)));
  const [width, height, left, bottom] = [820, 190, 34, 26];
  const right = width - 200;
  const x = (at: number) => round(left + (rounds < 2 ? 0 : (at * (right - left)) / (rounds - 1)));
  const y = (value: number) => round(height - bottom - (value * (height - bottom - 16)) / most);
  const parts = [0, most].map(
    (tick) =>
      `<line class="axis" x1="${left}" x2="${right}" y1="${y(tick)}" y2="${y(tick)}"/><text class="soft" x="${left - 8}" y="${y(tick) + 4}" text-anchor="end">${tick}</text>`,
  );
  for (let at = 0; at < rounds; at++)
    parts.push(`<text class="soft" x="${x(at)}" y="${height - 6}" text-anchor="middle">${at + 1}</text>`);
  const line = (values: readonly number[], shift: number) =>
    values.map((value, at) => `${x(at)},${round(y(value) + shift)}`).join(" ");
  const longest = rows.reduce((a, b) =>
    b.ruleFigures.byRound.length > a.ruleFigures.byRound.length ? b : a,
  );
  const hold = longest.ruleFigures.byRound.map(({ of }) => of);
  parts.push(
    `<polyline points="${line(hold, 0)}" fill="none" stroke="var(--soft)" stroke-width="7" stroke-opacity="0.3"/>`,
  );
  rows.forEach((row, at) => {
    const colour = `var(--c${at % 5})`;
    const held = row.ruleFigures.byRound.map((of) => of.held);
    const dashes = at >= 5 ? ' stroke-dasharray="5 3"' : "";
    parts.push(
      `<polyline points="${line(held, (at - rows.length / 2) * 1.6)}" fill="none" stroke="${colour}" stroke-width="2"${dashes}/>`,
      `<circle cx="${right + 20}" cy="${14 + at * 18}" r="5" fill="${colour}"/><text x="${right + 30}" y="${18 + at * 18}">${textOf(nameOf(row))}</text>`,
    );
  });
  return svg(width, Math.max(height, 20 + rows.length * 18), "Rules held by round", parts);
}

/** Maximum number of inventions that are listed for a row. */
const LISTED = 30;

function inventedPart(rows: readonly DetailedRow[]): string {
  const lines = rows
    .filter(({ inventions }) => inventions.length > 0)
    .map((row) => {
      const names = row.inventions.slice(0, LISTED).map((name) => `<code>${textOf(name)}</code>`);
      const more = row.inventions.length > LISTED ? ` and ${row.inventions.length - LISTED} more` : "";
      return `<li>${textOf(nameOf(row))}: ${names.join(" ")}${more}</li>`;
    });
  return list("Names and numbers that no message has", lines);
}
