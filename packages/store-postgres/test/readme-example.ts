import { strict as assert } from "node:assert";
import { message, SessionTree } from "@espalier/session-tree";
import { migratePostgres, openPostgresStore } from "@espalier/store-postgres";
import { startPrivateServer } from "@espalier/store-postgres/testing";

// A temporary server for this example. Use the address of your own server instead.
const server = await startPrivateServer();
await migratePostgres(server.url); // once; or `espalier store migrate`

// A namespace for each tenant: no call reaches the sessions of another one.
const store = openPostgresStore(`${server.url}?namespace=garden`);
const timestamp = "2026-01-01T00:00:00.000Z";
const header = { type: "session", version: 3, id: "pear", timestamp, cwd: "/garden" } as const;
const session = await SessionTree.open(await store.create(header));
await session.append(message.of({ message: { role: "user", content: "What grows here?", timestamp: 1 } }));

// On another machine: only the end of the path is read for the context; load() reads the whole session.
const elsewhere = await SessionTree.open(await store.open("pear", "write"));
assert.equal(elsewhere.context.messages.length, 1);
assert.equal((await elsewhere.load()).length, 1);

// A lease marks a session as being written. Other machines get an error that names the process.
const lease = await store.lease("pear");
await assert.rejects(store.lease("pear"), /process \d+ on .* since/);
await lease.release();

await store.close();
await server.remove();
