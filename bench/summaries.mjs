// Measures summaries that were written without a model, by `espalier eval`: node bench/summaries.mjs [SESSION …].
// Default: the demo session and the sessions written for this project.
import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";

const espalier = fileURLToPath(new URL("../scripts/espalier.mjs", import.meta.url));

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

/** Formats measures as one line of text. */
export const measuresLine = (row) =>
  [
    `${Math.round(row.tokens)} tokens`,
    ...MEASURES.map((name) => `${name} ${row[name]?.toFixed(2) ?? "–"}`),
  ].join(", ");

if (process.argv[1] === fileURLToPath(import.meta.url))
  for (const [name, row] of Object.entries(measureSessions(process.argv.slice(2))))
    console.log(`${name}: ${measuresLine(row)}`);
