import { atMost, ratio } from "../lib/line.mjs";

const LENGTHS = [100, 1_000, 2_000, 5_000, 10_000];
const text = (letter, length) => `${letter} `.repeat(length / 2);

/** @type {import("../lib/line.mjs").Line} */
export const line = {
  name: "turns",
  title: "A turn in a conversation that grows, beside LangGraph's checkpointers",
  async run(bench) {
    const lengths = bench.isSmoke ? [10, 20] : LENGTHS;
    // A turn of about 2 KB: a prompt and an answer.
    const given = {
      lengths,
      message: { role: "user", content: [{ type: "text", text: text("why", 200) }], timestamp: 1 },
      answer: {
        role: "assistant",
        content: [{ type: "text", text: text("because", 400) }],
        provider: "anthropic",
        model: "claude-sonnet-4",
        stopReason: "stop",
        timestamp: 1,
      },
    };
    const espalier = await bench.once("espalier", "turns", { ...given, folder: bench.scratch() });
    const memory = await bench.once("langgraph", "turns", {
      ...given,
      folder: bench.scratch(),
      saver: "memory",
    });
    const sqlite = await bench.once(
      "langgraph",
      "turns",
      { ...given, folder: bench.scratch(), saver: "sqlite" },
      { ownNode: true },
    );
    const last = (/** @type {{ curve: any[] } | undefined} */ one) => one?.curve.at(-1);
    const first = espalier?.curve[0];
    const names = { espalier, langgraph: memory, "langgraph sqlite": sqlite };
    const curveOf = (field) =>
      lengths.map((x, at) => ({
        x,
        ...Object.fromEntries(Object.entries(names).map(([name, one]) => [name, one?.curve[at]?.[field]])),
      }));
    return [
      {
        work: `time of a turn behind ${lengths.at(-1)} messages`,
        unit: "ms",
        figures: {
          espalier: last(espalier)?.ms,
          langgraph: last(memory)?.ms,
          "langgraph sqlite": last(sqlite)?.ms,
        },
        goals: [
          atMost("does not grow: ≤ 2 × of the first hundred's", ratio(last(espalier)?.ms, first?.ms), 2),
        ],
        curve: curveOf("ms"),
      },
      {
        work: `bytes written by a turn behind ${lengths.at(-1)} messages`,
        unit: "bytes",
        figures: { espalier: last(espalier)?.bytes, "langgraph sqlite": last(sqlite)?.bytes },
        goals: [
          atMost(
            "does not grow: ≤ 1.1 × of the first hundred's",
            ratio(last(espalier)?.bytes, first?.bytes),
            1.1,
          ),
        ],
        curve: curveOf("bytes"),
      },
    ];
  },
};
