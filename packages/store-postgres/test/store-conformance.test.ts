import { storeConformance } from "@espalier/session-tree/testing";
import { postgresStore } from "@espalier/store-postgres";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { freshNamespace, hasServer, type SomeDatabase, someDatabase } from "./some-database.ts";

let shared: SomeDatabase;
beforeAll(async () => {
  shared = await someDatabase();
});
afterAll(() => shared.remove());

const open = async () => {
  const store = postgresStore(shared.open(), freshNamespace());
  return { store, close: () => store.close() };
};

storeConformance(
  { name: hasServer ? "postgresStore" : "postgresStore on PGlite", open },
  { describe, test, expect },
);
