// LangGraph's own suite for savers, all of it, over every store.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type PrivateServer, serverPrograms, startPrivateServer } from "@espalier/store-postgres/testing";
import { deltaChannelHistoryTests, specTest } from "@langchain/langgraph-checkpoint-validation";
import { fileStore, memoryStore, type SessionStore } from "espalier";
import { EspalierSaver } from "espalier/adapters/langgraph";
import { migratePostgres, openPostgresStore, type PostgresStore } from "espalier/postgres";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";

// The suite finds them where vitest puts them by its option `globals`.
Object.assign(globalThis, { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it });

const folder = mkdtempSync(join(tmpdir(), "espalier-langgraph-"));
afterAll(() => rmSync(folder, { recursive: true }));

function everyTest(checkpointerName: string, createStore: () => SessionStore) {
  const initializer = {
    checkpointerName,
    createCheckpointer: () => new EspalierSaver({ store: createStore() }),
    destroyCheckpointer: (saver: EspalierSaver) => saver.close(),
  };
  specTest(initializer);
  deltaChannelHistoryTests(initializer);
}

describe("memory", () => everyTest("memory", memoryStore));

describe("files", () => everyTest("files", () => fileStore({ home: mkdtempSync(join(folder, "home-")) })));

describe.skipIf(!serverPrograms())("PostgreSQL", () => {
  let server: PrivateServer;
  let number = 0;
  const stores: PostgresStore[] = [];
  beforeAll(async () => {
    server = await startPrivateServer();
    await migratePostgres(server.url);
  });
  afterAll(async () => {
    for (const store of stores) await store.close();
    await server.remove();
  });
  everyTest("PostgreSQL", () => {
    const store = openPostgresStore(`${server.url}?namespace=test-${number++}`);
    stores.push(store);
    return store;
  });
});
