import { strict as assert } from "node:assert";
import { message, SessionTree } from "@espalier/session-tree";
import { migratePostgres, openPostgresStore } from "@espalier/store-postgres";
import { startPrivateServer } from "@espalier/store-postgres/testing";

// A server for this example, on loopback, gone at its end. Yours has an address too.
const server = await startPrivateServer();
await migratePostgres(server.url); // once; or `espalier store migrate`

// A namespace for each tenant: no call reaches the sessions of another one.
const store = openPostgresStore(`${server.url}?namespace=garden`);
const timestamp = "2026-01-01T00:00:00.000Z";
const header = { type: "session", version: 3, id: "pear", timestamp, cwd: "/garden" } as const;
const session = await SessionTree.open(await store.create(header));
await session.append(message.of({ message: { role: "user", content: "What grows here?", timestamp: 1 } }));

// Elsewhere: the context is read without the rest of the session; the whole comes when it is asked for.
const elsewhere = await SessionTree.open(await store.open("pear", "write"));
assert.equal(elsewhere.context.messages.length, 1);
assert.equal((await elsewhere.load()).length, 1);

// Who writes for a while says so; another machine is told which process that is.
const lease = await store.lease("pear");
await assert.rejects(store.lease("pear"), /process \d+ on .* since/);
await lease.release();

await store.close();
await server.remove();
