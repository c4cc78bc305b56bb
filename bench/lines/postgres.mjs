import { mediansInTurns, medianTime, NO_POSTGRES, withPostgres, writtenBytes } from "../lib/bench.mjs";
import { atMost, ratio, rowOf, within } from "../lib/goal.mjs";
import { HEADER, madeLine, repeated, TURN } from "../lib/session-lines.mjs";

const APPENDS = 300;
const LENGTHS = [100, 500, 1_000, 2_000];
const TURNS = 5;

const postgres = {
  name: "postgres",
  title: "PostgreSQL, a server with fsync on, beside a bare INSERT and LangGraph's saver",
  async run(bench) {
    const rows = await withPostgres(async (url) => {
      const storePostgres = await import("../.work/storePostgres.mjs");
      const sessionTree = await import("../.work/sessionTree.mjs");
      const database = storePostgres.poolDatabase(url, "the bench's server");
      await storePostgres.migrate(database);
      const store = storePostgres.postgresStore(database, "bench");
      const on = { bench, sessionTree, url, database, store };
      const rows = [await appendRow(on), ...(await lengthRows(on)), ...(await turnRows(on))];
      await store.close();
      return rows;
    });
    return rows ?? NO_POSTGRES;
  },
};

/** Appends of one entry, alternating with inserts of the same text into a table with only a number for each text. */
async function appendRow({ bench, database, store }) {
  await database.query({ text: "CREATE TABLE bare (id bigserial PRIMARY KEY, body text NOT NULL)" });
  const log = await store.create({ ...HEADER, id: "append" });
  const body = (n) => entryLine(`e${n}`, n === 0 ? null : `e${n - 1}`, repeated("word", 1_000));
  const insert = { name: "bare", text: "INSERT INTO bare (body) VALUES ($1)" };
  const figures = await mediansInTurns(bench.count(APPENDS, 5), {
    espalier: (n) => log.append([body(n)]),
    limit: (n) => database.query(insert, [body(n)]),
  });
  const { espalier, limit } = figures;
  return rowOf("one append, on disk when it answers", "ms", figures, [
    within("a bare INSERT", espalier, limit, 1.5),
  ]);
}

/** Time of a context, and bytes written by a turn, in a session with few entries and with a million. */
async function lengthRows({ bench, sessionTree, database, store }) {
  const sizes = bench.isSmoke ? [100, 300] : [10_000, 1_000_000];
  const contexts = [];
  const written = [];
  for (const size of sizes) {
    const ref = await longSession(database, store, size);
    contexts.push(
      await medianTime(bench.count(15, 1), async () => {
        const { context } = await sessionTree.SessionTree.open(await store.open({ file: ref }, "read"));
        if (context.messages.length === 0) throw new Error("There is nothing in the context.");
      }),
    );
    const session = await sessionTree.SessionTree.open(await store.open({ file: ref }, "write"));
    // After a checkpoint, PostgreSQL writes each page in full at its first change, whatever its content.
    await database.query({ text: "CHECKPOINT" });
    await turn(sessionTree, session);
    const before = await writtenBytes(database);
    for (let at = 0; at < TURNS; at++) await turn(sessionTree, session);
    written.push(((await writtenBytes(database)) - before) / TURNS);
  }
  const [few, many] = sizes.map((size) => size.toLocaleString("en"));
  const row = (work, unit, [ofFew, ofMany], promise, bound) =>
    rowOf(`${work} ${many} entries`, unit, ofMany, [atMost(promise, ratio(ofMany, ofFew), bound)], {
      facts: { [few]: ofFew },
    });
  return [
    row("context of a session with", "ms", contexts, `≤ 5 × of one with ${few}`, 5),
    row("bytes written by a turn behind", "bytes", written, `≤ 1.5 × of behind ${few}`, 1.5),
  ];
}

