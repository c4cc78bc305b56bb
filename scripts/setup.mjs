// Installs the workspace from the frozen lockfile with the pinned pnpm; needs Node and npm and nothing else.
// A second run costs a fraction of a second: pnpm compares the lockfile with what is installed and returns.
import { spawnSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));
const { packageManager } = JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8"));
const local = fileURLToPath(new URL("../node_modules/.bin/pnpm", import.meta.url));
const install = ["install", "--frozen-lockfile", "--reporter=silent"];
const [command, args] = existsSync(local) ? [local, install] : ["npx", ["--yes", packageManager, ...install]];
// Output of pnpm goes to stderr, so that stdout has only the command's output.
const { status, error } = spawnSync(command, args, { cwd: root, stdio: ["ignore", 2, 2] });
if (error) console.error(`The workspace could not be installed: ${error.message}. Is npm on the PATH?`);
process.exit(status ?? 1);
