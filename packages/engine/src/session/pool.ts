import { AsyncLocalStorage } from "node:async_hooks";
import { EspalierError } from "@espalier/jsonl-stream";
import { Turns } from "@espalier/session-tree";
import { type CreateOptions, deleteSession, type OpenOptions, openOrCreate } from "./open.ts";
import type { Session } from "./session.ts";
import { sentencesOnStderr } from "./state.ts";

/** Options of a pool, and options with which it opens or creates every session. */
export interface PoolOptions
  extends Omit<OpenOptions & CreateOptions, "id" | "file" | "mode" | "leafId" | "onBusy" | "lease"> {
  /**
   * Milliseconds for which an unused session stays open in this process. Default 5,000. 0: it is closed as soon as no
   * use waits for it, as needed when a load balancer sends requests of one user to any of several servers.
   */
  idleMs?: number;
  /**
   * Maximum number of open sessions. When another one is needed, the session that was unused longest is closed; when
   * all are in use, the next use waits. Default 1,000.
   */
  max?: number;
}

/** Open sessions of a server, made by {@link sessionPool}. */
export interface SessionPool {
  /**
   * Calls `work` with the open session of an id, which is created when it does not exist. Uses of one id take turns, in
   * the order of the calls; uses of several ids run at once. Do not close the session. When `work` throws, the session
   * is closed, and the next use opens it again.
   *
   * @param made folder and parent of the session, if this use creates it
   * @throws errors of `work` and of `openOrCreate`, such as `busy` when another process held it during all of `waitMs`;
   * EspalierError `closed` after `close`; `bad-input` for a use of the same id inside `work`, which would wait for
   * itself
   */
  use<Result>(
    id: string,
    work: (session: Session) => Result | Promise<Result>,
    made?: Pick<CreateOptions, "cwd" | "parent">,
  ): Promise<Result>;
  /**
   * Closes a session when its earlier uses have ended, and removes it with its other files; the next use creates a new
   * one. Returns the removed paths.
   *
   * @throws as `deleteSession`: `not-found`; `busy` while another process writes it; as `use`: `closed`, `bad-input`
   */
  delete(id: string): Promise<string[]>;
  /** Number of open sessions, in use or not. */
  readonly size: number;
  /**
   * Closes all sessions when the accepted uses have ended. From now on, `use` and `delete` throw `closed`. A second
   * call waits for the first. Throws the error of an idle session that cannot be closed.
   */
  close(): Promise<void>;
}

/** One id. It is in the pool while it is in use or its session is open. */
interface Seat {
  id: string;
  session?: Session;
  /** Number of uses that run or wait. */
  users: number;
  /** Uses, one at a time. */
  turns: Turns;
  timer?: NodeJS.Timeout;
}

/** Milliseconds in addition to `idleMs` for the turn of another process, when `waitMs` is not given. */
const TURN_MS = 30_000;

/** Ids that the calling work already uses. */
const within = new AsyncLocalStorage<readonly Seat[]>();

/**
 * Keeps sessions open for a server: simultaneous requests of one user take turns with one session, and unused sessions
 * are closed.
 *
 * ```ts
 * const sessions = sessionPool({ store });
 * app.post("/chat/:user", (request) => sessions.use(request.params.user, (session) => answer(session, request.body)));
 * process.once("SIGTERM", () => sessions.close());
 * ```
 */
