import {
  ForkLines,
  parsedHeader,
  type SessionHeader,
  type SessionRef,
  type SessionStore,
} from "@espalier/session-tree";
import { createSession } from "./create-session.ts";
import type { Database } from "./database.ts";
import { findSession, sessionNamed } from "./find-session.ts";
import { type FollowedLine, type FollowOptions, followSession } from "./follow-session.ts";
import { forkInside } from "./fork-inside.ts";
import type { FoundSession } from "./found-session.ts";
import { channelOf, Hints } from "./hints.ts";
import { gone } from "./insert-lines.ts";
import { listSessions } from "./list-sessions.ts";
import { asTroubleOfSession } from "./log-errors.ts";
import { checkVersion } from "./migrate.ts";
import { namesNoSession, PostgresLeases } from "./postgres-leases.ts";
import { PostgresLog } from "./postgres-log.ts";
import type { SessionPlace } from "./session-place.ts";
import { checkNamespace } from "./store-address.ts";

/** Sessions in a database: what every store can do, and what only a database can. */
export interface PostgresStore extends SessionStore {
  /** Whose sessions these are: no call reaches those of another namespace. */
  readonly namespace: string;
  /**
   * The lines of a session as they come; of one that is removed meanwhile nothing more comes.
   * Throws SessionTreeError `not-found`, `unreadable`.
   */
  follow(ref: SessionRef, options?: FollowOptions): AsyncGenerator<FollowedLine>;
  /** Waits for what is under way and ends the connections. */
  close(): Promise<void>;
}

/** What stood there in an old format goes with the session, and is told of as it was before. */
const DELETE = {
  text: `WITH removed AS (DELETE FROM espalier.session WHERE key = $1 AND made = $2)
    SELECT ref FROM espalier.session WHERE original_of = $1 ORDER BY ref`,
};

/** The sessions of one namespace of a database, whose tables `migrate` has made. */
export function postgresStore(database: Database, namespace: string): PostgresStore {
  checkNamespace(namespace);
  const leases = new PostgresLeases(database);
  const hints = new Hints(database);
  let checked: Promise<void> | undefined;
  /** Once for each store; a failure is not kept. */
  const ready = () => {
    checked ??= checkVersion(database).catch((error: unknown) => {
      checked = undefined;
      throw error;
    });
    return checked;
  };
  const reading = async <Result>(act: () => Promise<Result>): Promise<Result> =>
    asTroubleOfSession("unreadable", async () => {
      await ready();
      return act();
    });
  const writing = async <Result>(act: () => Promise<Result>): Promise<Result> =>
    asTroubleOfSession("write-failed", async () => {
      await ready();
      return act();
    });
  const opened = (found: FoundSession, mode: "read" | "write") => {
    const channel = channelOf(found.place.key);
    return new PostgresLog(database, found, mode, () => hints.give(channel));
  };
  const find = (ref: SessionRef) => reading(() => findSession(database, namespace, ref));
  const store: PostgresStore = {
    namespace,
    create: (header, lines = [], ref) =>
      writing(async () => {
        const name = ref ?? parsedHeader(header).id;
        const source = lines instanceof ForkLines && (await sourceOf(database, namespace, header));
        const made = source
          ? await forkInside(database, namespace, source, name, parsedHeader(header), lines.plan)
          : await createSession(database, namespace, name, header, lines);
        return opened(made, "write");
      }),
    async open(ref, mode) {
      return opened(await find(ref), mode);
    },
    async *list() {
      await reading(ready);
      yield* listSessions(database, namespace);
    },
    async lease(ref, options) {
      const { place } = await find(ref);
      return writing(() =>
        leases.take(place, options).catch((error: unknown) => {
          throw namesNoSession(error) ? gone(place.ref) : error;
        }),
      );
    },
    async delete(ref) {
      const { place } = await find(ref);
      const lease = await store.lease({ file: place.ref });
      try {
        const originals = await writing(() =>
          database.query<{ ref: string }>(DELETE, [place.key, place.made]),
        );
        return [place.ref, ...originals.map(({ ref }) => ref)];
      } finally {
        await lease.release();
      }
    },
    async *follow(ref, options = {}) {
      const { place, extent } = await find(ref);
      yield* followSession(database, place.key, options.from ?? extent.lines, options);
    },
    async close() {
      await leases.close();
      await hints.settle();
      await database.close();
    },
  };
  return store;
}

/** The session that a fork is made of, where it is one of ours whose path the table knows. */
async function sourceOf(
  database: Database,
  namespace: string,
  header: SessionHeader | string,
): Promise<SessionPlace | undefined> {
  const { parent, parentSession } = parsedHeader(header);
  const source =
    parentSession === undefined ? undefined : await sessionNamed(database, namespace, parentSession);
  return source?.isPlain && source.header?.id === parent?.sessionId ? source.place : undefined;
}
