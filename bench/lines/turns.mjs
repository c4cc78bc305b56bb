import { atMost, ratio } from "../lib/goal.mjs";
import { TURN } from "../lib/session-lines.mjs";

const LENGTHS = [100, 1_000, 2_000, 5_000, 10_000];

const turns = {
  name: "turns",
  title: "A turn in a conversation that grows, beside LangGraph's checkpointers",
  async run(bench) {
    const lengths = bench.isSmoke ? [10, 20] : LENGTHS;
    const given = { lengths, ...TURN };
    const turnsOf = (name, saver, options) =>
      bench.once(name, "turns", { ...given, ...saver, folder: bench.scratch() }, options);
    const espalier = await turnsOf("espalier");
    const memory = await turnsOf("langgraph", { saver: "memory" });
    const sqlite = await turnsOf("langgraph", { saver: "sqlite" }, { ownNode: true });
    const adapted = await turnsOf("langgraph", { saver: "espalier" });
    const [postgres, adaptedPostgres] = await onPostgres((address) => [
      () => turnsOf("langgraph", { saver: "postgres", address }),
      () => turnsOf("langgraph", { saver: "espalierPostgres", address }),
    ]);
    const last = (one) => one?.curve.at(-1);
    const first = espalier?.curve[0];
    const names = {
      espalier,
      langgraph: memory,
      "langgraph sqlite": sqlite,
      "langgraph on espalier": adapted,
      "langgraph postgres": postgres,
      "langgraph on espalier postgres": adaptedPostgres,
    };
    const curveOf = (field) =>
      lengths.map((x, at) => ({
        x,
        ...Object.fromEntries(Object.entries(names).map(([name, one]) => [name, one?.curve[at]?.[field]])),
      }));
    const row = (work, unit, field, growth) => ({
      work: `${work} a turn behind ${lengths.at(-1)} messages`,
      unit,
      figures: Object.fromEntries(Object.entries(names).map(([name, one]) => [name, last(one)?.[field]])),
      goals: [
        atMost(
          `does not grow: ≤ ${growth} × of the first hundred's`,
          ratio(last(espalier)?.[field], first?.[field]),
          growth,
        ),
        ...(field === "bytes"
          ? [
              atMost(
                `nor does a turn of LangGraph on it: ≤ ${growth} ×`,
                ratio(last(adapted)?.bytes, adapted?.curve[0]?.bytes),
                growth,
              ),
              atMost(
                `nor does one in PostgreSQL: ≤ ${growth} ×`,
                ratio(last(adaptedPostgres)?.bytes, adaptedPostgres?.curve[0]?.bytes),
                growth,
              ),
            ]
          : []),
      ],
      curve: curveOf(field),
    });
    return [row("time of", "ms", "ms", 2), row("bytes written by", "bytes", "bytes", 1.1)];
  },
};

/**
 * Runs tasks, each on a new PostgreSQL server with fsync on; nothing without PostgreSQL. There is no checkpoint during
 * a task, because after one the first change of each page writes the whole page.
 */
async function onPostgres(tasksAt) {
  const { serverPrograms, startPrivateServer } = await import("../.work/storePostgresTesting.mjs");
  const settings = { fsync: "on", checkpoint_timeout: "1d", max_wal_size: "64GB" };
  const results = [];
  if (serverPrograms())
    for (const at of [0, 1]) {
      const server = await startPrivateServer({ settings });
      try {
        results.push(await tasksAt(server.url)[at]());
      } finally {
        await server.remove();
      }
    }
  return results;
}

export const lines = [turns];
