// The versions of Node that installed packages must run on: the one at hand, and the newest with long-term support.
import { spawnSync } from "node:child_process";

/**
 * @typedef {object} Runtime
 * @property {string} version
 * @property {string} node the program
 */

/** The newest that calls itself so (`process.release.lts`); the npm package `node` has it as a program. */
const NEWEST_LTS = "24.21.0";

/** @returns {Runtime[]} without the newest, and a line that says so, where it cannot be fetched */
export function runtimes() {
  const here = { version: process.versions.node, node: process.execPath };
  const options = [
    "exec",
    "--silent",
    "--yes",
    `--package=node@${NEWEST_LTS}`,
    "-c",
    "node -p process.execPath",
  ];
  const { status, stdout, stderr } = spawnSync("npm", options, { encoding: "utf8", timeout: 120_000 });
  const node = stdout?.trim();
  if (status !== 0 || !node) {
    console.log(
      `skipped: Node ${NEWEST_LTS} could not be fetched (${stderr?.trim().split("\n").at(-1) ?? ""})`,
    );
    return [here];
  }
  return [here, { version: NEWEST_LTS, node }];
}
