// Runs one check as a process and turns what happened into counts. A check that hangs or cannot start has failed.
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { toolEnvironment } from "../tools.mjs";
import { runCommand } from "./run-command.mjs";

/** @typedef {{ name: string, command: string, minutes: number, live?: boolean }} Check `live`: show its output as it comes */
/** @typedef {{ passed: number, failed: number, skipped: { name: string, reason: string }[] }} Counts */
/** @typedef {Counts & { name: string, seconds: number }} Result */

/** @returns {Promise<Result>} */
export async function runCheck(/** @type {Check} */ { name, command, minutes, live = false }) {
  const folder = mkdtempSync(join(tmpdir(), "espalier-verify-"));
  const countsFile = join(folder, "counts.json");
  const plain = live ? {} : { NO_COLOR: "1" };
  const env = { ...toolEnvironment, ...plain, VERIFY_COUNTS: countsFile };
  const started = performance.now();
  const { fault, output } = await runCommand(command, { minutes, live, env });
  const seconds = (performance.now() - started) / 1000;
  const counts = readCounts(countsFile) ?? { passed: fault ? 0 : 1, failed: 0, skipped: [] };
  if (fault && counts.failed === 0) counts.failed = 1;
  rmSync(folder, { recursive: true });

  const verdict = counts.failed > 0 ? "failed" : "passed";
  console.log(`${verdict} ${seconds.toFixed(1).padStart(7)} s  ${name}${many(counts)}`);
  if (counts.failed > 0) console.log(indent([`$ ${command}`, ...shorten(output), fault ?? ""]));
  return { name, seconds, ...counts };
}

function many(/** @type {Counts} */ { passed, failed, skipped }) {
  if (passed + failed + skipped.length <= 1) return "";
  return ` (${passed} passed, ${failed} failed, ${skipped.length} skipped)`;
}

/**
 * What a check that consists of many tests wrote about them; undefined where it wrote nothing.
 * @returns {Counts | undefined}
 */
function readCounts(/** @type {string} */ file) {
  try {
    return JSON.parse(readFileSync(file, "utf8"));
  } catch (error) {
    if (/** @type {NodeJS.ErrnoException} */ (error).code === "ENOENT") return undefined;
    throw error;
  }
}

/** Long complaints lose their middle: their beginning names the cause and their end the sum. */
function shorten(/** @type {string} */ output) {
  const lines = output.trimEnd().split("\n");
  const [first, last] = [120, 30];
  if (lines.length <= first + last) return lines;
  return [...lines.slice(0, first), `… ${lines.length - first - last} lines left out`, ...lines.slice(-last)];
}

function indent(/** @type {string[]} */ lines) {
  return lines
    .filter((line) => line !== "")
    .map((line) => `    ${line}`)
    .join("\n");
}
