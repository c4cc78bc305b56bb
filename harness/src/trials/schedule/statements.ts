import { setTimeout } from "node:timers/promises";
import { EspalierError, formatLine } from "@espalier/jsonl-stream";
import type { SessionStore } from "@espalier/session-tree";
import { testHeader } from "@espalier/session-tree/testing";
import {
  type Connection,
  type Database,
  migratePostgres,
  type PostgresStore,
  poolDatabase,
  postgresStore,
  type ReservedConnection,
  type Statement,
} from "@espalier/store-postgres";
import { serverPrograms, startPrivateServer } from "@espalier/store-postgres/testing";
import type { Findings } from "../../harness.ts";
import { bytesOf, oldLines } from "../../stores.ts";
import { append, judgeWritten, lease, type Writer } from "./writer.ts";

/** Steps of a client: its statement, its death before it, or a statement whose answer is lost. */
type Act = "step" | "die" | "unanswered";

interface Choice {
  client: number;
  act: Act;
}

/** Thrown in a client that has died. */
class Died extends Error {}

/** A client whose statements wait until they are chosen. */
class Client implements Writer {
  readonly store: PostgresStore;
  /** Set while a statement waits. */
  waiting: { label: string; go: (act: Act) => void } | undefined;
  /** False while a script runs. Statements outside of scripts do not wait. */
  isOver = true;
  isDead = false;
  isHolding = false;
  acknowledged: string[] = [];
  failure: unknown;
  readonly database: Database;
  readonly #reserved = new Set<ReservedConnection>();
  #tell: () => void = () => undefined;

