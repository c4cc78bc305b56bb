// Measures summaries that were written without a model, by `espalier eval`: node bench/summaries.mjs [SESSION …].
// Default: the demo session and the sessions written for this project, without the long ones in bench/sessions.
import { spawnSync } from "node:child_process";
import { readdirSync } from "node:fs";
import { fileURLToPath } from "node:url";

const espalier = fileURLToPath(new URL("../scripts/espalier.mjs", import.meta.url));

/** Files of the long sessions: the written ones after days of further work, with 48 to 62 requests each. */
export function longSessions() {
  const folder = fileURLToPath(new URL("sessions/", import.meta.url));
  return readdirSync(folder)
    .sort()
    .map((file) => folder + file);
}

/** Measures of the summaries of each session, by name. */
export function measureSessions(files = []) {
  const command = [espalier, "eval", ...files, "--policy", "token-budget", "--json"];
  const { stdout, status, stderr } = spawnSync(process.execPath, command, {
    encoding: "utf8",
    maxBuffer: 1 << 28,
  });
  if (status !== 0) throw new Error(`espalier eval failed: ${stderr || stdout}`);
  const measured = JSON.parse(stdout).sessions.flatMap(({ session, rows }) => {
    const row = rows.find(({ policy, summarizer }) => policy === null && summarizer === "extractive");
    return row ? [[session, row]] : [];
  });
  return Object.fromEntries(measured);
}

const MEASURES = ["reach", "user", "found", "state", "dump", "prec"];

/** Returns the mean of each measure, over the sessions that have it. */
export const meanOfMeasures = (rows) =>
  Object.fromEntries(
    ["tokens", ...MEASURES].map((name) => {
      const known = rows.map((row) => row[name]).filter((value) => value !== null);
      return [name, known.length === 0 ? null : known.reduce((sum, value) => sum + value, 0) / known.length];
    }),
  );

/** Formats measures as one line of text. */
export const measuresLine = (row) =>
  [
    `${Math.round(row.tokens)} tokens`,
    ...MEASURES.map((name) => `${name} ${row[name]?.toFixed(2) ?? "–"}`),
  ].join(", ");

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const measured = Object.entries(measureSessions(process.argv.slice(2)));
  for (const [name, row] of measured) console.log(`${name}: ${measuresLine(row)}`);
  if (measured.length > 1)
    console.log(`mean: ${measuresLine(meanOfMeasures(measured.map(([, row]) => row)))}`);
}
