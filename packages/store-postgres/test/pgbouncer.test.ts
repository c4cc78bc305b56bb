// Sessions through a pooler: a real PgBouncer before a real server.
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { chownSync, existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { connect, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { SessionTree } from "@espalier/session-tree";
import { testHeader as header, testLine as line, storeConformance } from "@espalier/session-tree/testing";
import { migratePostgres, openPostgresStore } from "@espalier/store-postgres";
import { type PrivateServer, startPrivateServer } from "@espalier/store-postgres/testing";
import { Client } from "pg";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { freshNamespace, hasServer } from "./some-database.ts";

const program = ["/usr/sbin", "/usr/bin", "/usr/local/bin", ...(process.env["PATH"] ?? "").split(":")]
  .map((folder) => join(folder, "pgbouncer"))
  .find((path) => existsSync(path));
if (hasServer && !program)
  console.warn("There is no PgBouncer here (Debian's `pgbouncer`): sessions through it are not tried.");

function freePort(): Promise<number> {
  return new Promise((resolve) => {
    const server = createServer().listen(0, "127.0.0.1", () => {
      const { port } = server.address() as { port: number };
      server.close(() => resolve(port));
    });
  });
}

/** Starts a pooler before a server; returns its address, and the function that ends it. */
async function startPooler(server: PrivateServer, mode: string, settings = "") {
  const folder = mkdtempSync(join(tmpdir(), "espalier-pgbouncer-"));
  const port = await freePort();
  const { port: behind } = new URL(server.url);
  writeFileSync(join(folder, "users"), '"espalier" ""\n');
  writeFileSync(
    join(folder, "pgbouncer.ini"),
    `[databases]\npostgres = host=127.0.0.1 port=${behind} dbname=postgres
[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = ${port}\nauth_type = trust\nauth_file = ${folder}/users
pool_mode = ${mode}\nunix_socket_dir =\ndefault_pool_size = 60\n${settings}\n`,
  );
  // It refuses to run as root.
  const number = (flag: string) => Number(execFileSync("id", [flag, "postgres"], { encoding: "utf8" }));
  const identity = process.getuid?.() === 0 ? { uid: number("-u"), gid: number("-g") } : {};
  if (identity.uid !== undefined)
    for (const path of [folder, join(folder, "users"), join(folder, "pgbouncer.ini")])
      chownSync(path, identity.uid, identity.gid);
  const child: ChildProcess = spawn(program!, [join(folder, "pgbouncer.ini")], {
    stdio: "ignore",
    ...identity,
  });
  const url = `postgres://espalier@127.0.0.1:${port}/postgres`;
  for (let attempt = 0; ; attempt++) {
    const client = new Client({ connectionString: url });
    try {
      await client.connect();
      await client.end();
      break;
    } catch (error) {
      if (attempt > 200) throw error;
      await setTimeout(50);
    }
  }
  const end = async () => {
    const over = new Promise((resolve) => child.once("exit", resolve));
    child.kill("SIGKILL");
    await over;
    rmSync(folder, { recursive: true, force: true });
  };
  return { url, end };
}

describe.skipIf(!hasServer || !program)("through PgBouncer", () => {
  let server: PrivateServer;
  let pooler: Awaited<ReturnType<typeof startPooler>>;
  beforeAll(async () => {
    server = await startPrivateServer();
    pooler = await startPooler(server, "session");
  });
  afterAll(async () => {
    await pooler.end();
    await server.remove();
  });

  test("tables are created, and limits in the address apply", async () => {
    await migratePostgres(pooler.url);
    const store = openPostgresStore(
      `${pooler.url}?statement_timeout=5000&lock_timeout=1000&namespace=limits`,
    );
    const session = await SessionTree.open(await store.create(header("s1"), [line("a")]));
    expect(session.leafId).toBe("a");
    await store.close();
  });

  test("transaction mode is refused in a sentence that names the cure", async () => {
    const shared = await startPooler(server, "transaction");
    try {
      for (const act of [
        () => migratePostgres(shared.url),
        async () => {
          const store = openPostgresStore(shared.url);
          await store.create(header("s1")).finally(() => store.close());
        },
      ])
        await expect(act()).rejects.toMatchObject({
          code: "unsuitable",
          message: expect.stringContaining("pool_mode = session"),
        });
    } finally {
      await shared.end();
    }
  });

  test("a network that loses the end of the connection which checks the pooler is not waited for", async () => {
    const { port: behind } = new URL(pooler.url);
    const listener = createServer({ allowHalfOpen: true }, (client) => {
      const far = connect(Number(behind), "127.0.0.1");
      // An X is the message by which a client ends its connection.
      client.on("data", (data) => data[0] === 0x58 || far.write(data));
      far.on("data", (data) => client.write(data));
      for (const socket of [client, far]) socket.on("error", () => undefined);
      client.on("close", () => far.destroy());
    });
    await new Promise<void>((resolve) => listener.listen(0, "127.0.0.1", resolve));
    const { port } = listener.address() as { port: number };
    const store = openPostgresStore(`postgres://espalier@127.0.0.1:${port}/postgres?namespace=unended`);
    await store.create(header("s1"), [line("a")]);
    await store.close();
    listener.close();
  }, 60_000);

  test("a setting that it does not pass on is named, and not reported as an unreachable server", async () => {
    const odd = `${pooler.url}?options=-c%20geqo%3Doff`;
    const told = await migratePostgres(odd, { reconnectMs: 0 }).catch((error: Error) => error);
    // Newer ones pass it on.
    if (told instanceof Error)
      expect(told).toMatchObject({ code: "refused", message: expect.stringContaining("startup parameter") });
  });

  storeConformance(
    {
      name: "postgresStore behind PgBouncer in session mode",
      open: async () => {
        await migratePostgres(pooler.url);
        const store = openPostgresStore(`${pooler.url}?namespace=${freshNamespace()}`, { connections: 4 });
        return { store, close: () => store.close() };
      },
    },
    { describe, test, expect },
  );
});
