// What summaries written without a model carry: node bench/summaries.mjs [SESSION …]
// The measures are told in lib/summary-measures.mjs. Without sessions: the demo's and those written for this project.
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { basename } from "node:path";
import { fileURLToPath } from "node:url";
import { cutsOf, meanOf, measureSummary } from "./lib/summary-measures.mjs";
import { writtenSessions } from "./sessions/written-sessions.mjs";

const KEPT_TOKENS = 20_000;
const root = new URL("../", import.meta.url);
const espalier = fileURLToPath(new URL("scripts/espalier.mjs", root));
const demo = fileURLToPath(new URL("apps/cli/assets/demo-session.jsonl", root));

const messagesOf = (file) =>
  readFileSync(file, "utf8")
    .split("\n")
    .filter(Boolean)
    .map((line) => JSON.parse(line))
    .flatMap(({ type, message }) => (type === "message" && message.role !== "system" ? [message] : []));

function summarize(messages) {
  const command = [espalier, "summarize", "--summarizer", "extractive"];
  const input = JSON.stringify({ messages });
  const { stdout, status, stderr } = spawnSync(process.execPath, command, {
    input,
    encoding: "utf8",
    maxBuffer: 1 << 28,
  });
  if (status !== 0) throw new Error(`espalier summarize failed: ${stderr}`);
  return stdout;
}

/** The measures of one session's summaries, the mean of its cuts. */
export const measureSession = (messages) =>
  meanOf(cutsOf(messages, KEPT_TOKENS).map((cut) => measureSummary(summarize(cut.history), cut)));

/** The project's own sessions by name. */
export const ownSessions = () => ({ demo: messagesOf(demo), ...writtenSessions });

/** Measures as one line of text. */
export const measuresLine = ({ tokens, ...shares }) =>
  [
    `${Math.round(tokens)} tokens`,
    ...Object.entries(shares).map(([name, value]) => `${name} ${value?.toFixed(2) ?? "–"}`),
  ].join(", ");

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const given = process.argv.slice(2);
  const sessions =
    given.length > 0
      ? Object.fromEntries(given.map((file) => [basename(file), messagesOf(file)]))
      : ownSessions();
  for (const [name, messages] of Object.entries(sessions))
    console.log(`${name}: ${measuresLine(measureSession(messages))}`);
}
