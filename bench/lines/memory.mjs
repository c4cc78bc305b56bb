import { join } from "node:path";
import { atLeast, atMost, ratio } from "../lib/goal.mjs";
import { sizeName } from "../lib/results.mjs";
import { HEADER, writeLines } from "../lib/session-lines.mjs";

const BYTES_PER_ENTRY = 48;

const HIDDEN_MEGABYTES = 400;

/**
 * Generates messages of 100 kB without model and thinking level, a compaction that keeps the last message, and a
 * question.
 */
function* hiddenLines(megabytes) {
  const { timestamp } = HEADER;
  const entry = (id, parentId, rest) => JSON.stringify({ id, parentId, timestamp, ...rest });
  const said = (content) => ({ type: "message", message: { role: "user", content, timestamp: 1 } });
  yield JSON.stringify({ ...HEADER, id: "hidden" });
  const text = "word ".repeat(20_000);
  const last = megabytes * 10 - 1;
  for (let at = 0; at <= last; at++) yield entry(`m${at}`, at === 0 ? null : `m${at - 1}`, said(text));
  const kept = { type: "compaction", summary: "All.", firstKeptEntryId: `m${last}`, tokensBefore: 1 };
  yield entry("k", `m${last}`, kept);
  yield entry("q", "k", said("and now?"));
}

const peakOf = ({ peak }) => peak;

const memory = {
  name: "memory",
  title: "Memory",
  async run(bench) {
    const entries = bench.sizes.at(-1) ?? 1_000;
    const { path, entries: count } = bench.session({ entries });
    const nodeOptions = ["--max-old-space-size=14000"];
    const context = await bench.row({
      work: `peak of the process with the context, ${sizeName(entries)}`,
      unit: "MB",
      tasks: {
        espalier: ["open", { path }],
        limit: ["nothing"],
        pi: ["open", { path }, { rounds: 1, nodeOptions }],
      },
      rounds: 3,
      fresh: true,
      of: peakOf,
      goals: ({ espalier, pi }) => [atLeast("≤ 1/40 of Pi's", ratio(pi, espalier), 40)],
    });
    const { pi, limit } = context.figures;
    const tree = await bench.row({
      work: `peak of the process with the whole tree, ${sizeName(entries)}`,
      unit: "MB",
      tasks: { espalier: ["index", { path }] },
      rounds: 3,
      fresh: true,
      of: peakOf,
      goals: ({ espalier }, answers) => [
        atLeast("≤ 1/25 of Pi's", ratio(pi, espalier), 25),
        atMost("≤ 48 bytes an entry in the index", answers.espalier?.bytesPerEntry, BYTES_PER_ENTRY),
      ],
      facts: ({ espalier }) => ({ bytesPerEntry: espalier?.bytesPerEntry, entries: count }),
    });
    const megabytes = bench.count(HIDDEN_MEGABYTES, 2);
    const hidden = join(bench.scratch(), "hidden.jsonl");
    writeLines(hidden, hiddenLines(megabytes));
    const hiddenRow = (task, work) =>
      bench.row({
        work: `${work} ${megabytes} MB of messages that name no model`,
        unit: "MB",
        tasks: { espalier: [task, { path: hidden }], limit: ["nothing"] },
        rounds: 3,
        fresh: true,
        of: peakOf,
        // An idle process already takes more memory than the few messages of a smoke run.
        goals: ({ espalier }) => [
          atMost("≤ half of what is hidden", bench.isSmoke ? undefined : espalier, megabytes / 2),
        ],
      });
    return [
      context,
      { ...tree, figures: { ...tree.figures, pi, limit } },
      await hiddenRow("open", "the context of two messages behind which a compaction hides"),
      await hiddenRow("leave", "navigating to the beginning, which leaves"),
    ];
  },
};

export const lines = [memory];
