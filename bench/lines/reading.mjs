// Reading a session: a context, the whole tree, an old leaf, and sessions that are slow to read.
import { closeSync, openSync, writeSync } from "node:fs";
import { join } from "node:path";
import { atLeast, atMost, fasterThan, ratio, rowOf, stretch, within } from "../lib/goal.mjs";
import { sizeName } from "../lib/results.mjs";
import { HEADER, madeLine } from "../lib/session-lines.mjs";

/** Factors over Pi by number of entries: the required one, and the desired one. */
const AGAINST_PI = { 1000: [3, 4], 10000: [30, 40], 100000: [200, 300], 1000000: [2_000, 5_000] };

/** Heap size with which Pi can read the large sessions. */
const PI_HEAP = { nodeOptions: ["--max-old-space-size=14000"] };

const largest = (bench) => bench.sizes.at(-1) ?? 1_000;

const open = {
  name: "open",
  title: "Cold open + context",
  async run(bench) {
    const rows = [];
    for (const entries of bench.sizes) {
      const { path } = bench.session({ entries });
      const row = await openRow(bench, path, `${sizeName(entries)} entries`, {
        rounds: entries >= 1_000_000 ? 1 : entries >= 100_000 ? 3 : 9,
      });
      const [wanted, hoped] = AGAINST_PI[entries] ?? [1, 1];
      const { pi, espalier } = row.figures;
      row.goals.unshift(
        fasterThan("Pi", pi, espalier, wanted),
        stretch(fasterThan("Pi", pi, espalier, hoped)),
      );
      rows.push(row);
    }
    const cost = (entries) => {
      const row = rows[bench.sizes.indexOf(entries)];
      return row && ratio(row.figures.espalier, row.facts.contextBytes);
    };
    const growth = ratio(cost(1_000_000), cost(10_000));
    rows.at(-1)?.goals.push(atMost("per byte of context 1M ≤ 2 × of 10k", growth, 2));
    return [...rows, await farSettingRow(bench)];
  },
};

/**
 * Measures a session whose compactions do not record the settings, so that only the first lines have the thinking
 * level.
 */
function farSettingRow(bench) {
  const entries = Math.min(100_000, largest(bench));
  const { path } = bench.session({ entries, thinking: false });
  return bench.row({
    work: `a setting that only the first of ${sizeName(entries)} entries names: one pass back`,
    tasks: { espalier: ["open", { path }], limit: ["newlines", { path }] },
    goals: ({ espalier, limit }) => [within("counting newlines", espalier, limit, 3)],
  });
}

/** Measures opening one file, compared with Pi, and with reading and parsing the same bytes. */
async function openRow(bench, path, work, { rounds, ourRounds = 15, times = 2.5, hoped = 1.5 }) {
  const { spans } = (await bench.once("espalier", "spans", { path })) ?? { spans: [] };
  const bound = "reading and parsing the context's bytes";
  return bench.row({
    work,
    tasks: {
      espalier: ["open", { path }],
      limit: ["parse", { path, spans }],
      pi: ["open", { path }, { rounds, ...PI_HEAP }],
    },
    rounds: ourRounds,
    warmUp: 4,
    goals: ({ espalier, limit }, answers) => {
      const [theirs, ours] = [answers.pi?.messages, answers.espalier?.messages];
      if (theirs !== undefined && ours !== undefined && theirs !== ours)
        throw new Error(`Pi reads ${theirs} messages of ${path}, Espalier ${ours}.`);
      return [
        within(bound, espalier, limit, times),
        ...(hoped ? [stretch(within(bound, espalier, limit, hoped))] : []),
      ];
    },
    facts: ({ espalier, limit }) => ({ contextBytes: limit?.bytes, messages: espalier?.messages }),
  });
}

const noCompaction = {
  name: "no-compaction",
  title: "Cold open + context where nothing was ever compacted",
  async run(bench) {
    const entries = Math.min(200_000, largest(bench) * 2);
    const { path } = bench.session({ entries, compactions: false, branches: false });
    const work = `${entries.toLocaleString("en")} entries, all of them read`;
    const row = await openRow(bench, path, work, { rounds: 2, ourRounds: 4, times: 1.8, hoped: undefined });
    row.goals.unshift(fasterThan("Pi", row.figures.pi, row.figures.espalier, 1.8));
    return [row];
  },
};

const oldLeaf = {
  name: "old-leaf",
  title: "Context at an old leaf",
  async run(bench) {
    const entries = largest(bench);
    const { path, landmarks, entries: count } = bench.session({ entries });
    const { id } = landmarks.findLast(({ at }) => at <= count / 10) ?? landmarks[0];
    const { espalier, limit, pi } = await bench.alternate(
      {
        espalier: ["oldLeaf", { path, id }],
        limit: ["newlines", { path }],
        pi: ["oldLeaf", { path, id }, { rounds: 1, ...PI_HEAP }],
      },
      { warmUp: 2 },
    );
    const row = (time, ours, limit, goals) => {
      const work = `at 10 % of ${sizeName(entries)}, the ${time} time`;
      return rowOf(work, "ms", { espalier: ours, pi: pi?.first, limit }, goals);
    };
    const { first, again, newest } = espalier ?? {};
    return [
      row("second", again, newest, [
        fasterThan("Pi", pi?.first, again, 1_000),
        within("the newest leaf's", again, newest, 3),
      ]),
      row("first", first, limit?.ms, [
        within("counting newlines: one scan of the file", first, limit?.ms, 2),
      ]),
    ];
  },
};

