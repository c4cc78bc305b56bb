import fs, { mkdirSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { EspalierError } from "@espalier/jsonl-stream";
import type { FileCalls } from "@espalier/jsonl-stream/node";
import {
  branchSummary,
  type Entry,
  label,
  message,
  type SessionLog,
  type SessionStore,
  type SessionTree,
} from "@espalier/session-tree";
import { testHeader } from "@espalier/session-tree/testing";
import { type Findings, type Harness, type HarnessOptions, SeededRandom } from "../harness.ts";
import { digestOfContext } from "../judge.ts";
import { failCall, note, oldSession, openTree, passingCalls, storeNamed } from "../stores.ts";

/** Acts of the scenario. */
const ACTS = 50;

/** Milliseconds after which a scenario counts as hung; it takes about ten, and a busy disk seconds. */
const HANGS_MS = 60_000;

/**
 * Every call of the file layer fails once, in turn, by every error, over fifty acts between taking and releasing the
 * lease: nothing acknowledged is lost, memory equals the file, the session is free, and no file of a lease stays. The same
 * for every call of `node:fs` while sessions are made, found, listed and deleted by their ids: an id is free or has its
 * session.
 */
export const calls: Harness = {
  async run(options, findings) {
    // A session of the current format, and one of the first, which its first append brings up to date.
    for (const format of ["v3", "v1"])
      await sweep(options, format, findings, (faulty) => scenario(options, faulty, format));
    // The broken stores are broken in their lines.
    if (options.store === "file")
      await sweep(options, "ids", findings, (faulty) => sessionsById(options.folder, faulty));
  },
};

async function sweep(
  { seed, isShort, store }: HarnessOptions,
  form: string,
  findings: Findings,
  act: (faulty: FaultyCalls) => Promise<void>,
): Promise<void> {
  const none = new FaultyCalls(form, "none", 0, findings);
  await act(none);
  const { made } = none;
  findings.count(`calls, ${form}`, made);
  const every = isShort ? 23 : 1;
  for (const [which, kind] of faultKinds.entries())
    for (let at = 1 + ((seed + which * 7) % every); at <= made; at += every) {
      const faulty = new FaultyCalls(form, kind, at, findings);
      const timer = new AbortController();
      const hung = setTimeout(HANGS_MS, "hung", { signal: timer.signal }).catch(() => undefined);
      const end = await Promise.race([act(faulty), hung]);
      timer.abort();
      faulty.expect(end !== "hung", "the scenario hung.");
      findings.count("scenarios");
      // A broken store is detected.
      if (store !== "file" && findings.faults.length > 0) return;
    }
}

async function scenario(
  { folder, seed, store: storeName }: HarnessOptions,
  faulty: FaultyCalls,
  format: string,
): Promise<void> {
  const random = new SeededRandom(seed);
  const store = storeNamed(storeName, folder, { calls: faulty.calls });
  const file = join(folder, `${faulty.name}.jsonl`);
  const acked: string[] = [];
  const open = async () => {
    const session = await faulty.attempt(() => openTree(store, file, "write"), 3);
    if (typeof session === "string")
      throw new Error(`${file}: the session could not be opened after one failure.`);
    return session;
  };
  const close = async (log: SessionLog | SessionTree | string) =>
    typeof log === "string" ? log : faulty.attempt(() => log.close(), 1);
  if (format === "v1") writeFileSync(file, oldSession, { mode: 0o600 });
  // `exists` at the second attempt: only the last sync failed, and it is there.
  else await close(await faulty.attempt(() => store.create(testHeader("s1"), [], file)));
  // As `openSession` does: held for as long as it is open.
  const lease = await faulty.attempt(() => store.lease({ file }));
  let session = await open();
  for (let n = 0; n < ACTS; n += 1) {
    const entries = await faulty.attempt(() => act(session, random, n), 1);
    if (typeof entries !== "string") acked.push(...entries.map(({ id }) => id));
    // Final for this opening, as the contract says. `changed`: the file is current now, and no sync of it failed since.
    else if (["sync-failed", "changed"].includes(entries)) {
      await close(session);
      session = await open();
    }
  }
  await close(session);
  if (typeof lease !== "string") await faulty.attempt(() => lease.release(), 1);
  faulty.at = 0;
  const sound = storeNamed("file", folder);
  const free = await faulty.attempt(async () => (await sound.lease({ file })).release(), 1);
  faulty.expect(typeof free !== "string", `the session is not free (${free}).`);
  const left = readdirSync(folder).filter(
    (each) => each.startsWith(`${faulty.name}.jsonl.`) && !each.endsWith(".v1"),
  );
  faulty.expect(left.length === 0, `${left.join(", ")} stayed.`);
  session = await open();
  acked.push(...(await session.append(note("last"))).map(({ id }) => id));
  const fresh = await openTree(sound, file);
  for (const id of acked) faulty.expect(fresh.tree.has(id), "an acknowledged entry is lost.");
  faulty.expect(fresh.leafId === session.leafId, "memory has another leaf than the file.");
  const ids = ({ tree }: SessionTree) => [...tree.ids()].join();
  faulty.expect(ids(fresh) === ids(session), "memory has other entries than the file.");
  const isSame = digestOfContext(fresh.context) === digestOfContext(session.context);
  faulty.expect(isSame, "memory has another context than the file.");
  const isTwice = fresh.tree.issues.some(({ kind }) => kind === "duplicate-id" || kind === "salvaged");
  faulty.expect(!isTwice, "something is in the file twice, or glued.");
  await fresh.close();
  await close(session);
}

async function sessionsById(folder: string, faulty: FaultyCalls): Promise<void> {
  const home = join(folder, faulty.name);
  mkdirSync(home);
  await faulty.everywhere(() => byIds(storeNamed("file", home), faulty));
  const left = readdirSync(home, { recursive: true }).filter((each) => /\.tmp$|\.lease/.test(`${each}`));
  faulty.expect(left.length === 0, `${left.join(", ")} stayed.`);
  rmSync(home, { recursive: true });
}

/** Sessions are made, opened, listed and deleted by their ids, each act once more where it failed. */
async function byIds(store: SessionStore, faulty: FaultyCalls): Promise<void> {
  const make = (id: string) => async () => {
    const log = await store.create({ ...testHeader(id), timestamp: new Date().toISOString() });
    await log.close();
  };
  const find = (id: string) => async () => (await store.open({ id }, "read")).close();
  const remove = (id: string) => async () => void (await store.delete({ id }));
  const list = async () => {
    for await (const _ of store.list());
  };
  const expectDone = (code: unknown, problem: string, ...allowed: unknown[]) =>
    faulty.expect(code === undefined || allowed.includes(code), `${problem} (${code}).`);
  for (const id of ["one", "two"]) {
    expectDone(await faulty.attempt(make(id)), `${id} is not made`, "exists");
    expectDone(await faulty.attempt(find(id)), `${id} is not found although it was made`);
  }
  // One of them may be the one that fails.
  const again = [await faulty.attempt(make("one"), 1), await faulty.attempt(make("one"), 1)];
  const isRefused = again.includes("exists") && !again.includes(undefined);
  faulty.expect(isRefused, "a second session of one id is not refused.");
  await faulty.attempt(list);
  expectDone(await faulty.attempt(remove("one")), "it is not deleted", "not-found");
  const found = await faulty.attempt(find("one"), 1);
  faulty.expect(found !== undefined, "what was deleted is found.");
  await faulty.attempt(make("one"));
  faulty.at = 0;
  for (const id of ["one", "two"]) {
    expectDone(await faulty.attempt(find(id)), `${id} is not found in the end`);
    expectDone(await faulty.attempt(remove(id), 1), `${id} stays`);
    expectDone(await faulty.attempt(make(id), 1), `${id} is not free again`);
  }
}

/** Does one act; the entries that it returns are acknowledged. */
async function act(session: SessionTree, random: SeededRandom, n: number): Promise<Entry[]> {
  const { leafId } = session;
  const choice = random.below(8);
  const onFailure = n % 2 === 0 ? "queue" : "throw";
  if (choice === 0) return session.append([note(n), note("x".repeat(3_000)), note(n)], { onFailure });
  if (choice === 1) {
    const question = { role: "user" as const, content: `Question ${n}`, timestamp: 0 };
    return session.append(message.of({ message: question }), { onFailure });
  }
  if (choice === 2 && leafId !== null) return session.append(label.of({ targetId: leafId, label: `${n}` }));
  if (choice === 6 && leafId !== null)
    return session.append(branchSummary.of({ fromId: leafId, summary: "So far." }));
  if (choice < 3 || choice > 5) return session.append(note(n), { onFailure });
  const ids = [...session.tree.ids()];
  if (choice === 3 && ids.length > 0) await session.moveTo(random.pick(ids));
  if (choice === 4) await session.flush();
  if (choice === 5) await session.refresh();
  return [];
}

/** Failures of a call: an error of the system, or less done than asked. */
const faultKinds = [
  "short",
  "EINTR",
  "EIO",
  "ENOSPC",
  "EDQUOT",
  "EMFILE",
  "ENFILE",
  "EACCES",
  "EPERM",
  "EROFS",
  "ESTALE",
  "EBUSY",
  "ENOMEM",
];

/** Calls of `node:fs` that a store of files may make; `existsSync` throws nothing. */
const FS_CALLS = Object.keys(fs).filter(
  (name) => name === "fsync" || (name.endsWith("Sync") && name !== "existsSync"),
);

/** Calls to the file system, of which one fails: the `at`-th, counted from 1, or none. */
class FaultyCalls {
  /** Of the scenario. */
  readonly name: string;
  /** Calls made so far. */
  made = 0;
  /** The name of the call that failed. */
  failed: string | undefined;
  /** The call that fails next; 0 for none. */
  at: number;
  readonly kind: string;
  readonly calls: FileCalls;
  readonly #findings: Findings;

  constructor(form: string, kind: string, at: number, findings: Findings) {
    this.name = `${form}-${kind}-${at}`;
    this.kind = kind;
    this.at = at;
    this.#findings = findings;
    this.calls = passingCalls((...given) => this.#pass(...given));
  }

  /** Notes a fault of the scenario unless `holds`. */
  expect(holds: boolean, problem: string): void {
    this.#findings.expect(holds, `${this.name} (${this.failed}): ${problem}`);
  }

  /**
   * Does an act, again where it fails: only one call fails. Returns the code of the last failure in place of a result. An
   * error without a code is a fault.
   */
  async attempt<Result>(act: () => Promise<Result>, attempts = 2): Promise<Result | string> {
    try {
      return await act();
    } catch (error) {
      const isTyped = error instanceof EspalierError;
      this.expect(isTyped, `${(error as Error)?.stack ?? error} has no code.`);
      if (attempts > 1) return this.attempt(act, attempts - 1);
      return isTyped ? error.code : "raw";
    }
  }

  /** Does work in which all calls of `node:fs` pass through these. */
  async everywhere(work: () => Promise<void>): Promise<void> {
    const all = fs as unknown as Record<string, (...args: unknown[]) => unknown>;
    const real = Object.fromEntries(FS_CALLS.map((name) => [name, all[name]!]));
    for (const name of FS_CALLS) all[name] = (...args) => this.#pass(name, real[name]!, args);
    syncBuiltinESMExports();
    try {
      await work();
    } finally {
      Object.assign(fs, real);
      syncBuiltinESMExports();
    }
  }

  #pass(name: string, call: (...args: unknown[]) => unknown, args: unknown[]): unknown {
    this.made += 1;
    if (this.made !== this.at) return call(...args);
    this.failed = name;
    return failCall(this.kind, name, call, args);
  }
}
