// Report as one page for a browser: no script, no network, light and dark.
import { formatCount } from "@espalier/session-tree";
import type { JudgedSession } from "./judge.ts";
import {
  COLUMNS,
  type DetailedRow,
  figureText,
  judgedTable,
  type Report,
  type Row,
  type SessionReport,
} from "./report.ts";

/** Makes the page of a report; the same report always gives the same page. */
export function reportPage({ mean, sessions, judged = [] }: Report): string {
  const names = sessions.flatMap(({ session, skipped }) => (skipped === null ? [textOf(session)] : []));
  const measured = names.length === 1 ? "Session" : `Mean of ${names.length} sessions`;
  const body = [
    "<h1>What a compaction keeps</h1>",
    `<p>${names.length === 0 ? "No session could be measured." : `${measured}: ${names.join(", ")}.`}</p>`,
    ...(mean.length > 0 ? [carriedPicture(mean), "<h2>All figures</h2>", figuresTable(mean), LEGEND] : []),
    ...judged.map(judgedPart),
    ...sessions.map(sessionPart),
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
  textOf(policy === null ? `${summarizer}, at once` : `${policy}, ${summarizer}`);

/** Makes a table; the texts of the cells are escaped. Rows of controls are grey. */
function table(
  headings: readonly string[],
  rows: readonly (readonly string[])[],
  isControl?: readonly boolean[],
): string {
  const heading = headings.map((name) => `<th>${name}</th>`).join("");
  const lines = rows.map((cells, at) => {
    const line = cells.map((cell) => `<td>${textOf(cell)}</td>`).join("");
    return `<tr${isControl?.[at] ? ' class="control"' : ""}>${line}</tr>`;
  });
  return `<div class="scroll"><table><thead><tr>${heading}</tr></thead><tbody>${lines.join("\n")}</tbody></table></div>`;
}

function figuresTable(rows: readonly Row[]): string {
  const cells = rows.map((row) => {
    const figures = COLUMNS.map((column) => figureText(column, row[column]));
    return [row.policy ?? "at once", row.summarizer, String(row.rounds), ...figures];
  });
  const isControl = rows.map((row) => row.isControl);
  return table(["policy", "summarizer", "rounds", ...COLUMNS], cells, isControl);
}

const LEGEND = `<p class="soft">reach: of what the next calls need, what it or a file that it names has · user, found: what users asked for
and what the agent concluded · state: files, commands, failures, ids and open tasks · dump: its characters in bare lists · prec: its names
that are written again · current, stale: values that changed, as they are and as they were · invented: names and numbers that no message has.
Grey rows are controls.</p>`;

const list = (title: string, items: readonly string[]): string =>
  items.length === 0 ? "" : `<details><summary>${title}</summary><ul>${items.join("")}</ul></details>`;

function judgedPart(judged: JudgedSession): string {
  const { session, judge, probes, empty, full, rows } = judged;
  const { headings, lines, leftOut } = judgedTable(judged);
  const lost = rows.flatMap((row) =>
    row.lost.map(({ category, question }) => `<li>${nameOf(row)}, ${category}: ${textOf(question)}</li>`),
  );
  return [
    `<h2>${textOf(`${session}, judged by ${judge}`)}</h2>`,
    `<p class="soft">${probes} questions. Score without any history ${empty ?? "–"}, with the whole history ${full ?? "–"}. Left out: ${leftOut}</p>`,
    table(headings, lines),
    list(`Questions that were lost: ${lost.length}`, lost),
  ].join("\n");
}

function sessionPart(report: SessionReport): string {
  const { session, messages, tokens, keepTokens, skipped, unmeasured, rows } = report;
  const heading = `<h2>${textOf(session)}</h2>`;
  if (skipped !== null) return `${heading}<p>${textOf(skipped)}</p>`;
  return [
    heading,
    `<p class="soft">${formatCount(messages)} messages, ${formatCount(tokens)} tokens; each compaction keeps ${formatCount(keepTokens)}.</p>`,
    ...(unmeasured === null ? [] : [`<p class="soft">${textOf(unmeasured)}</p>`]),
    rulesPart(rows.filter(({ isControl, policy, rounds }) => !isControl && policy !== null && rounds > 0)),
    ...rows.flatMap((row) => (row.problem === null ? [] : [`<p>${nameOf(row)}: ${textOf(row.problem)}</p>`])),
    `<details><summary>Figures of this session</summary>${figuresTable(rows)}</details>`,
    inventedPart(rows.filter(({ isControl, inventions }) => !isControl && inventions.length > 0)),
  ].join("\n");
}

/** Maximum number of inventions that are listed for a row. */
const LISTED = 30;

function inventedPart(rows: readonly DetailedRow[]): string {
  const lines = rows.map((row) => {
    const names = row.inventions.slice(0, LISTED).map((name) => `<code>${textOf(name)}</code>`);
    const more = row.inventions.length > LISTED ? ` and ${row.inventions.length - LISTED} more` : "";
    return `<li>${nameOf(row)}: ${names.join(" ")}${more}</li>`;
  });
  return list("Names and numbers that no message has", lines);
}

function rulesPart(rows: readonly DetailedRow[]): string {
  if (rows.every(({ ruleFigures }) => ruleFigures.of === 0))
    return `<p class="soft">No rule of the user was found in it.</p>`;
  const fallen = rows.flatMap((row) =>
    row.ruleFigures.fallen.map(
      ({ text, stated, fell }) =>
        `<li>${nameOf(row)}: <code>${textOf(text.slice(0, 200))}</code>, stated in round ${stated}, fell in round ${fell}</li>`,
    ),
  );
  return rulesPicture(rows) + list(`Rules that fell: ${fallen.length}`, fallen);
}

const WIDTH = 820;

/** Makes a picture with a caption and a note. */
const picture = (caption: string, note: string, label: string, height: number, parts: readonly string[]) =>
  `<figure><figcaption>${caption}</figcaption><p class="soft">${note}</p><svg viewBox="0 0 ${WIDTH} ${height}" role="img" aria-label="${label}">${parts.join("")}</svg></figure>`;

const round = (value: number): number => Math.round(value * 10) / 10;

const axis = (x1: number, x2: number, y1: number, y2: number): string =>
  `<line class="axis" x1="${x1}" x2="${x2}" y1="${y1}" y2="${y2}"/>`;

const tick = (x: number, y: number, anchor: "middle" | "end", value: number): string =>
  `<text class="soft" x="${x}" y="${y}" text-anchor="${anchor}">${value}</text>`;

/** Draws a dot with the name of what has its colour. */
const key = (x: number, y: number, colour: number, name: string): string =>
  `<circle cx="${x}" cy="${y}" r="5" fill="var(--c${colour})"/><text x="${x + 10}" y="${y + 4}">${name}</text>`;

/** Draws shares of the real summarizers, and of the ends of the scale. */
function carriedPicture(mean: readonly Row[]): string {
  const rows = mean.filter(({ isControl, policy, rounds }) => rounds > 0 && (!isControl || policy === null));
  const columns = ["reach", "user", "found", "state"] as const;
  const [left, top, rowHeight] = [190, 42, 22];
  const height = top + rows.length * rowHeight + 6;
  const x = (value: number) => round(left + value * (WIDTH - left - 24));
  const note = "Share of each that it has, from 0 to 1. Controls are below the line.";
  return picture("What the summary carries", note, "Shares that each summary carries", height, [
    ...columns.map((column, at) => key(left + at * 110, 10, at, column)),
    ...[0, 0.25, 0.5, 0.75, 1].flatMap((value) => [
      axis(x(value), x(value), top, height),
      tick(x(value), top - 6, "middle", value),
    ]),
    ...rows.flatMap((row, at) => {
      const y = top + at * rowHeight;
      return [
        row.isControl && !rows[at - 1]?.isControl ? axis(0, WIDTH, y, y) : "",
        `<text x="0" y="${y + 15}"${row.isControl ? ' class="soft"' : ""}>${nameOf(row)}</text>`,
        ...columns.map((column, place) => {
          const value = row[column];
          // Dots of equal figures are drawn apart.
          const raised = round(y + rowHeight / 2 + (place - 1.5) * 3.2);
          return value === null
            ? ""
            : `<circle cx="${x(value)}" cy="${raised}" r="5" fill="var(--c${place})" fill-opacity="0.85"><title>${column} ${value}</title></circle>`;
        }),
      ];
    }),
  ]);
}

/** Draws a line for each policy; lines of equal figures are drawn side by side. */
function rulesPicture(rows: readonly DetailedRow[]): string {
  const figures = rows.map(({ ruleFigures }) => ruleFigures.byRound);
  const longest = figures.reduce((a, b) => (b.length > a.length ? b : a));
  const most = Math.max(1, ...figures.flat().map(({ of }) => of));
  const [left, right, top, bottom] = [34, 620, 16, 164];
  const x = (at: number) => round(left + (at * (right - left)) / Math.max(1, longest.length - 1));
  const y = (value: number) => round(bottom - (value * (bottom - top)) / most);
  const line = (values: readonly number[], shift: number, look: string) =>
    `<polyline points="${values.map((value, at) => `${x(at)},${round(y(value) + shift)}`).join(" ")}" fill="none" ${look}/>`;
  const height = Math.max(bottom + 26, 20 + rows.length * 18);
  const note = "Those that the model still reads. The grey line is those that hold.";
  const of = longest.map((round) => round.of);
  return picture("Rules of the user by round", note, "Rules held by round", height, [
    ...[0, most].flatMap((value) => [
      axis(left, right, y(value), y(value)),
      tick(left - 8, y(value) + 4, "end", value),
    ]),
    ...longest.map((_, at) => tick(x(at), bottom + 20, "middle", at + 1)),
    line(of, 0, 'stroke="var(--soft)" stroke-width="7" stroke-opacity="0.3"'),
    ...figures.flatMap((rounds, at) => {
      const held = rounds.map((round) => round.held);
      const look = `stroke="var(--c${at % 5})" stroke-width="2"${at >= 5 ? ' stroke-dasharray="5 3"' : ""}`;
      return [
        line(held, (at - rows.length / 2) * 1.6, look),
        key(right + 20, 14 + at * 18, at % 5, nameOf(rows[at]!)),
      ];
    }),
  ]);
}
