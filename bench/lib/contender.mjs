// The processes that do the work. Each contender runs in one of its own, so that none sees the other's heap.
import { execFileSync, fork } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const bench = fileURLToPath(new URL("..", import.meta.url));
const newerNode = join(bench, "node_modules/node/bin/node");

/** Who takes part, and what must be installed for that. Missing ones are said to be missing, and nothing else fails. */
const CONTENDERS = {
  espalier: { needs: ".work/sessionTree.mjs" },
  limit: { needs: "package.json" },
  pi: { needs: "node_modules/@earendil-works/pi-coding-agent/package.json", needsNewerNode: true },
  langgraph: { needs: "node_modules/@langchain/langgraph-checkpoint/package.json" },
};

/** @typedef {keyof typeof CONTENDERS} ContenderName */

/** The Node that all contenders run in: the newer one that bench installs, or this one. */
export const benchNode = existsSync(newerNode) ? newerNode : process.execPath;

/** As `process.version` says it there. */
export const benchNodeVersion = () => execFileSync(benchNode, ["--version"], { encoding: "utf8" }).trim();

/** Why a contender cannot take part; undefined when it can. */
export function whyMissing(/** @type {ContenderName} */ name) {
  const { needs, needsNewerNode } = CONTENDERS[name];
  if (!existsSync(join(bench, needs))) return `${name} is not installed`;
  if (needsNewerNode && benchNode === process.execPath && Number(process.versions.node.split(".")[0]) < 23)
    return `${name} needs a newer Node`;
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
    execPath: ownNode ? process.execPath : benchNode,
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
