import { execFileSync, spawnSync } from "node:child_process";
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { inspect } from "node:util";
import { EspalierError } from "@espalier/jsonl-stream";
import { testHeader as header, testLine as line } from "@espalier/session-tree/testing";
import { migrate, migratePostgres, openPostgresStore, poolDatabase } from "@espalier/store-postgres";
import { type PrivateServer, startPrivateServer } from "@espalier/store-postgres/testing";
import { Client } from "pg";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
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

const hasOpenssl = spawnSync("openssl", ["version"]).status === 0;
if (!hasOpenssl) console.warn("There is no openssl here: a server with TLS is not tried.");

/** A certificate for 127.0.0.1, and the authority that vouches for it. */
function certificates(folder: string) {
  const at = (name: string) => join(folder, name);
  const openssl = (...parameters: string[]) =>
    execFileSync("openssl", parameters, { cwd: folder, stdio: "pipe" });
  const fresh = ["req", "-newkey", "rsa:2048", "-nodes"];
  openssl(
    ...fresh,
    "-x509",
    "-days",
    "2",
    "-keyout",
    "authority.key",
    "-out",
    "authority.crt",
    "-subj",
    "/CN=us",
  );
  openssl(...fresh, "-keyout", "server.key", "-out", "server.csr", "-subj", "/CN=server");
  writeFileSync(at("names"), "subjectAltName=IP:127.0.0.1");
  const signed = ["-CA", "authority.crt", "-CAkey", "authority.key", "-CAcreateserial", "-extfile", "names"];
  openssl("x509", "-req", "-in", "server.csr", ...signed, "-days", "2", "-out", "server.crt");
  chmodSync(folder, 0o755);
  chmodSync(at("server.key"), 0o600);
  // The server runs as its own user where we are root, and takes its key only from itself.
  if (process.getuid?.() === 0) execFileSync("chown", ["postgres", at("server.key")]);
  const settings = { ssl: "on", ssl_cert_file: at("server.crt"), ssl_key_file: at("server.key") };
  return { authority: at("authority.crt"), settings };
}