export function sessionPool(options: PoolOptions = {}): SessionPool {
  const { idleMs = 5_000, max = 1_000, waitMs = idleMs + TURN_MS, ...given } = options;
  checkCount("idleMs", idleMs, 0);
  checkCount("max", max, 1);
  const seats = new Map<string, Seat>();
  /** Open and unused seats; the one that was unused longest comes first. */
  const idle = new Set<Seat>();
  /** Uses that wait until one of `max` sessions can be closed. */
  const waiting: (() => void)[] = [];
  const uses = new Set<Promise<unknown>>();
  let size = 0;
  let closing: Promise<void> | undefined;

  const shut = async (seat: Seat): Promise<void> => {
    const { session } = seat;
    if (!session) return;
    delete seat.session;
    try {
      await session.close();
    } finally {
      size--;
      waiting.shift()?.();
    }
  };

  /** Closes an unused session; the next use opens it again. */
  const shutIdle = (seat: Seat): Promise<void> => {
    rouse(seat);
    return seat.turns.take(() => shut(seat)).finally(() => forgetUnused(seat));
  };

  const rouse = (seat: Seat) => {
    idle.delete(seat);
    clearTimeout(seat.timer);
  };

  const forgetUnused = (seat: Seat) => {
    if (seat.users === 0 && !seat.session && seats.get(seat.id) === seat) seats.delete(seat.id);
  };

  const makeRoom = async (): Promise<void> => {
    while (size >= max) {
      const [longest] = idle;
      if (longest) await shutIdle(longest).catch((error: unknown) => warn(given, longest, error));
      else await new Promise<void>((resolve) => waiting.push(resolve));
    }
    size++;
  };

  const opened = async (seat: Seat, made: Pick<CreateOptions, "cwd" | "parent">): Promise<Session> => {
    if (seat.session) return seat.session;
    await makeRoom();
    try {
      seat.session = await openOrCreate({ id: seat.id }, { ...given, ...made, waitMs });
      return seat.session;
    } catch (error) {
      size--;
      waiting.shift()?.();
      throw error;
    }
  };

  /** Ends a use: the session goes to the next use, or stays open for `idleMs` when no use waits. */
  const leave = async (seat: Seat): Promise<void> => {
    seat.users--;
    if (seat.users > 0) return;
    if (!seat.session) return forgetUnused(seat);
    idle.add(seat);
    const shutNow = () => shutIdle(seat).catch((error: unknown) => warn(given, seat, error));
    if (idleMs === 0 || closing) return shutNow();
    // The process may end while sessions are idle: they have nothing left to write.
    seat.timer = setTimeout(() => void shutNow(), idleMs).unref();
    waiting.shift()?.();
  };

  const inTurn = async <Result>(id: string, act: (seat: Seat, outer: readonly Seat[]) => Promise<Result>) => {
    if (closing) throw new EspalierError("closed", "The pool of sessions was closed; create another one.");
    const outer = within.getStore() ?? [];
    const seat = seats.get(id) ?? { id, users: 0, turns: new Turns() };
    if (outer.includes(seat)) throw usesItself(id);
    seats.set(id, seat);
    seat.users++;
    rouse(seat);
    try {
      return await seat.turns.take(() => act(seat, outer));
    } finally {
      await leave(seat);
    }
  };

  const use: SessionPool["use"] = (id, work, made = {}) =>
    inTurn(id, async (seat, outer) => {
      const session = await opened(seat, made);
      try {
        return await within.run([...outer, seat], async () => work(session));
      } catch (error) {
        // The session itself may be the cause: a removed or unsynced file stays so until it is opened again.
        await shut(seat).catch((second: unknown) => warn(given, seat, second));
        throw error;
      }
    });

  const counted = <Result>(ending: Promise<Result>): Promise<Result> => {
    uses.add(ending);
    const ended = () => uses.delete(ending);
    ending.then(ended, ended);
    return ending;
  };

  return {
    get size() {
      return size;
    },
    use: (id, work, made) => counted(use(id, work, made)),
    delete: (id) =>
      counted(
        inTurn(id, async (seat) => {
          await shut(seat);
          return deleteSession(id, given);
        }),
      ),
    close() {
      closing ??= (async () => {
        const shutting = Promise.allSettled([...idle].map(shutIdle));
        await Promise.allSettled(uses);
        for (const closed of await shutting) if (closed.status === "rejected") throw closed.reason;
      })();
      return closing;
    },
  };
}

/** Reports a session that could not be closed and for which no caller waits. */
function warn({ log = sentencesOnStderr }: Pick<PoolOptions, "log">, { id }: Seat, error: unknown): void {
  const reason = error instanceof Error ? error.message : String(error);
  log.error(`The session ${id} could not be closed: ${reason}`, { error });
}

function checkCount(name: string, value: number, least: number): void {
  if (Number.isFinite(value) && value >= least) return;
  throw new EspalierError("bad-input", `${name} of the pool is ${value}; give a number from ${least} on.`);
}

const usesItself = (id: string) =>
  new EspalierError(
    "bad-input",
    `The session ${id} is already in use by this function, which would wait for itself; pass the open session on instead.`,
  );
