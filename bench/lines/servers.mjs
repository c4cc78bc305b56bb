// Servers: many sessions in one process, and many in one database.
import { createHash } from "node:crypto";
import { median } from "../lib/bench.mjs";
import { atMost, ratio } from "../lib/goal.mjs";
import { HEADER, TURN } from "../lib/session-lines.mjs";

const SESSIONS = 500;
const TURNS = 10;
/** Numbers of sessions in one database. */
const SIZES = [1_000, 100_000, 1_000_000];
const ROUNDS = 300;
const WARM_UP = 50;
/** Number of sessions that a list shows at first. */
const FIRST = 50;

const server = {
  name: "server",
  title: "500 sessions on one server process, all at once, beside bare files and bare INSERTs",
  async run(bench) {
    const given = {
      sessions: bench.count(SESSIONS, 5),
      turns: bench.count(TURNS, 2),
      ...TURN,
    };
    const files = await rowsOn("files", bench, () => ({ ...given, folder: bench.scratch() }));
    const { serverPrograms, startPrivateServer } = await import("../.work/storePostgresTesting.mjs");
    if (!serverPrograms()) return files;
    const database = await startPrivateServer({ settings: { fsync: "on" } });
    try {
      await (await import("../.work/engine.mjs")).migrateStore(database.url);
      let round = 0;
      const rows = await rowsOn("PostgreSQL", bench, () => ({
        ...given,
        address: `${database.url}?namespace=round${++round}`,
      }));
      return [...files, ...rows];
    } finally {
      await database.remove();
    }
  },
};

/** Each round has a new process, because memory is measured, and because a new server also creates sessions. */
async function rowsOn(place, bench, given) {
  const answers = { espalier: [], limit: [] };
  for (let round = 0; round < bench.count(5, 1); round++)
    for (const [name, answer] of Object.entries(answers))
      answer.push(await bench.once(name, "server", given()));
  const figure = (name, field) => median(answers[name].map((answer) => answer[field]));
  const row = (work, unit, field, goal) => {
    const figures = { espalier: figure("espalier", field), limit: figure("limit", field) };
    return { work: `${work}, ${place}`, unit, figures, goals: goal ? [goal(figures)] : [] };
  };
  const within = (what, times) => (figures) =>
    atMost(`≤ ${times} × of ${what}`, ratio(figures.espalier, figures.limit), times);
  const { sessions } = given();
  const bare = place === "files" ? "bare files" : "bare INSERTs";
  return [
    row(`${sessions} creates at once, p99`, "ms", "createP99", within(bare, 8)),
    row(`${sessions} turns at once, p99`, "ms", "turnP99", within(bare, 4)),
    row("turns a second", "turns/s", "turnsPerSecond", ({ espalier, limit }) =>
      atMost(`≤ 4 × fewer than ${bare}`, ratio(limit, espalier), 4),
    ),
    {
      work: `memory of an open session of ${2 * given().turns} messages, ${place}`,
      unit: "kB",
      figures: { espalier: figure("espalier", "kilobytes") },
      goals: [atMost("≤ 100 kB", figure("espalier", "kilobytes"), 100)],
    },
  ];
}

const database = {
  name: "database",
  title: "One PostgreSQL database with more and more sessions",
  async run(bench) {
    const { serverPrograms, startPrivateServer } = await import("../.work/storePostgresTesting.mjs");
    if (!serverPrograms()) return [{ work: "no PostgreSQL here", unit: "ms", figures: {}, goals: [] }];
    const sizes = bench.isSmoke ? [20, 60] : SIZES;
    const started = await startPrivateServer({ settings: { fsync: "on" } });
    try {
      const stores = [];
      for (const size of sizes) stores.push(await filledStore(started.url, size));
      const times = await timesOf(stores, bench.count(ROUNDS, 2), bench.count(WARM_UP, 1));
      for (const { store } of stores) await store.close();
      return rowsOf(sizes, times);
    } finally {
      await started.remove();
    }
  },
};

