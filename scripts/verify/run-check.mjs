// Runs one check as a process and turns what happened into counts. A check that hangs or cannot start has failed.
import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { root, toolEnvironment } from "../tools.mjs";

/** @typedef {{ name: string, command: string, minutes: number, live?: boolean }} Check `live`: show its output as it comes */
/** @typedef {{ passed: number, failed: number, skipped: { name: string, reason: string }[] }} Counts */
/** @typedef {Counts & { name: string, seconds: number }} Result */

/** @returns {Promise<Result>} */
export async function runCheck(/** @type {Check} */ { name, command, minutes, live = false }) {
  const folder = mkdtempSync(join(tmpdir(), "espalier-verify-"));
  const countsFile = join(folder, "counts.json");
  const started = performance.now();
  const { fault, output } = await run(command, minutes, live, {
    ...toolEnvironment,
    VERIFY_COUNTS: countsFile,
  });
  const seconds = (performance.now() - started) / 1000;
  const counts = readCounts(countsFile) ?? { passed: fault ? 0 : 1, failed: 0, skipped: [] };
  if (fault && counts.failed === 0) counts.failed = 1;
  rmSync(folder, { recursive: true });

  console.log(
    `${counts.failed > 0 ? "failed" : "passed"} ${seconds.toFixed(1).padStart(7)} s  ${name}${many(counts)}`,
  );
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

/** @returns {Promise<{ fault?: string, output: string }>} `fault` says in words why it did not end with 0 */
function run(
  /** @type {string} */ command,
  /** @type {number} */ minutes,
  /** @type {boolean} */ live,
  /** @type {NodeJS.ProcessEnv} */ env,
) {
  const [program = "", ...options] = command.split(" ");
  return new Promise((settle) => {
    const child = spawn(program, options, {
      cwd: root,
      env,
      stdio: ["ignore", live ? 1 : "pipe", live ? 1 : "pipe"],
    });
    let output = "";
    const keep = (/** @type {string} */ text) => {
      output += text;
    };
    child.stdout?.setEncoding("utf8").on("data", keep);
    child.stderr?.setEncoding("utf8").on("data", keep);
    let hung = false;
    const alarm = setTimeout(() => {
      hung = true;
      stop();
    }, minutes * 60_000);
    const end = (/** @type {string | undefined} */ fault) => {
      clearTimeout(alarm);
      process.off("SIGINT", interrupt).off("SIGTERM", interrupt);
      settle(fault ? { fault, output } : { output });
    };
    child.on("error", (error) => end(`It could not start: ${error.message}.`));
    child.on("close", (code, signal) => {
      if (hung) end(`It was stopped after ${minutes} minutes.`);
      else if (signal) end(`It was ended by ${signal}.`);
      else end(code === 0 ? undefined : `It ended with exit code ${code}.`);
    });
  });
}

/** Long complaints lose their middle: their beginning names the cause and their end the sum. */
function shorten(/** @type {string} */ output) {
  const lines = output.trimEnd().split("\n");
  const [first, last] = [120, 30];
  if (lines.length <= first + last) return lines;
  return [...lines.slice(0, first), `… ${lines.length - first - last} lines left out`, ...lines.slice(-last)];
}

function indent(/** @type {string[]} */ lines) {
  return lines.map((line) => `    ${line}`.trimEnd()).join("\n");
}
