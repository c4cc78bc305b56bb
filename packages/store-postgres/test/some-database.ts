// A database to test on: a real server where there is one, else PostgreSQL in WebAssembly, which says so.
import { PGlite } from "@electric-sql/pglite";
import {
  asStoreError,
  type Connection,
  type Database,
  migrate,
  poolDatabase,
} from "@espalier/store-postgres";
import { type PrivateServer, serverPrograms, startPrivateServer } from "@espalier/store-postgres/testing";

export const hasServer = serverPrograms() !== undefined;
if (!hasServer)
  console.warn(
    "There is no PostgreSQL server here: tests run on PGlite, and those that need one are skipped.",
  );

/** A migrated database that tests share, each in a namespace of its own. */
export interface SomeDatabase {
  open(): Database;
  server: PrivateServer | undefined;
  remove(): Promise<void>;
}

export async function someDatabase(): Promise<SomeDatabase> {
  if (hasServer) {
    const server = await startPrivateServer();
    const open = () => poolDatabase(server.url, "the test server");
    const first = open();
    await migrate(first);
    await first.close();
    return { open, server, remove: () => server.remove() };
  }
  const lite = await PGlite.create();
  const open = () => liteDatabase(lite);
  await migrate(open());
  return { open, server: undefined, remove: () => lite.close() };
}

let number = 0;
export const freshNamespace = (): string => `test-${process.pid}-${number++}`;

/** All connections are one here: what belongs to a connection of its own (locks, hints) is not on trial. */
function liteDatabase(lite: PGlite): Database {
  const through = (run: Pick<PGlite, "query" | "exec">): Connection => ({
    async query<Row extends object>({ text }: { text: string }, values: readonly unknown[] = []) {
      try {
        if (values.length === 0) return ((await run.exec(text)).at(-1)?.rows ?? []) as Row[];
        return (await run.query<Row>(text, [...values])).rows;
      } catch (error) {
        throw asStoreError(error, "PGlite");
      }
    },
  });
  const connection = through(lite);
  return {
    place: "PGlite",
    reconnectMs: 0,
    query: connection.query,
    transaction: (act) =>
      lite.transaction((transaction) => act(through(transaction as unknown as PGlite))) as never,
    reserve: async () => ({
      query: connection.query,
      onNotification: () => undefined,
      over: new Promise(() => undefined),
      release: async () => undefined,
    }),
    close: async () => undefined,
  };
}
