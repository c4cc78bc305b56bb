import { existsSync, mkdirSync, renameSync } from "node:fs";
import { join } from "node:path";
import { agentLines, SESSION } from "../lib/agent-lines.mjs";
import { atMost, within } from "../lib/goal.mjs";
import { writeLines } from "../lib/session-file.mjs";

/** Turns of the smaller file (about 20 MB), and of the one on which memory is measured. */
const TURNS = 700;
const MANY_TURNS = 7_000;

/** Megabytes of V8's heap: with more at hand it collects later, and the process says nothing of what is needed. */
const HEAP = { old: 40, young: 4 };

/** @type {import("../lib/line.mjs").Line} */
export const line = {
  name: "import",
  title: "Import of other agents' sessions",
  async run(bench) {
    const rows = [];
    for (const agent of Object.keys(agentLines)) {
      const path = agentFile(bench, agent, bench.count(TURNS, 10));
      const { espalier, limit } = await bench.alternate(
        {
          espalier: ["importFile", { path, home: bench.scratch() }],
          limit: ["rewrite", { path, out: join(bench.scratch(), "out.jsonl") }],
        },
        { rounds: 3, warmUp: 1 },
      );
      rows.push({
        work: `${agent}, ${bench.count(TURNS, 10)} turns`,
        unit: "ms",
        figures: { espalier: espalier?.ms, limit: limit?.ms },
        goals: [within("parsing and writing the same bytes anew", espalier?.ms, limit?.ms, 2.5)],
        facts: { entries: espalier?.entries },
      });
      rows.push(await memoryRow(bench, agent, path));
    }
    return rows;
  },
};

async function memoryRow(bench, agent, path) {
  const nodeOptions = [`--max-old-space-size=${HEAP.old}`, `--max-semi-space-size=${HEAP.young}`];
  const peakOf = async (/** @type {string} */ file) =>
    (await bench.once("espalier", "importFile", { path: file, home: bench.scratch() }, { nodeOptions }))
      ?.peak;
  const short = await peakOf(path);
  const long = await peakOf(agentFile(bench, agent, bench.count(MANY_TURNS, 20)));
  return {
    work: `${agent}, peak of the process, ten times the turns`,
    unit: "MB",
    figures: { espalier: long },
    goals: [atMost("≤ 40 MB more, for 200 MB more to read", long && short && long - short, 40)],
    facts: { short },
  };
}

/** Made once and kept, in a folder of its own: an agent's other files would be looked at, too. */
function agentFile(bench, agent, turns) {
  const folder = join(bench.folder, "agents", `${agent}-${turns}`);
  const path = join(
    folder,
    agent === "codex" ? `rollout-2026-01-05T09-00-00-${SESSION}.jsonl` : `${SESSION}.jsonl`,
  );
  if (existsSync(path)) return path;
  mkdirSync(folder, { recursive: true });
  writeLines(`${path}.part`, texts(agentLines[agent](turns)));
  renameSync(`${path}.part`, path);
  return path;
}

function* texts(/** @type {Iterable<object>} */ lines) {
  for (const each of lines) yield JSON.stringify(each);
}
