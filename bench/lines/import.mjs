import { appendFileSync, existsSync, mkdirSync, renameSync, statSync, truncateSync } from "node:fs";
import { join } from "node:path";
import { agentLines, SESSION } from "../lib/agent-lines.mjs";
import { atMost, rowOf, within } from "../lib/goal.mjs";
import { writeLines } from "../lib/session-lines.mjs";

/** Number of turns of the timed file (about 20 MB), and of the two files whose memory is compared (110 and 440 MB). */
const TURNS = 700;
const MANY_TURNS = 3_500;
const TIMES = 4;

/**
 * Heap limits of V8 in megabytes. With more memory V8 collects later, and the figure would not show the needed memory.
 */
const HEAP = { old: 32, young: 4 };

const imports = {
  name: "import",
  title: "Import of other agents' sessions",
  async run(bench) {
    const rows = [];
    for (const agent of Object.keys(agentLines)) {
      const path = agentFile(bench, agent, bench.count(TURNS, 10));
      const row = await bench.row({
        work: `${agent}, ${bench.count(TURNS, 10)} turns`,
        tasks: {
          espalier: ["importFile", { path, home: bench.scratch() }],
          limit: ["rewrite", { path, out: join(bench.scratch(), "out.jsonl") }],
        },
        rounds: 3,
        goals: ({ espalier, limit }) => [
          within("parsing and writing the same bytes anew", espalier, limit, 2.5),
        ],
        facts: ({ espalier }) => ({ entries: espalier?.entries }),
      });
      rows.push(row);
      rows.push(...(await memoryRows(bench, agent)));
    }
    return rows;
  },
};

/**
 * Compares the memory of two files. If memory depended on the file's size, it would be four times as large, or grow by
 * a share of the additional 330 MB. Measured for the first import, and for an import of a changed file, which has to
 * find the new entries.
 */
async function memoryRows(bench, agent) {
  const nodeOptions = [`--max-old-space-size=${HEAP.old}`, `--max-semi-space-size=${HEAP.young}`];
  const sizes = [bench.count(MANY_TURNS, 10), bench.count(MANY_TURNS, 10) * TIMES];
  const first = [];
  const again = [];
  for (const turns of sizes) {
    const path = agentFile(bench, agent, turns);
    const { size } = statSync(path);
    const task = { path, home: bench.scratch() };
    const peak = async (isKept) =>
      (await bench.once("espalier", "importFile", { ...task, isKept }, { nodeOptions }))?.peak;
    first.push(await peak(true));
    appendFileSync(path, "\n");
    again.push(await peak(false));
    truncateSync(path, size);
  }
  const rowsFor = (name, peaks) =>
    sizes.map((turns, at) => {
      const more = peaks[0] && peaks[1] && peaks[1] - peaks[0];
      const goals = at === 0 ? [] : [atMost("≤ 15 MB more for four times the turns", more, 15)];
      const work = `${agent}${name}, peak of the process, ${turns.toLocaleString("en")} turns`;
      return rowOf(work, "MB", peaks[at], goals);
    });
  return [...rowsFor("", first), ...rowsFor(", again", again)];
}

/** Made once and kept in its own folder, because an import also looks at the other files of a folder. */
export function agentFile(bench, agent, turns) {
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

function* texts(lines) {
  for (const each of lines) yield JSON.stringify(each);
}

export const lines = [imports];
