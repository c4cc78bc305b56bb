import { join } from "node:path";
import { atLeast, atMost, ratio } from "../lib/goal.mjs";
import { sizeName } from "../lib/results.mjs";
import { writeLines } from "../lib/session-lines.mjs";

const BYTES_PER_ENTRY = 48;

const HIDDEN_MEGABYTES = 400;

/**
 * Generates messages of 100 kB without model and thinking level, a compaction that keeps the last message, and a
 * question.
 */
function* hiddenLines(megabytes) {
  const timestamp = "2026-01-05T09:00:00.000Z";
  const entry = (id, parentId, rest) => JSON.stringify({ id, parentId, timestamp, ...rest });
  const said = (content) => ({
    type: "message",
    message: { role: "user", content, timestamp: 1 },
  });
  yield JSON.stringify({ type: "session", version: 3, id: "hidden", timestamp, cwd: "/" });
  const text = "word ".repeat(20_000);
  const last = megabytes * 10 - 1;
  for (let at = 0; at <= last; at++) yield entry(`m${at}`, at === 0 ? null : `m${at - 1}`, said(text));
  const kept = { type: "compaction", summary: "All.", firstKeptEntryId: `m${last}`, tokensBefore: 1 };
  yield entry("k", `m${last}`, kept);
  yield entry("q", "k", said("and now?"));
}

const memory = {
  name: "memory",
  title: "Memory",
  async run(bench) {
    const entries = bench.sizes.at(-1) ?? 1_000;
    const { path, entries: count } = bench.session({ entries });
    const nodeOptions = ["--max-old-space-size=14000"];
    const context = await bench.alternate(
      {
        espalier: ["open", { path }],
        limit: ["nothing"],
        pi: ["open", { path }, { rounds: 1, nodeOptions }],
      },
      { rounds: 3, fresh: true },
    );
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
        of: ({ peak }) => peak,
        // An idle process already takes more memory than the few messages of a smoke run.
        goals: ({ espalier }) => [
          atMost("≤ half of what is hidden", bench.isSmoke ? undefined : espalier, megabytes / 2),
        ],
      });
    const { espalier: tree } = await bench.alternate(
      { espalier: ["index", { path }] },
      { rounds: 3, fresh: true },
    );
    return [
      {
        work: `peak of the process with the context, ${sizeName(entries)}`,
        unit: "MB",
        figures: { espalier: context.espalier?.peak, pi: context.pi?.peak, limit: context.limit?.peak },
        goals: [atLeast("≤ 1/40 of Pi's", ratio(context.pi?.peak, context.espalier?.peak), 40)],
      },
      {
        work: `peak of the process with the whole tree, ${sizeName(entries)}`,
        unit: "MB",
        figures: { espalier: tree?.peak, pi: context.pi?.peak, limit: context.limit?.peak },
        facts: { bytesPerEntry: tree?.bytesPerEntry, entries: count },
        goals: [
          atLeast("≤ 1/25 of Pi's", ratio(context.pi?.peak, tree?.peak), 25),
          atMost("≤ 48 bytes an entry in the index", tree?.bytesPerEntry, BYTES_PER_ENTRY),
        ],
      },
      await hiddenRow("open", "the context of two messages behind which a compaction hides"),
      await hiddenRow("leave", "navigating to the beginning, which leaves"),
    ];
  },
};

export const lines = [memory];