const index = {
  name: "index",
  title: "Index of the whole tree",
  async run(bench) {
    const rows = [];
    for (const entries of bench.sizes.filter((size) => size >= 10_000 || bench.isSmoke)) {
      const { path } = bench.session({ entries });
      // Only a large log is judged: reading a small one ends before the runtime has optimized the code.
      const isJudged = entries >= 1_000_000 || bench.isSmoke;
      const row = await bench.row({
        work: `${sizeName(entries)} entries`,
        tasks: {
          espalier: ["index", { path }],
          limit: ["newlines", { path }],
          pi: ["index", { path }, { rounds: 1, ...PI_HEAP }],
        },
        rounds: entries >= 1_000_000 ? 5 : 9,
        goals: ({ espalier, limit, pi }) =>
          isJudged
            ? [fasterThan("Pi's open", pi, espalier, 30), within("counting newlines", espalier, limit, 2)]
            : [],
      });
      rows.push(row);
    }
    return rows;
  },
};

/** Maximum milliseconds for a session of 100,000 entries. */
const LEDGER_MS = 2_000;

const cache = {
  name: "cache",
  title: "Ledger of the prompt cache",
  async run(bench) {
    const entries = Math.min(100_000, largest(bench));
    const { path } = bench.session({ entries });
    return [
      await bench.row({
        work: `${sizeName(entries)} entries, every request beside the one before`,
        tasks: { espalier: ["cache", { path }] },
        rounds: 5,
        goals: ({ espalier }) => [atMost("within two seconds", espalier, LEDGER_MS)],
        facts: ({ espalier }) => ({ calls: espalier?.calls, breaks: espalier?.breaks }),
      }),
    ];
  },
};

const MEGABYTE = 1 << 20;

const hugeLine = {
  name: "huge-line",
  title: "One line of hundreds of megabytes",
  async run(bench) {
    const folder = bench.scratch();
    const open = (work, megabytes, contenders, goals) => {
      const path = join(folder, `line-${megabytes}.jsonl`);
      writeHugeLine(path, bench.isSmoke ? 1 : megabytes);
      const tasks = Object.fromEntries(contenders.map((name) => [name, ["open", { path }]]));
      return bench.row({ work, tasks, rounds: 1, fresh: true, goals });
    };
    const small = await open("50 MB", 50, ["espalier"]);
    const large = await open("200 MB", 200, ["espalier", "pi"], ({ espalier, pi }) => [
      fasterThan("Pi", pi, espalier, 20),
      atMost("linear: 200 MB ≤ 6 × of 50 MB", ratio(espalier, small.figures.espalier), 6),
    ]);
    const work = "600 MB, longer than any text can be: the session opens, and the line is named as damaged";
    const huge = await open(work, 600, ["espalier"], ({ espalier }) => [
      atMost("opens, in ≤ 6 × of 200 MB", ratio(espalier, large.figures.espalier), 6),
    ]);
    return [large, huge];
  },
};

/** Writes a session of a prompt, a result of this many megabytes, and an answer. */
function writeHugeLine(path, megabytes) {
  const fd = openSync(path, "w");
  const said = (id, parentId, content) =>
    madeLine("message", id, parentId, { message: { role: "user", timestamp: 1, content } });
  writeSync(fd, `${JSON.stringify({ ...HEADER, id: "huge" })}\n`);
  writeSync(fd, `${said("a0000000", null, "Show me all of it.")}\n`);
  const [before, after] = said("b0000000", "a0000000", "TEXT").split("TEXT");
  writeSync(fd, before);
  const block = Buffer.alloc(MEGABYTE, "the cache keeps what was read, line by line. ");
  for (let at = 0; at < megabytes; at++) writeSync(fd, block);
  writeSync(fd, `${after}\n`);
  writeSync(fd, `${said("c0000000", "b0000000", "And now?")}\n`);
  closeSync(fd);
}

/** More entries than Pi's objects fit on the default heap. */
const ENTRIES = 1_350_000;

const manyEntries = {
  name: "many-entries",
  title: "1.35 million entries on the default heap",
  async run(bench) {
    // Texts are small, so that the number of entries fills the heap.
    const { path } = bench.session({ entries: ENTRIES, scale: 0.1 });
    const whole = await bench.once("espalier", "index", { path, withContext: true });
    const { ms, peak, entries } = whole ?? {};
    const goal = atLeast("opens: all entries are there", entries, bench.isSmoke ? 300 : ENTRIES);
    return [rowOf("open, context and the whole tree", "ms", ms, [goal], { facts: { peak, entries } })];
  },
};

export const lines = [open, noCompaction, oldLeaf, index, cache, hugeLine, manyEntries];
