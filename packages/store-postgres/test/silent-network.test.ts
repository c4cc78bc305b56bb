// A network that loses packets without a word: connections stay open, and nothing arrives on them any more.
import { connect, createServer, type Socket } from "node:net";
import { readPathWindow } from "@espalier/session-tree";
import { testHeader as header, testLine as line } from "@espalier/session-tree/testing";
import { migratePostgres, openPostgresStore, type PostgresStore } from "@espalier/store-postgres";
import { type PrivateServer, startPrivateServer } from "@espalier/store-postgres/testing";
import { Client } from "pg";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { hasServer } from "./some-database.ts";

/** A network between clients and a server. */
interface Network {
  /** Address of the server behind the network. */
  url: string;
  /** Loses all answers on the connections that are open now, and the end of these connections. */
  loseAnswers(): void;
  close(): Promise<void>;
}

async function startNetwork(server: PrivateServer): Promise<Network> {
  const { port: behind } = new URL(server.url);
  const open = new Map<Socket, Socket>();
  const silent = new Set<Socket>();
  const listener = createServer({ allowHalfOpen: true }, (client) => {
    const far = connect(Number(behind), "127.0.0.1");
    open.set(client, far);
    client.on("data", (data) => far.writable && far.write(data));
    far.on("data", (data) => silent.has(client) || client.write(data));
    client.on("error", () => far.destroy());
    far.on("error", () => undefined);
    client.on("close", () => {
      open.delete(client);
      far.destroy();
    });
    client.on("end", () => far.end());
    far.on("close", () => silent.has(client) || client.destroy());
  });
  await new Promise<void>((resolve) => listener.listen(0, "127.0.0.1", resolve));
  const { port } = listener.address() as { port: number };
  return {
    url: `postgres://espalier@127.0.0.1:${port}/postgres`,
    loseAnswers() {
      for (const client of open.keys()) silent.add(client);
    },
    async close() {
      for (const client of open.keys()) client.destroy();
      if (listener.listening) await new Promise((resolve) => listener.close(resolve));
    },
  };
}

describe.skipIf(!hasServer).concurrent("a network that loses packets", () => {
  let server: PrivateServer;
  const endings: (() => Promise<unknown>)[] = [];

  beforeAll(async () => {
    server = await startPrivateServer();
    await migratePostgres(server.url);
  });
  afterAll(async () => {
    await Promise.all(endings.map((end) => end()));
    await server.remove();
  });

  const near = (): PostgresStore => {
    const store = openPostgresStore(server.url);
    endings.push(() => store.close());
    return store;
  };

  /** A store behind a network. A statement without an answer fails after five seconds. */
  async function behindNetwork(reconnectMs = 2_000) {
    const network = await startNetwork(server);
    const store = openPostgresStore(network.url, { statementMs: 200, reconnectMs });
    endings.push(() => store.close().then(() => network.close()));
    return { store, network };
  }

  test("and the answer to a commit: the append is found again, and acknowledged once", async () => {
    const { store, network } = await behindNetwork();
    const log = await store.create(header("answer"));
    network.loseAnswers();
    await log.append([line("a")]);
    await log.append([line("b", "a")]);
    const view = await (await near().open("answer", "read")).load();
    expect(readPathWindow(view).entries.map(({ id }) => id)).toEqual(["a", "b"]);
  }, 60_000);

  test("for longer than appends are retried: the append says that its lines may be there, and finds them later", async () => {
    const { store, network } = await behindNetwork(0);
    const log = await store.create(header("unknown"));
    network.loseAnswers();
    await expect(log.append([line("a")])).rejects.toMatchObject({
      code: "write-failed",
      message: expect.stringMatching(/may have been written all the same; open the session again/),
    });
    await log.append([line("a")]);
    await network.close();
    await expect(log.append([line("b", "a")])).rejects.toMatchObject({
      code: "write-failed",
      message: expect.not.stringContaining("may have been written"),
    });
    const view = await (await near().open("unknown", "read")).load();
    expect(readPathWindow(view).entries.map(({ id }) => id)).toEqual(["a"]);
  }, 60_000);

  test("and the end of the connection of a lease: a living owner keeps it", async () => {
    const { store, network } = await behindNetwork();
    await store.create(header("lease"));
    const lease = await store.lease("lease");
    const database = new Client({ connectionString: server.url });
    await database.connect();
    endings.unshift(() => database.end());
    const backend = async () => {
      const { rows } = await database.query(
        "SELECT backend FROM espalier.lease WHERE session = 'default/lease'",
      );
      return rows[0].backend;
    };
    const first = await backend();
    network.loseAnswers();
    await database.query("SELECT pg_terminate_backend($1)", [first]);
    await expect.poll(backend, { timeout: 30_000, interval: 200 }).not.toBe(first);
    await expect(near().lease("lease")).rejects.toMatchObject({ code: "busy" });
    await lease.release();
    await (await near().lease("lease")).release();
  }, 60_000);

  test("is not waited for when a lease is released and when a follower ends", async () => {
    const { store, network } = await behindNetwork(0);
    const log = await store.create(header("release"));
    const lease = await store.lease("release");
    const lines = store.follow({ file: log.ref }, { from: 0, pollMs: 100 });
    await lines.next();
    network.loseAnswers();
    await Promise.all([
      expect(lease.release()).rejects.toMatchObject({ code: "unreachable" }),
      lines.return(undefined),
    ]);
  }, 60_000);
});
