// The processes that do the work. Each contender runs in one of its own, so that none sees the other's heap.
import { execFileSync, fork, spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const bench = fileURLToPath(new URL("..", import.meta.url));

/** Who takes part, and what must be installed for that. Missing ones are said to be missing, and nothing else fails. */
const CONTENDERS = {
  espalier: { needs: ".work/sessionTree.mjs" },
  limit: { needs: "package.json" },
  pi: { needs: "node_modules/@earendil-works/pi-coding-agent/package.json", needsNewerNode: true },
  langgraph: { needs: "node_modules/@langchain/langgraph-checkpoint/package.json" },
};

/** @typedef {keyof typeof CONTENDERS} ContenderName */

/** The oldest major version of Node that Pi runs in. */
const NEWER_MAJOR = 23;

/** What npm fetches where this Node is older. */
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

/** As `process.version` says it in the Node that the contenders run in. */
export const benchNodeVersion = () => execFileSync(node, ["--version"], { encoding: "utf8" }).trim();

/** Why a contender cannot take part; undefined when it can. */
export function whyMissing(/** @type {ContenderName} */ name) {
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
      const onExit = (/** @type {number | null} */ code, /** @type {string | null} */ signal) =>
        reject(new Error(`${name} ended (${signal ?? `exit code ${code}`})`));
      child.once("exit", onExit);
      child.once("message", (/** @type {any} */ message) => {
        child.off("exit", onExit);
        if (message.error) reject(new Error(`${name}: ${message.error}`));
        else resolve(message);
      });
    });
  await answer();
  return {
    /** Has it do a task; undefined when it has no such task. */
    async run(/** @type {string} */ task, /** @type {unknown} */ args) {
      const waiting = answer();
      child.send({ task, args });
      return /** @type {any} */ (await waiting).result;
    },
    stop() {
      child.removeAllListeners();
      child.kill("SIGKILL");
    },
  };
}
