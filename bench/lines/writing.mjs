// Writing: an append, a step of an agent, a request, a sync, a fork, rules.
import { copyFileSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { atLeast, atMost, fasterThan, ratio, rowOf, within } from "../lib/goal.mjs";
import { sampleMessages } from "../lib/session-lines.mjs";

const BATCH = 16;

/** Rounds that are not counted, because all contenders are faster when a process has run for a while. */
const WARM_UP = 12;

/** Kinds of appends, each in rounds of this many. */
const WORKS = [
  { work: "one message", batch: 1, count: 1_000, timesPi: 0.75, timesLimit: 1.6 },
  { work: `a message in a batch of ${BATCH}`, batch: BATCH, count: 1_000, timesPi: 3, timesLimit: 1.6 },
];

const micro = ({ ms }) => ms * 1_000;

const append = {
  name: "append",
  title: "Append, in the file when it answers, and read back",
  async run(bench) {
    const messages = sampleMessages(400);
    const options = { unit: "µs", rounds: 5, warmUp: WARM_UP };
    const rows = [];
    for (const { work, batch, count, timesPi, timesLimit } of WORKS) {
      const given = { messages, batch, count: bench.count(count, 20), folder: bench.scratch() };
      const row = await bench.row({
        work,
        tasks: {
          espalier: ["append", given],
          limit: ["append", given],
          pi: ["append", { ...given, folder: bench.scratch() }],
        },
        of: (answer) => micro(answer) / batch,
        goals: ({ espalier, limit, pi }) => [
          atLeast(`≥ ${timesPi} × as fast as Pi`, ratio(pi, espalier), timesPi),
          within("stringify + write", espalier, limit, timesLimit),
        ],
        ...options,
      });
      rows.push(row);
    }
    return rows;
  },
};

const step = {
  name: "step",
  title: "One step of a running agent: append, context, tokens, judge the policy",
  async run(bench) {
    const messages = sampleMessages(200);
    const stepAt = (entries, goals) => {
      const folder = bench.scratch();
      const path = (name) => {
        const copy = join(folder, `${name}.jsonl`);
        copyFileSync(bench.session({ entries }).path, copy);
        return copy;
      };
      return bench.row({
        work: "in a session of 100k entries",
        unit: "µs",
        tasks: {
          espalier: ["step", { path: path("espalier"), messages }],
          limit: ["append", { folder, messages, batch: 1, count: 1_000 }],
          pi: ["step", { path: path("pi"), messages, steps: bench.count(15, 2) }, { rounds: 1 }],
        },
        rounds: 3,
        of: micro,
        goals,
      });
    };
    const { espalier: at1k } = (await stepAt(1_000)).figures;
    const row = await stepAt(100_000, ({ espalier, limit, pi }) => [
      fasterThan("Pi", pi, espalier, 1_000),
      atMost(
        "≤ 50 µs beyond stringify and write",
        espalier === undefined || limit === undefined ? undefined : espalier - limit,
        50,
      ),
      atMost("at 100k ≤ 1.2 × of 1k", ratio(espalier, at1k), 1.2),
    ]);
    return [{ ...row, facts: { at1k } }];
  },
};

/** Number of earlier messages: a few, and 400 KB of JSON. */
const BEFORE = [10, 300];

const request = {
  name: "request",
  title:
    "A message for the log, and the body of the request that it ends, healed and rendered for its provider",
  async run(bench) {
    const rows = [];
    for (const before of BEFORE) {
      const count = bench.count(Math.max(20, before / 3), 5);
      const given = () => ({
        messages: sampleMessages(before + count),
        before,
        count,
        folder: bench.scratch(),
      });
      const row = await bench.row({
        work: `behind ${before} messages`,
        unit: "µs",
        tasks: { espalier: ["request", given()], limit: ["request", given()], pi: ["request", given()] },
        rounds: 9,
        warmUp: 20,
        of: micro,
        goals: ({ espalier, pi }) => [atLeast("≥ 1.5 × as fast as Pi", ratio(pi, espalier), 1.5)],
      });
      rows.push(row);
    }
    return rows;
  },
};

const CALLERS = 16;

const sync = {
  name: "sync",
  title: "Append that survives the loss of power",
  async run(bench) {
    const given = {
      folder: bench.scratch(),
      messages: sampleMessages(64),
      callers: CALLERS,
      rounds: bench.count(40, 2),
    };
    const row = await bench.row({
      work: `${CALLERS} callers at once, a message each`,
      tasks: { espalier: ["sync", given], limit: ["sync", given] },
      rounds: 3,
      goals: ({ espalier, limit }) => [fasterThan("one fdatasync each", limit, espalier, 2.5)],
    });
    return [row];
  },
};

const fork = {
  name: "fork",
  title: "Fork",
  async run(bench) {
    const recipe = { entries: 100_000, compactions: false, branches: false, labels: false };
    const { path, leaf } = bench.session(recipe);
    const folder = bench.scratch();
    const answers = await bench.alternate(
      {
        espalier: ["fork", { path, leaf, folder }],
        limit: ["copy", { path, folder }],
        pi: ["fork", { path, leaf, folder: bench.scratch() }, { rounds: 2 }],
      },
      { rounds: 3 },
    );
    const { espalier, limit, pi } = answers;
    const row = (work, what, bound) => {
      const [ours, theirs, least] = [espalier?.[what], pi?.ms, limit?.[what]];
      const goals = [fasterThan("Pi", theirs, ours, 5), within(bound, ours, least, 3)];
      const facts = { synced: espalier?.synced, limitSynced: limit?.synced };
      return rowOf(work, "ms", { espalier: ours, pi: theirs, limit: least }, goals, { facts });
    };
    return [
      row("a path of 100k entries", "ms", "copying and syncing those bytes"),
      row("the same without the wait for the disk, which Pi leaves out", "unsynced", "copying those bytes"),
    ];
  },
};

const rules = {
  name: "rules",
  title: "The user's rules: looked for in each prompt, kept over five compactions",
  async run(bench) {
    const said = JSON.parse(
      readFileSync(new URL("../../packages/engine/test/fifteen-rules.json", import.meta.url), "utf8"),
    );
    // Most prompts contain no rule, so the cost of a search without results is measured.
    const request = "Have a look at the failing build of the report and tell me what is wrong with it. ";
    const prompts = Array.from({ length: 64 }, (_, at) => ({
      role: "user",
      content: [{ type: "text", text: `${at}: ${request.repeat(6)}` }],
      timestamp: 1,
    }));
    const given = { prompts, count: bench.count(1_000, 20) };
    const taskOf = (task, rules, given) =>
      bench.once("espalier", task, { ...given, folder: bench.scratch(), rules });
    // Contenders alternate, and the best time of each is used, because the speed of the machine changes.
    const [found, without] = [[], []];
    for (let round = 0; round < 3; round++) {
      found.push((await taskOf("prompt", true, given))?.ms);
      without.push((await taskOf("prompt", false, given))?.ms);
    }
    const microOf = (times) => (times.includes(undefined) ? undefined : micro({ ms: Math.min(...times) }));
    const rulesRow = (work, unit, ours, bare, goals) =>
      rowOf(work, unit, { espalier: ours, "espalier without rules": bare }, goals);
    const times = [found, without].map(microOf);
    const kept = await taskOf("rulesKept", true, { said: said.plain });
    const lost = await taskOf("rulesKept", false, { said: said.plain });
    return [
      rulesRow("a prompt of 500 characters", "µs", ...times, [
        within("the same append without them", ...times, 1.5),
      ]),
      rulesRow("fifteen rules after five compactions", "rules", kept?.kept, lost?.kept, [
        atLeast("≥ 14 are left", kept?.kept, 14),
        atMost("≤ 5 % more tokens", ratio(kept?.tokens, lost?.tokens), 1.05),
      ]),
    ];
  },
};

export const lines = [append, step, request, sync, fork, rules];