describe.skipIf(!hasServer)("setting up the tables", () => {
  beforeAll(async () => {
    server = await startPrivateServer({ settings: { synchronous_commit: "off" } });
  });
  afterAll(() => server.remove());

  test("happens once for any number of simultaneous callers, and changes nothing later", async () => {
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

  test("does not change tables of a newer program; missing tables are reported with the cure", async () => {
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

  test("a database that does not store text as UTF-8 is refused", async () => {
    await asOperator("CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0");
    await expect(migratePostgres(databaseNamed("latin"))).rejects.toMatchObject({ code: "unsuitable" });
  });

  test("a commit is acknowledged when it is on disk, with any setting of the server", async () => {
    const database = poolDatabase(server.url, "here");
    await migrate(database);
    const rows = await database.query<{ commit: string; encoding: string }>({
      text: "SELECT current_setting('synchronous_commit') AS commit, current_setting('client_encoding') AS encoding",
    });
    expect(rows).toEqual([{ commit: "on", encoding: "UTF8" }]);
    await database.close();
  });

  test("a statement that takes too long is cancelled and reported", async () => {
    const database = poolDatabase(server.url, "here", { statementMs: 100 });
    await expect(database.query({ text: "SELECT pg_sleep(30)" })).rejects.toMatchObject({ code: "timeout" });
    await database.close();
  });

  test("an address can allow a statement more time than the default, or unlimited time", async () => {
    await Promise.all(
      ["60000", "0"].map(async (limit) => {
        const address = `${server.url}?statement_timeout=${limit}`;
        // A connection that says nothing is given up 5 seconds after the usual limit.
        const database = poolDatabase(address, "here", { statementMs: 50 });
        await database.query({ text: "SELECT pg_sleep(5.5)" });
        await database.close();
      }),
    );
    const brief = poolDatabase(`${server.url}?statement_timeout=50`, "here");
    await expect(brief.query({ text: "SELECT pg_sleep(30)" })).rejects.toMatchObject({ code: "timeout" });
    await brief.close();
  });

  test("a missing password is reported", async () => {
    const asking = await startPrivateServer();
    const client = new Client({ connectionString: asking.url });
    await client.connect();
    await client.query("CREATE ROLE guest LOGIN PASSWORD 'x'");
    const { hba } = (await client.query("SELECT current_setting('hba_file') AS hba")).rows[0];
    await client.end();
    try {
      writeFileSync(hba, "host all guest 127.0.0.1/32 scram-sha-256\nhost all all 127.0.0.1/32 trust\n");
      await asking.crash();
      await asking.start();
      const guest = asking.url.replace("espalier@", "guest@");
      await expect(migratePostgres(guest)).rejects.toMatchObject({
        code: "refused",
        message: expect.stringContaining("PGPASSWORD"),
      });
      await expect(migratePostgres(guest.replace("@", ":y@"))).rejects.toMatchObject({ sqlState: "28P01" });
    } finally {
      await asking.remove();
    }
  });

  test("TLS follows the address: a server without it is refused if it is required", async () => {
    const store = openPostgresStore(`${server.url}?sslmode=verify-full`, { reconnectMs: 0 });
    await expect(store.open("s1", "read")).rejects.toMatchObject({
      code: "unreadable",
      message: expect.stringContaining("SSL"),
    });
    await store.close();
  });

  test.skipIf(!hasOpenssl)(
    "TLS follows the address: only a server with a valid certificate is used",
    async () => {
      const folder = mkdtempSync(join(tmpdir(), "espalier-tls-"));
      const { authority, settings } = certificates(folder);
      const secured = await startPrivateServer({ settings });
      try {
        const reach = async (query: string) => {
          await migratePostgres(`${secured.url}?${query}`);
          const client = new Client({ connectionString: secured.url });
          await client.connect();
          await client.end();
        };
        for (const mode of ["verify-full", "require", "no-verify", "verify-ca"])
          await reach(`sslmode=${mode}&sslrootcert=${authority}`);
        await reach("sslmode=no-verify");
        for (const mode of ["verify-full", "require", "prefer"])
          await expect(reach(`sslmode=${mode}`)).rejects.toMatchObject({
            code: "unreachable",
            message: expect.stringContaining("sslrootcert"),
          });
        const elsewhere = secured.url.replace("127.0.0.1", "localhost");
        await expect(
          migratePostgres(`${elsewhere}?sslmode=verify-full&sslrootcert=${authority}`),
        ).rejects.toMatchObject({ code: "unreachable", message: expect.stringContaining("ALTNAME") });
        const encrypted = poolDatabase(`${secured.url}?sslmode=verify-full&sslrootcert=${authority}`, "here");
        const connections = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()";
        expect(await encrypted.query({ text: connections })).toEqual([{ ssl: true }]);
        const lease = await encrypted.reserve();
        expect(await lease.query({ text: connections })).toEqual([{ ssl: true }]);
        await lease.release();
        await encrypted.close();
      } finally {
        await secured.remove();
        rmSync(folder, { recursive: true });
      }
    },
  );

  test("no error contains the password, in any form", async () => {
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

  test("an invalid address is refused before anything is sent", () => {
    for (const address of ["", "postgres", "http://localhost/x", "postgres://[x", "postgres://localhost/%zz"])
      expect(() => openPostgresStore(address)).toThrow(EspalierError);
  });

  test("a parameter that an address cannot have is refused by its name, before anything is sent", () => {
    for (const [query, told] of [
      ["sslmod=verify-full", /sslmod .*known parameters are .*sslmode/],
      ["namespace=a&timeout=5", /timeout/],
      ["namespace=a&namespace=b", /namespace .*twice/],
      ["pgbouncer=true", /pgbouncer/],
      ["statement_timeout=30s", /statement_timeout .*milliseconds/],
      ["lock_timeout=-1", /lock_timeout/],
    ] as const)
      expect(() => openPostgresStore(`postgres://localhost/x?${query}`), query).toThrow(
        expect.objectContaining({ code: "address", message: expect.stringMatching(told) }),
      );
    // The rest of a password whose ? was not escaped is no name to be told.
    const address = `postgres://guest:1?${PASSWORD.replace("-", "")}=b@localhost/x`;
    const told = (() => {
      try {
        return openPostgresStore(address);
      } catch (error) {
        return inspect(error, { depth: 9 });
      }
    })();
    expect(told).toContain("%3F");
    expect(told).not.toContain("sesame");
  });

  test("a table that another client has locked is reported, and not waited for", async () => {
    const address = databaseNamed("locked");
    await asOperator("CREATE DATABASE locked");
    await migratePostgres(address);
    const store = openPostgresStore(address);
    const log = await store.create(header("s1"));
    const operator = new Client({ connectionString: address });
    await operator.connect();
    await operator.query("BEGIN; LOCK TABLE espalier.session, espalier.line IN ACCESS EXCLUSIVE MODE");
    try {
      const told = await Promise.all(
        [() => store.open("s1", "read"), () => log.append([line("a")])].map((act) =>
          act().catch((error: unknown) => error),
        ),
      );
      const why = { message: expect.stringContaining("a lock that another program holds") };
      expect(told).toMatchObject([
        { code: "unreadable", ...why },
        { code: "write-failed", ...why },
      ]);
      const brief = openPostgresStore(`${address}?lock_timeout=50`);
      await expect(brief.open("s1", "read")).rejects.toMatchObject({ code: "unreadable", ...why });
      await brief.close();
    } finally {
      await operator.end();
    }
    await log.append([line("a")]);
    await store.close();
  }, 60_000);

  test("closing a store waits for calls that wait for a connection", async () => {
    const address = databaseNamed("waiting");
    await asOperator("CREATE DATABASE waiting");
    await migratePostgres(address);
    const store = openPostgresStore(address, { connections: 1 });
    const logs = await Promise.all(["a", "b", "c"].map((id) => store.create(header(id))));
    const appended = logs.map((log) => log.append([line("e")]));
    await new Promise(setImmediate);
    await store.close();
    expect((await Promise.all(appended)).map(({ length }) => length > 0)).toEqual([true, true, true]);
  });

  test("a closed store reports it at once", async () => {
    const address = databaseNamed("closing");
    await asOperator("CREATE DATABASE closing");
    await migratePostgres(address);
    const store = openPostgresStore(address, { reconnectMs: 3_600_000 });
    const log = await store.create(header("s1"));
    await store.close();
    for (const call of [
      () => store.open("s1", "read"),
      () => store.lease("s1"),
      () => log.append(["{}"]),
      () => log.takeIn(),
    ])
      await expect(call()).rejects.toMatchObject({ name: "EspalierError", code: "closed" });
  });
});
