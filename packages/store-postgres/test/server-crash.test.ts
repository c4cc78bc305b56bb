import { readPathWindow, SessionTree } from "@espalier/session-tree";
import { testHeader as header, testLine as line } from "@espalier/session-tree/testing";
import { migratePostgres, openPostgresStore } from "@espalier/store-postgres";
import { type PrivateServer, startPrivateServer } from "@espalier/store-postgres/testing";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { hasServer } from "./some-database.ts";

/** Crashes here; fifty and more are `npm run harness -- postgres`. */
const CRASHES = 3;

let server: PrivateServer;

describe.skipIf(!hasServer)("a server that crashes", () => {
  beforeAll(async () => {
    server = await startPrivateServer();
    await migratePostgres(server.url);
  });
  afterAll(() => server.remove());

  test("loses no acknowledged entry, and a retried append is written once", async () => {
    const store = openPostgresStore(server.url);
    const log = await store.create(header("s1"));
    const acknowledged: string[] = [];
    let isOver = false;
    let count = 0;
    const appending = (async () => {
      for (; !isOver; count++) {
        await log.append([line(`e${count}`, count === 0 ? null : `e${count - 1}`)]);
        acknowledged.push(`e${count}`);
      }
    })();
    for (let crash = 0; crash < CRASHES; crash++) {
      const before = acknowledged.length;
      while (acknowledged.length < before + 20) await new Promise((resolve) => setTimeout(resolve, 10));
      await server.crash();
      await server.start();
    }
    isOver = true;
    await appending;
    const view = await (await store.open("s1", "read")).load();
    const ids = readPathWindow(view).entries.map(({ id }) => id);
    expect(ids).toEqual(acknowledged);
    await store.close();
  });

  test("is reported as trouble of the session while it is down, and queued entries are written when it is up", async () => {
    const store = openPostgresStore(server.url, { reconnectMs: 500 });
    const session = await SessionTree.open(await store.create(header("s2")));
    await session.append({ type: "custom", customType: "test", data: 0 } as never);
    await server.crash();
    const kept = session.append({ type: "custom", customType: "test", data: 1 } as never, {
      onFailure: "queue",
    });
    const told = new Promise((resolve) =>
      session.subscribe(({ type }) => type === "persist_failed" && resolve(type)),
    );
    expect(await told).toBe("persist_failed");
    await server.start();
    await kept;
    expect(session.window.entries.length).toBe(2);
    await session.close();
    await store.close();
  });

  test("leaves leases of lost connections free for others", async () => {
    const one = openPostgresStore(server.url);
    const two = openPostgresStore(server.url);
    const { ref } = await one.create(header("s3"));
    const lease = await one.lease(ref);
    await expect(two.lease(ref)).rejects.toMatchObject({
      code: "busy",
      holder: { pid: process.pid },
      message: expect.stringMatching(/process \d+ on \S+ since/),
    });
    // All connections of the first one end, as when its process or its machine does; its row stays.
    await one.close();
    const taken = await two.lease(ref);
    await lease.release();
    await expect(openPostgresStore(server.url).lease(ref)).rejects.toMatchObject({ code: "busy" });
    await taken.release();
    await two.close();
  });
});
