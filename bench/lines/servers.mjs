// Servers: many sessions in one process, and many in one database.
import { createHash } from "node:crypto";
import { median, mediansInTurns, NO_POSTGRES, timed, withPostgres } from "../lib/bench.mjs";
import { atMost, ratio, rowOf, within } from "../lib/goal.mjs";
import { HEADER, madeLine, TURN } from "../lib/session-lines.mjs";

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
    const rows = await withPostgres(async (url) => {
      await (await import("../.work/engine.mjs")).migrateStore(url);
      let round = 0;
      return rowsOn("PostgreSQL", bench, () => ({ ...given, address: `${url}?namespace=round${++round}` }));
    });
    return [...files, ...(rows ?? [])];
  },
};

/** Each round has a new process, because memory is measured, and because a new server also creates sessions. */
async function rowsOn(place, bench, given) {
  const answers = { espalier: [], limit: [] };
  for (let round = 0; round < bench.count(5, 1); round++)
    for (const [name, answer] of Object.entries(answers))
      answer.push(await bench.once(name, "server", given()));
  const row = (work, unit, field, goals, names = ["espalier", "limit"]) => {
    const figures = names.map((name) => [name, median(answers[name].map((answer) => answer[field]))]);
    const byName = Object.fromEntries(figures);
    return rowOf(`${work}, ${place}`, unit, byName, goals(byName));
  };
  const bare = place === "files" ? "bare files" : "bare INSERTs";
  const withinBare =
    (times) =>
    ({ espalier, limit }) => [within(bare, espalier, limit, times)];
  const { sessions, turns } = given();
  return [
    row(`${sessions} creates at once, p99`, "ms", "createP99", withinBare(8)),
    row(`${sessions} turns at once, p99`, "ms", "turnP99", withinBare(4)),
    row("turns a second", "turns/s", "turnsPerSecond", ({ espalier, limit }) => [
      atMost(`≤ 4 × fewer than ${bare}`, ratio(limit, espalier), 4),
    ]),
    row(
      `memory of an open session of ${2 * turns} messages`,
      "kB",
      "kilobytes",
      ({ espalier }) => [atMost("≤ 100 kB", espalier, 100)],
      ["espalier"],
    ),
  ];
}

const database = {
  name: "database",
  title: "One PostgreSQL database with more and more sessions",
  async run(bench) {
    const sizes = bench.isSmoke ? [20, 60] : SIZES;
    const rows = await withPostgres(async (url) => {
      const stores = [];
      for (const size of sizes) stores.push(await filledStore(url, size));
      const medians = await mediansInTurns(bench.count(ROUNDS, 2), worksOn(stores), bench.count(WARM_UP, 1));
      for (const { store } of stores) await store.close();
      const names = sizes.map((size) => size.toLocaleString("en"));
      return Object.keys(WORKS).map((work) => {
        const facts = Object.fromEntries(sizes.map((size, at) => [names[at], medians[`${work} ${size}`]]));
        const [first, last] = [facts[names[0]], facts[names.at(-1)]];
        const goal = atMost(`≤ 1.2 × of among ${names[0]}`, ratio(last, first), 1.2);
        return rowOf(`${work}, among ${names.at(-1)} sessions`, "ms", last, [goal], { facts });
      });
    });
    return rows ?? NO_POSTGRES;
  },
};

const WORKS = {
  "open by id": async (store, id) => void (await (await store.open({ id }, "write")).readPath()),
  append: async (store, id, round) => {
    const log = await store.open({ id }, "write");
    const line = entryLine(`new${round}`, "a");
    return (await timed(() => log.append([line]))).ms;
  },
  [`the ${FIRST} newest`]: async (store) => {
    let count = 0;
    for await (const _ of store.list()) if (++count === FIRST) break;
  },
};

/** Each work in each size, so that all sizes have the same conditions. */
const worksOn = (stores) =>
  Object.fromEntries(
    Object.entries(WORKS).flatMap(([work, act]) =>
      stores.map(({ store, size }) => [
        `${work} ${size}`,
        (round) => act(store, idOf(1 + ((round * 7_919) % size)), round),
      ]),
    ),
  );

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

const entryLine = (id, parentId) => madeLine("message", id, parentId, { message: TURN.message });

export const lines = [server, database];