/** Measures each size in turns, so that all have the same conditions. */
async function timesOf(stores, rounds, warmUp) {
  const works = {
    "open by id": async ({ store, id }) => (await store.open({ id }, "write")).readPath(),
    append: async ({ store, id }, round) => {
      const log = await store.open({ id }, "write");
      const line = entryLine(`new${round}`, "a");
      const start = performance.now();
      await log.append([line]);
      return performance.now() - start;
    },
    [`the ${FIRST} newest`]: async ({ store }) => {
      let count = 0;
      for await (const _ of store.list()) if (++count === FIRST) break;
    },
  };
  const times = Object.fromEntries(Object.keys(works).map((work) => [work, stores.map(() => [])]));
  for (let round = 0; round < rounds + warmUp; round++)
    for (const [work, act] of Object.entries(works))
      for (const [at, { store, size }] of stores.entries()) {
        const id = idOf(1 + ((round * 7_919) % size));
        const start = performance.now();
        const own = await act({ store, id }, round);
        const ms = typeof own === "number" ? own : performance.now() - start;
        if (round >= warmUp) times[work][at].push(ms);
      }
  return times;
}

function rowsOf(sizes, times) {
  const names = sizes.map((size) => size.toLocaleString("en"));
  return Object.entries(times).map(([work, ofSizes]) => {
    const medians = ofSizes.map(median);
    return {
      work: `${work}, among ${names.at(-1)} sessions`,
      unit: "ms",
      figures: { espalier: medians.at(-1) },
      facts: Object.fromEntries(names.map((name, at) => [name, medians[at]])),
      goals: [atMost(`≤ 1.2 × of among ${names[0]}`, ratio(medians.at(-1), medians[0]), 1.2)],
    };
  });
}

/** Creates a database with this many sessions of a header and a message, by statements in the database. */
async function filledStore(address, size) {
  const { migrate, poolDatabase, postgresStore } = await import("../.work/storePostgres.mjs");
  const first = poolDatabase(address, "the bench's server");
  await first.query({ text: `CREATE DATABASE sessions${size}` });
  await first.close();
  const url = new URL(address);
  url.pathname = `/sessions${size}`;
  const database = poolDatabase(`${url}`, "the bench's server", { statementMs: 0 });
  await migrate(database);
  await database.transaction(async (connection) => {
    // Generated sessions do not need a check of each reference.
    await connection.query({ text: "SET LOCAL session_replication_role = replica" });
    await connection.query(
      {
        // In the order of their times, which differs from the order of their keys.
        text: `CREATE TEMPORARY TABLE made AS SELECT n, md5(n::text) AS id, 'bench/' || md5(n::text) AS key,
            replace($2, 'ID', md5(n::text)) AS header, $3::text AS message
          FROM generate_series(1, $1::bigint) AS n`,
      },
      [size, JSON.stringify({ ...HEADER, id: "ID" }), entryLine("a", null)],
    );
    await connection.query({
      text: `INSERT INTO espalier.session (key, namespace, ref, made, lines, bytes, modified, first_message, updated_at)
        SELECT key, 'bench', id, gen_random_uuid(), 2, octet_length(header) + octet_length(message) + 2,
          now() - (${size} - n) * interval '1 minute', 'why', '${HEADER.timestamp}' FROM made`,
    });
    await connection.query({
      text: `INSERT INTO espalier.line (session, position, at, id, parent, type, moves, line)
        SELECT key, 0, 0, NULL, NULL, NULL, NULL, header FROM made UNION ALL
        SELECT key, 1, octet_length(header) + 1, 'a', NULL, 'message', true, message FROM made`,
    });
  });
  await database.query({ text: "VACUUM ANALYZE espalier.session, espalier.line" });
  await database.query({ text: "CHECKPOINT" });
  return { size, store: postgresStore(database, "bench") };
}

/** Id of a session, computed like `md5(n::text)` in the database. */
const idOf = (n) => createHash("md5").update(`${n}`).digest("hex");

const entryLine = (id, parentId) =>
  JSON.stringify({
    type: "message",
    id,
    parentId,
    timestamp: HEADER.timestamp,
    message: TURN.message,
  });

export const lines = [server, database];
