// Hooks inside other agents: time from the start of the hook's process to its end, with a long session.
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { pathToFileURL } from "node:url";
import { SESSION } from "../lib/agent-lines.mjs";
import { median } from "../lib/bench.mjs";
import { atMost, rowOf } from "../lib/goal.mjs";
import { agentFile } from "./import.mjs";

const root = join(import.meta.dirname, "../..");

/** Number of turns of a session of 100,000 entries. */
const TURNS = 7_000;
const ROUNDS = 7;

/** Events with their input; `imports` marks events that start an import. */
const EVENTS = [
  { name: "SessionStart after a compaction", input: { hook_event_name: "SessionStart", source: "compact" } },
  { name: "Stop", input: { hook_event_name: "Stop" } },
  { name: "PreCompact", input: { hook_event_name: "PreCompact" }, imports: true },
  { name: "status line", words: ["--status-line"], input: { cost: { total_cost_usd: 1 } } },
];

const hooks = {
  name: "hooks",
  title: "Hooks inside other agents",
  async run(bench) {
    const transcript_path = agentFile(bench, "claude-code", bench.count(TURNS, 10));
    const home = bench.scratch();
    const env = { ...process.env, ESPALIER_HOME: home };
    const main = await bundle();
    const brief = join(home, "agents/hooks/claude-code", `${SESSION}.json`);
    const run = ({ input, words = [] }) => {
      const began = performance.now();
      const { status } = spawnSync(process.execPath, [main, "hook", "claude-code", ...words], {
        env,
        input: JSON.stringify({ session_id: SESSION, transcript_path, ...input }),
      });
      if (status !== 0) throw new Error(`the hook ended with ${status}`);
      return performance.now() - began;
    };
    // The first import leaves its notes. It is so recent that Stop starts no other import.
    await imported(brief, () => run(EVENTS[2]));
    const rows = [];
    for (const event of EVENTS) {
      const times = [];
      const starts = [];
      for (let round = 0; round <= (bench.isSmoke ? 0 : ROUNDS); round++) {
        if (event.imports) await imported(brief, () => times.push(run(event)));
        else times.push(run(event));
        starts.push(startOfNode());
        mkdirSync(dirname(brief), { recursive: true });
        writeFileSync(brief, JSON.stringify({ ...briefIn(brief), at: Date.now(), tookMs: 3_600_000 }));
      }
      const [espalier, limit] = [times, starts].map((all) => median(all.slice(bench.isSmoke ? 0 : 1)));
      const goal = atMost("≤ 150 ms", bench.isSmoke ? undefined : espalier, 150);
      rows.push(rowOf(`${event.name}, beside 100,000 entries`, "ms", { espalier, limit }, [goal]));
    }
    return rows;
  },
};

/** Milliseconds of a Node process that does nothing. */
function startOfNode() {
  const began = performance.now();
  spawnSync(process.execPath, ["--eval", ""]);
  return performance.now() - began;
}

const briefIn = (brief) => (existsSync(brief) ? JSON.parse(readFileSync(brief, "utf8")) : undefined);

/** Runs a step that starts an import, and waits until the import has written its notes and ended. */
async function imported(brief, step) {
  const before = briefIn(brief)?.at;
  step();
  while ((briefIn(brief)?.at ?? before) === before || existsSync(`${brief}.lease`)) await setTimeout(50);
}

/** The bundle of the current sources. */
async function bundle() {
  spawnSync(process.execPath, [join(root, "scripts/espalier.mjs"), "--version"], { stdio: "ignore" });
  const { sourceKey } = await import(pathToFileURL(join(root, "scripts/command/sources.mjs")).href);
  return join(root, "apps/cli/node_modules/.cache/espalier", sourceKey(root), "main.js");
}

export const lines = [hooks];
