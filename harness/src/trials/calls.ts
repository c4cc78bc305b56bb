import fs, { mkdirSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import { join } from "node:path";
import { EspalierError } from "@espalier/jsonl-stream";
import type { FileCalls } from "@espalier/jsonl-stream/node";
import {
  branchSummary,
  type Entry,
  label,
  message,
  type SessionStore,
  type SessionTree,
} from "@espalier/session-tree";
import { testHeader } from "@espalier/session-tree/testing";
import { type Findings, type Harness, type HarnessOptions, SeededRandom } from "../harness.ts";
import { digestOfContext } from "../judge.ts";
import { note, oldSession, openTree, passingCalls, storeNamed } from "../stores.ts";

/** Acts of the scenario. */
const ACTS = 50;

/** Milliseconds after which a scenario counts as hung; it takes about ten, and a busy disk seconds. */
const HANGS_MS = 60_000;

/** A session of the current format, or of the first one, which its first append brings up to date. */
type Format = "v3" | "v1";

/**
 * Every call of the file layer fails once, in turn, by every error, over fifty acts between taking and releasing the
 * lease: nothing acknowledged is lost, memory equals the file, the session is free, and no file of a lease stays. The same
 * for every call of `node:fs` while sessions are made, found, listed and deleted by their ids: an id is free or has its
 * session.
 */
export const calls: Harness = {
  async run(options, findings) {
    for (const format of ["v3", "v1"] as const)
      await sweep(options, format, findings, (faulty, name) =>
        scenario(options, faulty, findings, name, format),
      );
    // The broken stores are broken in their lines.
    if (options.store === "file")
      await sweep(options, "ids", findings, (faulty, name) => byIds(options.folder, faulty, findings, name));
  },
};

async function sweep(
  options: HarnessOptions,
  form: string,
  findings: Findings,
  act: (faulty: FaultyCalls, name: string) => Promise<void>,
): Promise<void> {
  const none = new FaultyCalls(0, "EIO");
  await act(none, `${form}-none`);
  const total = none.made;
  findings.count(`calls, ${form}`, total);
  for (const [which, kind] of faultKinds.entries()) {
    const first = options.isShort ? 1 + ((options.seed + which * 7) % 23) : 1;
    for (let at = first; at <= total; at += options.isShort ? 23 : 1) {
      const faulty = new FaultyCalls(at, kind);
      const name = `${form}-${kind}-${at}`;
      let timer: ReturnType<typeof setTimeout> | undefined;
      const hung = new Promise<"hung">((resolve) => {
        timer = setTimeout(() => resolve("hung"), HANGS_MS);
      });
      const end = await Promise.race([act(faulty, name), hung]);
      clearTimeout(timer);
      findings.expect(end !== "hung", () => `${name} (${faulty.failed}): the scenario hung.`);
      findings.count("scenarios");
      // A broken store is detected.
      if (options.store !== "file" && findings.faults.length > 0) return;
    }
  }
}

async function scenario(
  { folder, seed, store: storeName }: HarnessOptions,
  faulty: FaultyCalls,
  findings: Findings,
  name: string,
  format: Format,
): Promise<void> {
  const random = new SeededRandom(seed);
  const store = storeNamed(storeName, folder, { calls: faulty.calls });
  const file = join(folder, `${name}.jsonl`);
  const acked: string[] = [];
  const expect = (holds: boolean, problem: string) =>
    findings.expect(holds, () => `${name} (${faulty.failed}): ${problem}`);
  const codeOf = (error: unknown) => {
    const isTyped = error instanceof EspalierError;
    expect(isTyped, `${(error as Error)?.message ?? error} has no code.`);
    return isTyped ? error.code : "";
  };
  if (format === "v1") writeFileSync(file, oldSession, { mode: 0o600 });
  else
    await (await atFirstSuccess(() => store.create(testHeader("s1"), [], file), codeOf))
      ?.close()
      .catch(codeOf);
  // As `openSession` does: held for as long as it is open.
  const lease = await atFirstSuccess(() => store.lease({ file }), codeOf);
  let session = await openAgain(store, file, codeOf);
  for (let n = 0; n < ACTS; n += 1) {
    try {
      acked.push(...(await act(session, random, n)).map(({ id }) => id));
    } catch (error) {
      // Final for this opening, as the contract says. `changed`: the file is current now, and no sync of it failed since.
      if (!["sync-failed", "changed"].includes(codeOf(error))) continue;
      await session.close().catch(codeOf);
      session = await openAgain(store, file, codeOf);
    }
  }
  await session.close().catch(codeOf);
  await lease?.release().catch(codeOf);
  faulty.at = 0;
  const sound = storeNamed("file", folder);
  await sound
    .lease({ file })
    .then((free) => free.release())
    .catch((error: Error) => expect(false, error.message));
  const left = readdirSync(folder).filter(
    (each) => each.startsWith(`${name}.jsonl.`) && !each.endsWith(".v1"),
  );
  expect(left.length === 0, `${left.join(", ")} stayed.`);
  session = await openAgain(store, file, codeOf);
  acked.push(...(await session.append(note("last"))).map(({ id }) => id));
  const fresh = await openTree(sound, file);
  for (const id of acked) expect(fresh.tree.has(id), "an acknowledged entry is lost.");
  expect(fresh.leafId === session.leafId, "memory has another leaf than the file.");
  const ids = ({ tree }: SessionTree) => [...tree.ids()].join();
  expect(ids(fresh) === ids(session), "memory has other entries than the file.");
  const isSame = digestOfContext(fresh.context) === digestOfContext(session.context);
  expect(isSame, "memory has another context than the file.");
  const isTwice = fresh.tree.issues.some(({ kind }) => kind === "duplicate-id" || kind === "salvaged");
  expect(!isTwice, "something is in the file twice, or glued.");
  await fresh.close();
  await session.close().catch(codeOf);
}

/** Sessions are made, opened, listed and deleted by their ids, each act once more where it failed. */
async function byIds(folder: string, faulty: FaultyCalls, findings: Findings, name: string): Promise<void> {
  const home = join(folder, name);
  mkdirSync(home);
  const store = storeNamed("file", home);
  const where = () => `${name} (${faulty.failed})`;
  const acting = async <Result>(act: () => Promise<Result>): Promise<Result | string> => {
    const undo = faulty.everywhere();
    try {
      return await act();
    } catch (error) {
      const isTyped = error instanceof EspalierError;
      findings.expect(isTyped, () => `${where()}: ${(error as Error)?.stack ?? error} has no code.`);
      return isTyped ? error.code : "raw";
    } finally {
      undo();
    }
  };
  const twice = async <Result>(act: () => Promise<Result>): Promise<Result | string> => {
    const first = await acting(act);
    return typeof first === "string" ? acting(act) : first;
  };
  const make = (id: string) => async () => {
    const log = await store.create({ ...testHeader(id), timestamp: new Date().toISOString() });
    await log.close();
    return { id };
  };
  const find = (id: string) => async () => {
    const log = await store.open({ id }, "read");
    await log.close();
    return { id: log.header?.id };
  };
  const expectThere = async (id: string, acts: string) => {
    const found = await twice(find(id));
    findings.expect(typeof found === "object", () => `${where()}: ${id} is not found (${found}) ${acts}.`);
  };
  for (const id of ["one", "two"]) {
    const made = await twice(make(id));
    findings.expect(
      typeof made === "object" || made === "exists",
      () => `${where()}: ${id} is not made: ${made}.`,
    );
    await expectThere(id, "although it was made");
  }
  // One of them may be the one that fails.
  const again = [await acting(make("one")), await acting(make("one"))];
  const isRefused = again.includes("exists") && again.every((end) => typeof end === "string");
  findings.expect(isRefused, () => `${where()}: a second session of one id is not refused.`);
  await twice(async () => {
    for await (const _ of store.list());
    return {};
  });
  const gone = await twice(() => store.delete({ id: "one" }));
  findings.expect(
    typeof gone === "object" || gone === "not-found",
    () => `${where()}: it is not deleted: ${gone}.`,
  );
  const known = await acting(find("one"));
  findings.expect(typeof known === "string", () => `${where()}: what was deleted is found.`);
  await twice(make("one"));
  faulty.at = 0;
  for (const id of ["one", "two"]) {
    await expectThere(id, "in the end");
    findings.expect(
      typeof (await acting(() => store.delete({ id }))) === "object",
      () => `${where()}: ${id} stays.`,
    );
    findings.expect(
      typeof (await acting(make(id))) === "object",
      () => `${where()}: ${id} is not free again.`,
    );
  }
  const left = readdirSync(home, { recursive: true }).filter((each) => /\.tmp$|\.lease/.test(`${each}`));
  findings.expect(left.length === 0, () => `${where()}: ${left.join(", ")} stayed.`);
  rmSync(home, { recursive: true });
}

/** Opens a session, of whose calls one may still fail. */
async function openAgain(
  store: SessionStore,
  file: string,
  codeOf: (error: unknown) => string,
): Promise<SessionTree> {
  const session = await atFirstSuccess(() => openTree(store, file, "write"), codeOf, 3);
  if (!session) throw new Error(`${file}: the session could not be opened after one failure.`);
  return session;
}

/** Returns the result of the first attempt that does not fail: only one call fails. */
async function atFirstSuccess<Result>(
  act: () => Promise<Result>,
  codeOf: (error: unknown) => string,
  attempts = 2,
): Promise<Result | undefined> {
  for (let attempt = 0; attempt < attempts; attempt += 1) {
    try {
      return await act();
    } catch (error) {
      // Only the last sync failed: it is there.
      if (codeOf(error) === "exists") return undefined;
    }
  }
  return undefined;
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
  /** Calls made so far. */
  made = 0;
  /** The name of the call that failed. */
  failed: string | undefined;
  /** The call that fails next; 0 for none. */
  at: number;
  readonly kind: string;
  readonly calls: FileCalls;

  constructor(at: number, kind: string) {
    this.at = at;
    this.kind = kind;
    this.calls = passingCalls((...given) => this.#pass(...given));
  }

  /** Lets all calls of `node:fs` pass through these, until the returned function is called. */
  everywhere(): () => void {
    const all = fs as unknown as Record<string, (...args: unknown[]) => unknown>;
    const real = Object.fromEntries(FS_CALLS.map((name) => [name, all[name]!]));
    for (const name of FS_CALLS) all[name] = (...args) => this.#pass(name, real[name]!, args);
    syncBuiltinESMExports();
    return () => {
      Object.assign(fs, real);
      syncBuiltinESMExports();
    };
  }

  #pass(name: string, call: (...args: unknown[]) => unknown, args: unknown[]): unknown {
    this.made += 1;
    if (this.made !== this.at) return call(...args);
    this.failed = name;
    if (this.kind === "short") return call(...halved(name, args));
    // Closing frees a descriptor even when the call fails.
    if (name === "closeSync") call(...args);
    throw Object.assign(new Error(this.kind), { code: this.kind });
  }
}

/** Halves the length of a read or write (`fd, bytes, offset, length, position`). A read has at least one byte. */
function halved(name: string, args: unknown[]): unknown[] {
  const length = args[3];
  if ((name !== "writeSync" && name !== "readSync") || typeof length !== "number") return args;
  return args.with(3, Math.max(name === "readSync" ? 1 : 0, length >> 1));
}
