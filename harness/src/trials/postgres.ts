import { setTimeout } from "node:timers/promises";
import { testHeader, testLine } from "@espalier/session-tree/testing";
import {
  migratePostgres,
  openPostgresStore,
  type PostgresStore,
  poolDatabase,
} from "@espalier/store-postgres";
import { type PrivateServer, serverPrograms, startPrivateServer } from "@espalier/store-postgres/testing";
import { Child, type Findings, type Harness, type HarnessOptions, SeededRandom, say } from "../harness.ts";

const WRITERS = 8;

/**
 * A database instead of a disk: its server crashes, its clients are killed between the commit and the answer, and many
 * write one session and many. Acknowledged entries are there once, and positions have no gaps.
 */
export const postgres: Harness = {
  async run(options, findings) {
    if (!serverPrograms()) {
      findings.skipped.push("There is no PostgreSQL server on this machine.");
      return;
    }
    const server = await startPrivateServer();
    try {
      await migratePostgres(server.url);
      const store = openPostgresStore(server.url, { reconnectMs: 60_000 });
      await crashes(server, store, options, findings);
      await manyWriters(server, store, options, findings);
      await store.close();
    } finally {
      await server.remove();
    }
  },

  /** `<address> <session> <name> <from> <count>`: appends a chain of entries `<name>-<n>`, and says each number. */
  async child([address, ref, name, from, count]) {
    const store = openPostgresStore(address!, { reconnectMs: 60_000 });
    const log = await store.open({ file: ref! }, "write");
    say("ready");
    for (let n = Number(from); n < Number(count); n += 1) {
      const parentId = n === 0 ? null : `${name}-${n - 1}`;
      await log.append([testLine(`${name}-${n}`, parentId, "x".repeat(200 + ((n * 7919) % 2_000)))]);
      say(n);
    }
    await store.close();
  },
};

/** Two processes on one session; by turns the server crashes and a process is killed, and is begun again. */
async function crashes(
  server: PrivateServer,
  store: PostgresStore,
  options: HarnessOptions,
  findings: Findings,
): Promise<void> {
  const { seed, isShort, count } = options;
  const { ref } = await store.create(testHeader("crashes"));
  const random = new SeededRandom(seed);
  const total = count ?? (isShort ? 4 : 100);
  const acked = { a: -1, b: -1 };
  const start = (name: "a" | "b") =>
    new Child(options, ["postgres", server.url, ref, name, acked[name] + 1, 1_000_000]);
  const running = { a: start("a"), b: start("b") };
  const end = async (name: "a" | "b") => {
    await running[name].kill();
    const last = running[name].lines.at(-1);
    if (last !== undefined && last !== "ready") acked[name] = Math.max(acked[name], Number(last));
  };
  for (let round = 0; round < total; round += 1) {
    // Both have something to lose by now.
    await Promise.all([running.a.line(3), running.b.line(3)]);
    await setTimeout(random.next() * 150);
    if (round % 2 === 0) {
      await server.crash();
      await server.start();
      findings.count("crashes of the server");
    } else {
      const name = random.next() < 0.5 ? "a" : "b";
      await end(name);
      running[name] = start(name);
      findings.count("killed clients");
    }
  }
  for (const name of ["a", "b"] as const) {
    await end(name);
    findings.count("acknowledged", acked[name] + 1);
  }
  const ids = await idsOf(store, ref);
  for (const name of ["a", "b"] as const) {
    const own = ids.filter((id) => id.startsWith(`${name}-`));
    const wanted = Array.from({ length: own.length }, (_, n) => `${name}-${n}`);
    const lost = acked[name] + 1 - own.length;
    findings.expect(lost <= 0, `${lost} acknowledged entries of ${name} are lost.`);
    const isInOrder = JSON.stringify(own) === JSON.stringify(wanted);
    findings.expect(isInOrder, `Entries of ${name} are there twice, left out, or in another order.`);
  }
  await expectNoGap(server, ref, findings);
}

/** Eight processes, on one session and on eight. */
async function manyWriters(
  server: PrivateServer,
  store: PostgresStore,
  options: HarnessOptions,
  findings: Findings,
): Promise<void> {
  const each = options.isShort ? 20 : 2_000;
  for (const isShared of [true, false]) {
    const refs: string[] = [];
    for (let writer = 0; writer < (isShared ? 1 : WRITERS); writer += 1)
      refs.push((await store.create(testHeader(`${isShared ? "shared" : "own"}-${writer}`))).ref);
    const began = performance.now();
    const children = Array.from({ length: WRITERS }, (_, writer) => {
      const ref = refs[isShared ? 0 : writer]!;
      return new Child(options, ["postgres", server.url, ref, `w${writer}`, 0, each]);
    });
    for (const child of children) {
      await child.over;
      findings.expect(child.lines.length === each + 1, "A writer did not finish.");
    }
    const what = isShared ? "on one session" : "on eight sessions";
    findings.count(
      `appends a second, ${what}`,
      Math.round((WRITERS * each * 1_000) / (performance.now() - began)),
    );
    let found = 0;
    for (const ref of refs) {
      const ids = await idsOf(store, ref);
      found += new Set(ids).size;
      findings.expect(new Set(ids).size === ids.length, `An entry is there twice, ${what}.`);
      await expectNoGap(server, ref, findings);
    }
    findings.expect(found === WRITERS * each, `${WRITERS * each - found} entries are lost, ${what}.`);
    findings.count("entries of many writers", found);
  }
}

async function idsOf(store: PostgresStore, ref: string): Promise<string[]> {
  const view = await (await store.open({ file: ref }, "read")).load();
  const lines = new TextDecoder().decode(view.read(0, view.size)).trimEnd().split("\n").slice(1);
  return lines.map((line) => JSON.parse(line).id as string);
}

/** Positions are 0, 1, 2, …, each line begins where the one before it ends, and the session's counters say the same. */
async function expectNoGap(server: PrivateServer, ref: string, findings: Findings): Promise<void> {
  const database = poolDatabase(server.url, "the trial's server");
  const [row] = await database.query<Record<string, string | boolean>>(
    {
      text: `SELECT s.lines, s.bytes, count(*) AS counted, min(l.position) AS first, max(l.position) AS last,
          bool_and(l.starts_there) AS joined, sum(l.length) AS length,
          s.lines = count(*) AND s.bytes = sum(l.length) AND min(l.position) = 0
            AND max(l.position) = s.lines - 1 AND bool_and(l.starts_there) AS holds
        FROM espalier.session s JOIN (
          SELECT session, position, octet_length(line) + 1 AS length,
            at = coalesce(sum(octet_length(line) + 1) OVER (ORDER BY position ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0)
              AS starts_there
          FROM espalier.line WHERE session = $1
        ) AS l ON l.session = s.key GROUP BY s.lines, s.bytes`,
    },
    [`default/${ref}`],
  );
  await database.close();
  const holds = row?.["holds"] === true;
  findings.expect(holds, `Positions of ${ref} have a gap: ${JSON.stringify(row)}.`);
  findings.count("sessions without a gap", holds ? 1 : 0);
}
