import { withPostgres } from "../lib/bench.mjs";
import { atMost, ratio, rowOf } from "../lib/goal.mjs";
import { TURN } from "../lib/session-lines.mjs";

const LENGTHS = [100, 1_000, 2_000, 5_000, 10_000];

/** During a task there is no checkpoint: after one, the first change of each page writes the whole page. */
const WITHOUT_CHECKPOINTS = { checkpoint_timeout: "1d", max_wal_size: "64GB" };

const turns = {
  name: "turns",
  title: "A turn in a conversation that grows, beside LangGraph's checkpointers",
  async run(bench) {
    const lengths = bench.isSmoke ? [10, 20] : LENGTHS;
    const turnsOf = (name, saver, options) =>
      bench.once(name, "turns", { lengths, ...TURN, ...saver, folder: bench.scratch() }, options);
    const onPostgres = (saver) =>
      withPostgres((address) => turnsOf("langgraph", { saver, address }), WITHOUT_CHECKPOINTS);
    const taken = {
      espalier: await turnsOf("espalier"),
      langgraph: await turnsOf("langgraph", { saver: "memory" }),
      "langgraph sqlite": await turnsOf("langgraph", { saver: "sqlite" }, { ownNode: true }),
      "langgraph on espalier": await turnsOf("langgraph", { saver: "espalier" }),
      "langgraph postgres": await onPostgres("postgres"),
      "langgraph on espalier postgres": await onPostgres("espalierPostgres"),
    };
    const figuresAt = (at, field) =>
      Object.fromEntries(Object.entries(taken).map(([name, one]) => [name, one?.curve.at(at)?.[field]]));
    /** @param promises by contender, the beginning of the sentence that its turns do not grow */
    const row = (work, unit, field, growth, promises) => {
      const [first, figures] = [figuresAt(0, field), figuresAt(-1, field)];
      const goals = Object.entries(promises).map(([name, promise]) =>
        atMost(promise, ratio(figures[name], first[name]), growth),
      );
      const curve = lengths.map((x, at) => ({ x, ...figuresAt(at, field) }));
      return rowOf(`${work} a turn behind ${lengths.at(-1)} messages`, unit, figures, goals, { curve });
    };
    return [
      row("time of", "ms", "ms", 2, { espalier: "does not grow: ≤ 2 × of the first hundred's" }),
      row("bytes written by", "bytes", "bytes", 1.1, {
        espalier: "does not grow: ≤ 1.1 × of the first hundred's",
        "langgraph on espalier": "nor does a turn of LangGraph on it: ≤ 1.1 ×",
        "langgraph on espalier postgres": "nor does one in PostgreSQL: ≤ 1.1 ×",
      }),
    ];
  },
};

export const lines = [turns];
