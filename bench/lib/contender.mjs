// Starts the processes that do the work. Each contender has its own process, so that contenders do not share a heap.
// Contenders are installed by npm from bench/package-lock.json and not with the workspace, since they take 430 MB. This
// project is measured as it is published: compiled and bundled.
import { execFileSync, fork, spawnSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const bench = fileURLToPath(new URL("..", import.meta.url));

/** Contenders, and the packages that they need. A contender whose package is missing is reported as missing. */
const CONTENDERS = {
  espalier: { needs: ".work/sessionTree.mjs" },
  slow: { needs: ".work/slowInputs.mjs" },
  limit: { needs: "package.json" },
  pi: { needs: "node_modules/@earendil-works/pi-coding-agent/package.json", needsNewerNode: true },
  langgraph: { needs: "node_modules/@langchain/langgraph-checkpoint/package.json" },
};

/** @typedef {keyof typeof CONTENDERS} ContenderName */

/** Minimum major version of Node for Pi. */
const NEWER_MAJOR = 23;

/** Version that npm fetches if this Node is older. */
const NEWER_NODE = "node@24.21.0";
const isNewEnough = Number(process.versions.node.split(".")[0]) >= NEWER_MAJOR;
let node = process.execPath;

/**
 * Sees to a Node in which every contender runs, and has all of them run in it: this one, else one that npm fetches into
 * its own cache. Where none can be had, who needs it is said to be missing.
 * @param {{ offline?: boolean }} [options] `offline`: what the cache has, and nothing else
 */
export function fetchNode({ offline = false } = {}) {
  if (isNewEnough) return;
  const given = ["--yes", ...(offline ? ["--offline"] : []), "--package", NEWER_NODE];
  const { status, stdout, stderr } = spawnSync("npx", [...given, "--", "node", "-p", "process.execPath"], {
    encoding: "utf8",
  });
  const path = stdout?.trim().split("\n").at(-1) ?? "";
  if (status === 0 && existsSync(path)) node = path;
  else if (!offline) console.error(`npx could not fetch ${NEWER_NODE}: ${stderr?.trim().split("\n").at(-1)}`);
}

/** Version of the Node in which the contenders run, like `process.version`. */
export const benchNodeVersion = () => execFileSync(node, ["--version"], { encoding: "utf8" }).trim();

/** Returns the reason why a contender is left out; undefined if it runs. */
export function whyMissing(name) {
  const { needs, needsNewerNode } = CONTENDERS[name];
  if (!existsSync(join(bench, needs))) return `${name} is not installed`;
  if (needsNewerNode && !isNewEnough && node === process.execPath)
    return `${name} needs Node ${NEWER_MAJOR} or newer, and npx could not fetch ${NEWER_NODE}`;
  return undefined;
}

/**
 * Starts a contender's process.
 * @param {ContenderName} name
 * @param {{ nodeOptions?: string[], ownNode?: boolean }} [options] e.g. `--max-old-space-size=12000`; `ownNode`: the
 *   Node that runs this, for which native modules were compiled
 */
export async function startContender(name, { nodeOptions = [], ownNode = false } = {}) {
  const module = new URL(`../contenders/${name}.mjs`, import.meta.url).href;
  const child = fork(fileURLToPath(new URL("worker.mjs", import.meta.url)), [module], {
    execPath: ownNode ? process.execPath : node,
    execArgv: ["--expose-gc", ...nodeOptions],
    stdio: ["ignore", 2, 2, "ipc"],
    serialization: "json",
  });
  const answer = () =>
    new Promise((resolve, reject) => {
      const onExit = (code, signal) => reject(new Error(`${name} ended (${signal ?? `exit code ${code}`})`));
      child.once("exit", onExit);
      child.once("message", (message) => {
        child.off("exit", onExit);
        if (message.error) reject(new Error(`${name}: ${message.error}`));
        else resolve(message);
      });
    });
  await answer();
  return {
    /** Runs a task; undefined if the contender does not have this task. */
    async run(task, args) {
      const waiting = answer();
      child.send({ task, args });
      return (await waiting).result;
    },
    stop() {
      child.removeAllListeners();
      child.kill("SIGKILL");
    },
  };
}

export function installContenders(folder) {
  const lock = readFileSync(join(folder, "package-lock.json"), "utf8");
  const stamp = join(folder, "node_modules/.installed-lock.json");
  if (existsSync(stamp) && readFileSync(stamp, "utf8") === lock) return;
  console.error("Installing the contenders (a few minutes, once) …");
  const { status } = spawnSync("npm", ["install", "--no-audit", "--no-fund", "--loglevel=error"], {
    cwd: folder,
    stdio: ["ignore", 2, 2],
  });
  // A contender that cannot be installed is reported as missing in each line.
  if (status === 0) writeFileSync(stamp, lock);
  else console.error("The contenders could not be installed; measuring without those that are missing.");
}

const root = fileURLToPath(new URL("../..", import.meta.url));

/**
 * Bundles every public entry of every package into a file of its own, named after it: `sessionTree.mjs`,
 * `sessionTreeNode.mjs`. Code that several need is in files that they share. `INNER` files are bundled, too.
 */
export async function bundleProject(folder) {
  // Uses the workspace's esbuild, because bench does not install packages of the workspace again.
  const { build } = await import(createRequire(join(root, "package.json")).resolve("esbuild"));
  const folders = readdirSync(join(root, "packages")).map((name) => join(root, "packages", name));
  const entries = folders.flatMap((folder) => {
    const manifest = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
    return (
      Object.entries(manifest.exports)
        .filter(
          ([door, target]) =>
            typeof target === "string" &&
            target.endsWith(".ts") &&
            (door !== "./testing" || isMeasured(manifest)),
        )
        .map(([door, target]) => ({ name: nameOf(manifest.name, door), path: join(folder, String(target)) }))
        // A manifest may name a door whose file does not exist yet.
        .filter(({ path }) => existsSync(path))
    );
  });
  rmSync(folder, { recursive: true, force: true });
  const inner = Object.entries(INNER).map(([name, path]) => [name, join(root, path)]);
  await build({
    entryPoints: Object.fromEntries([...entries.map(({ name, path }) => [name, path]), ...inner]),
    outdir: folder,
    outExtension: { ".js": ".mjs" },
    splitting: true,
    bundle: true,
    format: "esm",
    platform: "node",
    target: "node20",
    // The contender's graph and the adapter must use the same copy of the host.
    external: ["jiti", "pg-native", "cloudflare:sockets", "@langchain/*"],
    banner: {
      js: "import{createRequire as bundleRequire}from'node:module';const require=bundleRequire(import.meta.url);",
    },
    logLevel: "warning",
  });
}

/** Files without a door that are measured, or that make what is measured. */
const INNER = {
  cliMarkdown: "apps/cli/src/markdown/markdown.ts",
  requestHistories: "packages/session-tree/test/request-histories.ts",
  slowInputs: "packages/session-tree/test/slow-inputs.ts",
  slowTexts: "packages/session-tree/src/testing/slow-texts.ts",
};

/** The database package is started only for lines that measure it. */
const isMeasured = ({ name }) => name === "@espalier/store-postgres";

/** Names a bundle: `@espalier/session-tree` and `./node` become `sessionTreeNode`. */
function nameOf(packageName, door) {
  const words = `${packageName.split("/").at(-1)}${door.slice(1)}`.split(/[-/]/).filter(Boolean);
  return words.map((word, at) => (at === 0 ? word : word[0].toUpperCase() + word.slice(1))).join("");
}