/** A prompt in, an answer out, in a growing conversation. Each turn starts from the database. */
async function turnRows({ bench, sessionTree, url, store }) {
  const lengths = bench.isSmoke ? [10] : LENGTHS;
  const curve = [];
  const { ref } = await store.create({ ...HEADER, id: "turns" });
  let count = 0;
  for (const length of lengths) {
    const log = await store.open({ file: ref }, "write");
    const session = await sessionTree.SessionTree.open(log);
    for (; count < length; count += 2) await turn(sessionTree, session);
    const ms = await medianTime(TURNS, async () => {
      const anew = await sessionTree.SessionTree.open(await store.open({ file: ref }, "write"));
      if (anew.context.messages.length < length) throw new Error("The context is not whole.");
      await turn(sessionTree, anew);
    });
    count += 2 * TURNS;
    curve.push({ x: length, espalier: ms });
  }
  const theirs = await bench.once("langgraph", "turns", {
    folder: bench.scratch(),
    lengths,
    ...TURN,
    saver: "postgres",
    address: url,
  });
  const joined = curve.map((point, at) => ({ ...point, "langgraph postgres": theirs?.curve[at]?.ms }));
  const { x: length, ...figures } = joined.at(-1);
  const goal = within("LangGraph's PostgreSQL saver", figures.espalier, figures["langgraph postgres"], 1);
  return [rowOf(`time of a turn behind ${length} messages`, "ms", figures, [goal], { curve: joined })];
}

async function turn({ message: kind }, session) {
  await session.append(kind.of({ message: TURN.message }));
  await session.append(kind.of({ message: TURN.answer }));
}

/** Inserts a chain of entries that ends with a compaction, by one statement in the database. */
async function longSession(database, store, size) {
  const log = await store.create({ ...HEADER, id: `long${size}` });
  const key = `bench/${log.ref}`;
  await database.transaction(async (connection) => {
    // Generated sessions do not need a check of each parent.
    await connection.query({ text: "SET LOCAL session_replication_role = replica" });
    await connection.query(
      {
        text: `INSERT INTO espalier.line (session, position, at, id, parent, type, moves, line)
          SELECT $1, made.n, (SELECT bytes FROM espalier.session WHERE key = $1) + made.before, made.id, made.parent, 'custom', true, made.line
          FROM (SELECT *, coalesce(sum(octet_length(line) + 1) OVER (ORDER BY n ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS before
            FROM (SELECT n, 'e' || n AS id, CASE WHEN n = 1 THEN NULL ELSE 'e' || n - 1 END AS parent,
              format('{"type":"custom","id":"e%s","parentId":%s,"timestamp":"2026-01-05T09:00:00.000Z","customType":"made","data":"%s"}',
                n, CASE WHEN n = 1 THEN 'null' ELSE '"e' || n - 1 || '"' END, repeat('word ', 20)) AS line
            FROM generate_series(1, $2::bigint) AS n) AS plain) AS made`,
      },
      [key, size],
    );
    await connection.query(
      {
        text: `UPDATE espalier.session SET lines = lines + $2, bytes = bytes + (SELECT sum(octet_length(line) + 1) FROM espalier.line
          WHERE session = $1 AND position > 0) WHERE key = $1`,
      },
      [key, size],
    );
  });
  await database.query({ text: "ANALYZE espalier.line" });
  const settings = { provider: "anthropic", modelId: "claude-sonnet-4", thinkingLevel: "off" };
  const compaction = madeLine("compaction", "k", `e${size}`, {
    summary: repeated("so far", 2_000),
    firstKeptEntryId: `e${size - 20}`,
    tokensBefore: 100_000,
    details: { settings },
  });
  const own = await store.open({ file: log.ref }, "write");
  await own.append([compaction, entryLine("after", "k", "x")]);
  return log.ref;
}

const entryLine = (id, parentId, data) => madeLine("custom", id, parentId, { customType: "made", data });

export const lines = [postgres];