  constructor(database: Database, change: (text: string) => string) {
    this.database = database;
    this.store = postgresStore(this.#stepped(database, change), "default");
  }

  run(script: Script, ref: string): void {
    this.isOver = false;
    this.isHolding = false;
    this.acknowledged = [];
    this.failure = undefined;
    void script(this, ref)
      .catch((error: unknown) => {
        if (!this.isDead) this.failure = error;
      })
      .finally(() => {
        this.isOver = true;
        this.#tell();
      });
  }

  acknowledge(id: string): void {
    this.acknowledged.push(id);
  }

  hold(isHeld: boolean): void {
    this.isHolding = isHeld;
  }

  /** Resolves when it waits for its turn, or has ended. */
  nextChange(): Promise<void> {
    return new Promise((resolve) => {
      this.#tell = resolve;
    });
  }

  async #turn(label: string): Promise<Act> {
    if (this.isDead) throw new Died();
    if (this.isOver) return "step";
    const act = await new Promise<Act>((go) => {
      this.waiting = { label, go };
      this.#tell();
    });
    if (act !== "die") return act;
    this.isDead = true;
    this.isHolding = false;
    // The server notices; its connections in the pool hold nothing.
    await Promise.all([...this.#reserved].map((connection) => connection.release()));
    throw new Died();
  }

  async #step<Result>(label: string, run: () => Promise<Result>): Promise<Result> {
    const act = await this.#turn(label);
    return answered(await run(), act);
  }

  #stepped(inner: Database, change: (text: string) => string): Database {
    const through = (connection: Connection): Connection => ({
      query: (statement: Statement, values) => {
        const text = change(statement.text);
        const changed = text === statement.text ? statement : { text };
        return this.#step(text.trim().split(/\s+/).slice(0, 3).join(" "), () =>
          connection.query(changed, values),
        );
      },
    });
    return {
      ...through(inner),
      place: inner.place,
      reconnectMs: inner.reconnectMs,
      transaction: async (act) => {
        const [result, end] = await inner.transaction(async (connection) => {
          const done = await act(through(connection));
          return [done, await this.#turn("COMMIT")] as const;
        });
        return answered(result, end);
      },
      reserve: async () => {
        if (this.isDead) throw new Died();
        const reserved = await inner.reserve();
        this.#reserved.add(reserved);
        void reserved.over.then(() => this.#reserved.delete(reserved));
        return {
          ...through(reserved),
          onNotification: reserved.onNotification,
          over: reserved.over,
          release: reserved.release,
        };
      },
      close: () => inner.close(),
    };
  }
}

/** Returns the result of a statement. Throws `unreachable` if the answer is lost. */
function answered<Result>(result: Result, act: Act): Result {
  if (act === "unanswered") throw new EspalierError("unreachable", "The connection was lost.");
  return result;
}

type Script = (client: Client, ref: string) => Promise<void>;

interface Scenario {
  name: string;
  lines: readonly object[];
  script: Script;
}

let entries = 0;
const appending: Script = (client, ref) => append(client, ref, `entry${entries++}`, 10);
const holding: Script = (client, ref) => lease(client, ref, () => client.store.open({ file: ref }, "read"));

const SCENARIOS: readonly Scenario[] = [
  { name: "append", lines: [testHeader("trial")], script: appending },
  { name: "upgrade", lines: oldLines, script: appending },
  { name: "lease", lines: [testHeader("trial")], script: holding },
];

/** Bounds of a search: switches away from a client that could continue, and deaths and lost answers together. */
interface Bounds {
  switches: number;
  losses: number;
}

/** Every order with two switches takes minutes, and so does a loss at each statement of every order with one. */
const SHORT: readonly Bounds[] = [{ switches: 2, losses: 0 }];
const LONG: readonly Bounds[] = [
  { switches: 2, losses: 0 },
  { switches: 1, losses: 1 },
];

/** Faults after which a scenario ends. */
const ENOUGH = 3;

/**
 * Every order of the statements of two clients of one session, up to a bound, with deaths and lost answers: of appends,
 * of bringing an old session up to date, and of the lease. `change` replaces statements, to see whether it detects that.
 */
export async function scheduleStatements(
  isShort: boolean,
  findings: Findings,
  change: (text: string) => string = (text) => text,
): Promise<void> {
  if (!serverPrograms()) {
    findings.skipped.push("No statements: there is no PostgreSQL server on this machine.");
    return;
  }
  const server = await startPrivateServer();
  const open = () => poolDatabase(server.url, "the trial's server", { reconnectMs: 1_000 });
  try {
    await migratePostgres(server.url);
    const control = open();
    const store = postgresStore(open(), "default");
    const create = () => new Client(open(), change);
    const clients = [create(), create()];
    for (const scenario of SCENARIOS)
      for (const bounds of isShort ? SHORT : LONG)
        await search(scenario, { clients, create, store, control }, bounds, findings);
    for (const each of [store, ...clients.map((client) => client.store)]) await each.close();
    await control.close();
  } finally {
    await server.remove();
  }
}

interface Parts {
  /** A dead one is replaced by another. */
  clients: Client[];
  create: () => Client;
  /** Reads the end. */
  store: PostgresStore;
  /** Counts the statements that wait for a lock. */
  control: Database;
}

async function search(
  scenario: Scenario,
  { clients, create, store, control }: Parts,
  bounds: Bounds,
  findings: Findings,
): Promise<void> {
  const name = `statements, ${scenario.name}`;
  const prefixes: Choice[][] = [[]];
  let faults = 0;
  for (let prefix = prefixes.pop(); prefix && faults < ENOUGH; prefix = prefixes.pop()) {
    const ref = `trial${entries++}`;
    const [header, ...lines] = scenario.lines.map((line) => formatLine(line));
    await (await store.create(header!, lines, ref)).close();
    for (const client of clients) client.run(scenario.script, ref);
    const { trace, alternatives, problems } = await runOnce(prefix, bounds, clients, control);
    prefixes.push(...alternatives);
    const isLossy = trace.some((step) => step.includes("(unanswered)"));
    const judged = await judgeWritten({
      file: ref,
      store,
      read: (file) => bytesIn(store, file),
      before: bytesOf(scenario.lines),
      acknowledged: clients.flatMap(({ acknowledged }) => acknowledged),
      failures: clients.flatMap(({ failure }) => failure ?? []),
      // A reading whose answer is lost may fail, by its code.
      expected: isLossy ? undefined : ["busy"],
    });
    problems.push(...judged);
    for (const [at, client] of clients.entries()) {
      if (!client.isDead) continue;
      await client.database.close();
      clients[at] = create();
    }
    for (const problem of problems) findings.fault(`${name}: ${problem} Steps: ${trace.join(", ")}`);
    faults += problems.length;
    findings.count(`${name}: orders`);
  }
}

/** Runs one order: the choices given, then the client at work continues. Returns the other choices that were possible. */
async function runOnce(
  prefix: readonly Choice[],
  bounds: Bounds,
  clients: readonly Client[],
  control: Database,
): Promise<{ trace: string[]; alternatives: Choice[][]; problems: string[] }> {
  const trace: string[] = [];
  const problems: string[] = [];
  const alternatives: Choice[][] = [];
  const made: Choice[] = [];
  let [switches, losses, last] = [bounds.switches, bounds.losses, -1];
  for (;;) {
    await settled(clients, control);
    const able = clients.flatMap((client, at) => (client.waiting ? [at] : []));
    if (able.length === 0) break;
    const usual = able.includes(last) ? last : able[0]!;
    // A choice that is not possible this time (clients wait differently beside other work) falls to the client at work: a
    // client left waiting would keep its transaction, and its lock, for ever.
    const planned = prefix[made.length];
    const choice =
      planned && able.includes(planned.client) ? planned : { client: usual, act: "step" as const };
    if (made.length >= prefix.length) {
      const others = able.filter((at) => at !== usual && (last !== usual || switches > 0));
      const acts: Choice[] = others.map((client) => ({ client, act: "step" }));
      if (losses > 0) for (const act of ["die", "unanswered"] as const) acts.push({ client: usual, act });
      for (const act of acts) alternatives.push([...made, act]);
    }
    if (choice.client !== last && able.includes(last)) switches -= 1;
    if (choice.act !== "step") losses -= 1;
    last = choice.client;
    made.push(choice);
    const client = clients[choice.client]!;
    const { label, go } = client.waiting!;
    client.waiting = undefined;
    trace.push(`[${choice.client + 1}] ${choice.act === "step" ? "" : `(${choice.act}) `}${label}`);
    go(choice.act);
    if (clients.filter((each) => each.isHolding).length > 1) problems.push("Two clients hold the lease.");
  }
  return { trace, alternatives, problems };
}

/** Milliseconds after which a statement without an answer is taken to wait for a lock, and the server is asked. */
const LOOK_MS = 10;

/** Waits until every client waits for its turn, has ended, or waits for another one's lock. */
async function settled(clients: readonly Client[], control: Database): Promise<void> {
  for (;;) {
    const running = clients.filter(({ waiting, isOver }) => !waiting && !isOver);
    if (running.length === 0) return;
    const timer = new AbortController();
    const look = setTimeout(LOOK_MS, "look", { signal: timer.signal }).catch(() => undefined);
    const what = await Promise.race([...running.map((client) => client.nextChange()), look]);
    timer.abort();
    if (what !== "look" || running.length === clients.length) continue;
    const [row] = await control.query<{ blocked: string }>({
      text: "SELECT count(*) AS blocked FROM pg_stat_activity WHERE wait_event_type = 'Lock'",
    });
    // A client whose lock was just released still counts as blocked for a moment: with no other client to choose, it is
    // waited for. Left behind, it would keep its transaction for ever.
    if (Number(row!.blocked) >= running.length && clients.some(({ waiting }) => waiting)) return;
  }
}

async function bytesIn(store: SessionStore, file: string): Promise<Uint8Array> {
  const log = await store.open({ file }, "read");
  const loaded = await log.load();
  const view = log.upgraded?.original ?? loaded;
  return view.read(0, view.size);
}
