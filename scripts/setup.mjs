// Installs the workspace from the frozen lockfile with the pinned pnpm; needs Node and npm and nothing else.
// A second run costs a fraction of a second: pnpm compares the lockfile with what is installed and returns.
import { spawnSync } from "node:child_process";
import { existsSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));
const { packageManager } = JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8"));
const local = fileURLToPath(new URL("../node_modules/.bin/pnpm", import.meta.url));
const install = ["--dir", root, "install", "--frozen-lockfile", "--reporter=silent"];
const isThere = existsSync(local);
// With its state, pnpm would not look whether its links are there.
if (!isThere)
  rmSync(new URL("../node_modules/.pnpm-workspace-state-v1.json", import.meta.url), { force: true });
const [command, args] = isThere
  ? [local, install]
  : ["npx", ["--yes", "--loglevel=error", packageManager, ...install]];
// In the workspace, npx would take the pnpm of a broken link. Output goes to stderr, so that stdout has only the command's.
const { status, error } = spawnSync(command, args, {
  cwd: isThere ? root : tmpdir(),
  stdio: ["ignore", 2, 2],
});
if (error) console.error(`The workspace could not be installed: ${error.message}. Is npm on the PATH?`);
process.exit(status ?? 1);
