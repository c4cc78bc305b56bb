import { inspect } from "node:util";
import {
  migrate,
  migratePostgres,
  openPostgresStore,
  PostgresStoreError,
  poolDatabase,
} from "@espalier/store-postgres";
import { type PrivateServer, startPrivateServer } from "@espalier/store-postgres/testing";
import { Client } from "pg";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { header } from "./lines.ts";
import { hasServer } from "./some-database.ts";

const PASSWORD = "sesame-0pen";

let server: PrivateServer;
async function asOperator(...statements: string[]) {
  const client = new Client({ connectionString: server.url });
  await client.connect();
  const results = [];
  for (const statement of statements) results.push((await client.query(statement)).rows);
  await client.end();
  return results;
}
const databaseNamed = (name: string) => server.url.replace(/postgres$/, name);

describe.skipIf(!hasServer)("setting up", () => {
  beforeAll(async () => {
    server = await startPrivateServer({ settings: { synchronous_commit: "off" } });
  });
  afterAll(() => server.remove());

  test("is done once, however many begin at once, and changes nothing after", async () => {
    await asOperator("CREATE DATABASE many");
    const reports = await Promise.all([1, 2, 3, 4].map(() => migratePostgres(databaseNamed("many"))));
    expect(reports.filter(({ applied }) => applied.length > 0).length).toBe(1);
    expect((await migratePostgres(databaseNamed("many"))).applied).toEqual([]);
    const store = openPostgresStore(databaseNamed("many"));
    await store.create(header("s1"));
    await migratePostgres(databaseNamed("many"));
    expect((await store.open("s1", "read")).header?.id).toBe("s1");
    await store.close();
  });

  test("tables of a newer program are left alone, and missing ones are told with the cure", async () => {
    await asOperator("CREATE DATABASE newer", "CREATE DATABASE empty");
    await migratePostgres(databaseNamed("newer"));
    const client = new Client({ connectionString: databaseNamed("newer") });
    await client.connect();
    await client.query("INSERT INTO espalier.migration (number, name) VALUES (999, 'from the future')");
    await client.end();
    await expect(migratePostgres(databaseNamed("newer"))).rejects.toMatchObject({ code: "newer" });
    const store = openPostgresStore(databaseNamed("newer"));
    await expect(store.open("s1", "read")).rejects.toMatchObject({ code: "newer" });
    await store.close();
    const bare = openPostgresStore(databaseNamed("empty"));
    await expect(bare.create(header("s1"))).rejects.toMatchObject({
      code: "not-migrated",
      message: expect.stringContaining("espalier store migrate"),
    });
    await bare.close();
  });

  test("a database that does not keep text as UTF-8 is refused", async () => {
    await asOperator("CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0");
    await expect(migratePostgres(databaseNamed("latin"))).rejects.toMatchObject({ code: "unsuitable" });
  });

  test("a commit is acknowledged when it is on disk, whatever the server is set to", async () => {
    const database = poolDatabase(server.url, "here");
    await migrate(database);
    const rows = await database.query<{ commit: string; encoding: string }>({
      text: "SELECT current_setting('synchronous_commit') AS commit, current_setting('client_encoding') AS encoding",
    });
    expect(rows).toEqual([{ commit: "on", encoding: "UTF8" }]);
    await database.close();
  });

  test("a statement that takes too long is taken back and told", async () => {
    const database = poolDatabase(server.url, "here", { statementMs: 100 });
    await expect(database.query({ text: "SELECT pg_sleep(30)" })).rejects.toMatchObject({ code: "timeout" });
    await database.close();
  });

  test("TLS is as the address says: a server without it is refused where it is demanded", async () => {
    const store = openPostgresStore(`${server.url}?sslmode=verify-full`, { reconnectMs: 0 });
    await expect(store.open("s1", "read")).rejects.toMatchObject({
      code: "unreadable",
      message: expect.stringContaining("SSL"),
    });
    await store.close();
  });

  test("no error holds the password, in whatever way it is looked at", async () => {
    await asOperator(`CREATE ROLE guest LOGIN PASSWORD '${PASSWORD}'`);
    const host = new URL(server.url).host;
    const addresses = [
      `postgres://guest:${PASSWORD}@127.0.0.1:1/postgres`,
      `postgres://guest:${PASSWORD}@${host}/nowhere`,
      `postgres://guest:${PASSWORD}@${host}/postgres`,
      `postgres://guest:${PASSWORD}@${host}/postgres?sslmode=require`,
      `postgres://guest:${PASSWORD}@${host}/postgres?sslrootcert=/no/such/file`,
      `postgres://guest:${PASSWORD}@no-such-host.invalid/postgres`,
      `postgres://guest:${PASSWORD}@[broken/postgres`,
      `postgres://guest:${PASSWORD}@${host}/postgres?namespace=`,
      `mysql://guest:${PASSWORD}@${host}/postgres`,
    ];
    for (const address of addresses) {
      const error = await (async () => {
        const store = openPostgresStore(address, { reconnectMs: 0 });
        try {
          await store.create(header("s1"));
        } finally {
          await store.close();
        }
      })().catch((cause: unknown) => cause);
      expect(error).toBeInstanceOf(Error);
      const seen = `${inspect(error, { depth: 20, showHidden: true })} ${JSON.stringify(error)} ${(error as Error).stack}`;
      expect(seen).not.toContain(PASSWORD);
      const migration = await migratePostgres(address, { reconnectMs: 0 }).catch((cause: unknown) => cause);
      expect(inspect(migration, { depth: 20, showHidden: true })).not.toContain(PASSWORD);
    }
  });

  test("an address that cannot be read is refused before anything is sent", () => {
    for (const address of ["", "postgres", "http://localhost/x", "postgres://[x"])
      expect(() => openPostgresStore(address)).toThrow(PostgresStoreError);
  });
});
