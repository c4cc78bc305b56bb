// One command as a process group of its own: whatever it starts ends with it.
import { spawn } from "node:child_process";
import { root } from "../tools.mjs";

/**
 * @param {string} command a program and its options, split at spaces
 * @param {{ minutes: number, live: boolean, env: NodeJS.ProcessEnv }} options `live`: print as it comes, keep nothing
 * @returns {Promise<{ fault?: string, output: string }>} `fault` says in words why it did not end with 0
 */
export function runCommand(command, { minutes, live, env }) {
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
    // What it left behind would hold its output open.
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
    // Nobody is left in the group.
    if (/** @type {NodeJS.ErrnoException} */ (error).code !== "ESRCH") throw error;
  }
}
