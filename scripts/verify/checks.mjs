// Runs checks as processes and counts their results. A check that hangs or cannot start has failed.
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

/** @returns {Counts | undefined} the counts that a check of many tests wrote; undefined where it wrote none */
function readCounts(/** @type {string} */ file) {
  try {
    return JSON.parse(readFileSync(file, "utf8"));
  } catch (error) {
    if (/** @type {NodeJS.ErrnoException} */ (error).code === "ENOENT") return undefined;
    throw error;
  }
}

/** Cuts the middle of a long output: its beginning names the cause, and its end the totals. */
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

/**
 * Runs a command, split at spaces, as a process group of its own, which ends with it.
 * @param {string} command
 * @param {{ minutes: number, live: boolean, env: NodeJS.ProcessEnv }} options `live`: print as it comes, keep nothing
 * @returns {Promise<{ fault?: string, output: string }>} `fault`: the reason, in words, of an end other than 0
 */
function runCommand(command, { minutes, live, env }) {
  const [program = "", ...words] = command.split(" ");
  const sink = live ? 1 : "pipe";
  const child = spawn(program, words, { cwd: root, env, stdio: ["ignore", sink, sink], detached: true });

  let output = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream?.setEncoding("utf8").on("data", (text) => {
      output += text;
    });
  }
  let hung = false;
  const alarm = setTimeout(() => {
    hung = true;
    endGroup(child.pid);
  }, minutes * 60_000);
  const interrupt = () => {
    endGroup(child.pid);
    process.exit(130);
  };
  process.on("SIGINT", interrupt).on("SIGTERM", interrupt);

  return new Promise((settle) => {
    const end = (/** @type {string | undefined} */ fault) => {
      clearTimeout(alarm);
      process.off("SIGINT", interrupt).off("SIGTERM", interrupt);
      settle(fault ? { fault, output } : { output });
    };
    child.on("error", (error) => end(`It could not start: ${error.message}.`));
    // Processes that the command left behind would keep its output open.
    child.on("exit", () => endGroup(child.pid));
    child.on("close", (code, signal) => {
      if (hung) end(`It was stopped after ${minutes} minutes.`);
      else if (signal) end(`It was ended by ${signal}.`);
      else end(code === 0 ? undefined : `It ended with exit code ${code}.`);
    });
  });
}

function endGroup(/** @type {number | undefined} */ pid) {
  if (pid === undefined) return;
  try {
    process.kill(-pid, "SIGKILL");
  } catch (error) {
    // The group is empty.
    if (/** @type {NodeJS.ErrnoException} */ (error).code !== "ESRCH") throw error;
  }
}

/** @returns {number} the exit code */
export function report(/** @type {Result[]} */ results) {
  const skipped = results.flatMap((result) => result.skipped);
  for (const reason of new Set(skipped.map((test) => test.reason))) {
    console.log(`skipped: ${reason}`);
    for (const { name } of skipped.filter((test) => test.reason === reason)) console.log(`    ${name}`);
  }
  const failed = results.filter((result) => result.failed > 0);
  if (failed.length > 0) console.log(`failed: ${failed.map(({ name }) => name).join(", ")}`);
  const seconds = results.reduce((sum, result) => sum + result.seconds, 0);
  console.log(`${results.length} checks in ${seconds.toFixed(0)} s\n`);

  const count = (/** @type {"passed" | "failed"} */ key) =>
    results.reduce((sum, result) => sum + result[key], 0);
  const ending = skipped.length > 0 ? `, ${skipped.length} skipped` : "";
  console.log(`${count("passed")} passed, ${count("failed")} failed${ending}`);
  return failed.length > 0 ? 1 : 0;
}
