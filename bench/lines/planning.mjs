// Deciding, planning and summarizing.
import { spawnSync } from "node:child_process";
import { copyFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { atLeast, atMost, fasterThan, ratio, rowOf, stretch } from "../lib/goal.mjs";
import { sampleMessages } from "../lib/session-lines.mjs";

const SETTINGS = { keepRecentTokens: 20_000 };

const plan = {
  name: "plan",
  title: "Plans",
  async run(bench) {
    const row = (work, task, args, goals) =>
      bench.row({
        work,
        tasks: { espalier: [task, args], pi: [task, args, { rounds: 1 }] },
        rounds: 3,
        goals: ({ espalier, pi }, answers) => [
          fasterThan("Pi", pi, espalier, 100),
          ...goals(espalier, answers),
        ],
      });
    const planOf = (entries, goals) =>
      row(
        "a compaction at 100k entries",
        "plan",
        { path: bench.session({ entries }).path, settings: SETTINGS },
        goals,
      );
    const small = await planOf(1_000, () => []);
    const { path, landmarks, leaf } = bench.session({ entries: 100_000 });
    let count;
    const collect = await row(
      "",
      "collect",
      { path, from: leaf, to: landmarks.at(-1)?.id },
      (ms, { espalier }) => {
        count = espalier?.entries;
        const each = ratio(ms && ms * 1_000, count);
        return [atMost("cost of the branch: ≤ 20 µs an entry", each, 20)];
      },
    );
    return [
      await planOf(100_000, (ms) => [
        atMost("cost of the kept part: at 100k ≤ 2 × of 1k", ratio(ms, small.figures.espalier), 2),
      ]),
      { ...collect, work: `what a branch of ${count} entries says, at 100k entries` },
    ];
  },
};

const deciding = {
  name: "deciding",
  title: "Deciding whether to compact",
  async run(bench) {
    const path = join(bench.scratch(), "session.jsonl");
    copyFileSync(bench.session({ entries: 10_000 }).path, path);
    const message = sampleMessages(20).at(-1);
    const { espalier: decided } = await bench.alternate(
      { espalier: ["decide", { path, message }] },
      { rounds: 3 },
    );
    const long = bench.session({ entries: 2_000, compactions: false, branches: false });
    const { espalier: pruned } = await bench.alternate(
      { espalier: ["prune", { path: long.path, count: 1_000 }] },
      { rounds: 3 },
    );
    const row = (work, ms, bound) => rowOf(work, "ms", ms, [atMost(`< ${bound} ms`, ms, bound)]);
    return [
      row("judging the policy at a context of 100,000 tokens", decided?.judge, 1),
      row("estimating the context when one message is new", decided?.estimate, 1),
      row("pruning 1,000 messages to a third", pruned?.ms, 10),
    ];
  },
};

/** Files of the long sessions: the written ones after days of further work, with 48 to 62 requests each. */
function longSessions() {
  const folder = join(import.meta.dirname, "../sessions");
  return readdirSync(folder)
    .sort()
    .map((name) => join(folder, name));
}

/** Measures of the summaries of each session, by name. */
function measureSessions(files = []) {
  const espalier = join(import.meta.dirname, "../../scripts/espalier.mjs");
  const command = [espalier, "eval", ...files, "--policy", "token-budget", "--json"];
  const { stdout, status, stderr } = spawnSync(process.execPath, command, {
    encoding: "utf8",
    maxBuffer: 1 << 28,
  });
  if (status !== 0) throw new Error(`espalier eval failed: ${stderr || stdout}`);
  const measured = JSON.parse(stdout).sessions.flatMap(({ session, rows }) => {
    const row = rows.find(({ policy, summarizer }) => policy === null && summarizer === "extractive");
    return row ? [[session, row]] : [];
  });
  return Object.fromEntries(measured);
}

const MEASURES = ["reach", "user", "found", "state", "dump", "prec"];

/** Returns the mean of each measure, over the sessions that have it. */
const meanOfMeasures = (rows) =>
  Object.fromEntries(
    ["tokens", ...MEASURES].map((name) => {
      const known = rows.map((row) => row[name]).filter((value) => value !== null);
      return [name, known.length === 0 ? null : known.reduce((sum, value) => sum + value, 0) / known.length];
    }),
  );

/** Formats measures as one line of text. */
const measuresLine = (row) =>
  [
    `${Math.round(row.tokens)} tokens`,
    ...MEASURES.map((name) => `${name} ${row[name]?.toFixed(2) ?? "–"}`),
  ].join(", ");

/** Goals of a mean; one session may have less of them. */
const MEAN_GOALS = [
  ["reach", 0.75],
  ["user", 0.95],
  ["found", 0.82],
  ["state", 0.82],
  ["prec", 0.3],
];

const summaryRow = (name, measures, more) =>
  rowOf(`${name}: ${measuresLine(measures)}`, "of what users said, of 1", measures.user, [
    atMost("≤ 2,000 tokens", measures.tokens, 2_000),
    atMost("dump: ≤ 0.2", measures.dump, 0.2),
    ...more,
  ]);

const meanRow = (name, sessions, weigh = (goal) => goal) => {
  const mean = meanOfMeasures(sessions);
  const goals = MEAN_GOALS.map(([column, least]) => atLeast(`${column}: ≥ ${least}`, mean[column], least));
  return summaryRow(name, mean, goals.map(weigh));
};

const summaries = {
  name: "summaries",
  title: "What a summary made without a model carries of the project's own sessions",
  async run(bench) {
    // It summarizes about 50 times, which is too much for a smoke run.
    if (bench.isSmoke) return [];
    const long = measureSessions(longSessions());
    const named = [
      ...Object.entries(measureSessions()),
      ...Object.entries(long).map(([name, measures]) => [`${name}, long`, measures]),
    ];
    return [
      ...named.map(([name, measures]) =>
        summaryRow(name, measures, [atLeast("state: ≥ 0.6", measures.state, 0.6)]),
      ),
      meanRow(
        "mean",
        named.map(([, measures]) => measures),
      ),
      meanRow("mean of the long ones", Object.values(long), stretch),
    ];
  },
};

export const lines = [plan, deciding, summaries];
