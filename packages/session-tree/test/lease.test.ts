import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import {
  existsSync,
  lstatSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { hostname, tmpdir } from "node:os";
import { join } from "node:path";
import type { EspalierError } from "@espalier/jsonl-stream";
import { type FileCalls, nodeFileCalls } from "@espalier/jsonl-stream/node";
import { memoryStore, type SessionLease } from "@espalier/session-tree";
import { fileStore, takeFileLease } from "@espalier/session-tree/node";
import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from "vitest";

const home = mkdtempSync(join(tmpdir(), "espalier-"));
const store = fileStore({ home });
let ref = "";
let made = 0;
const leaseFile = () => `${ref}.lease`;
/** What this process writes into a lease. */
let own: Record<string, unknown>;

beforeAll(async () => {
  const timestamp = "2026-01-01T00:00:00.000Z";
  const log = await store.create({ type: "session", version: 3, id: "first", timestamp, cwd: "/" });
  const lease = await store.lease({ file: log.ref });
  own = JSON.parse(readFileSync(`${log.ref}.lease`, "utf8"));
  await lease.release();
});
beforeEach(async () => {
  const timestamp = "2026-01-01T00:00:00.000Z";
  const log = await store.create({ type: "session", version: 3, id: `s${++made}`, timestamp, cwd: "/" });
  ref = log.ref;
  await log.close();
});
afterAll(() => rmSync(home, { recursive: true }));

const leave = (fields: Record<string, unknown>) =>
  writeFileSync(leaseFile(), JSON.stringify({ ...own, owner: "000000000000", ...fields }));

test("a second caller gets an error that names the holder of a session", async () => {
  const lease = await store.lease({ file: ref });
  const error = await store.lease({ file: ref }).catch((cause: EspalierError) => cause);
  expect(error).toMatchObject({ code: "busy", holder: { pid: process.pid, host: hostname() } });
  expect((error as EspalierError).message).toMatch(/share it, or close it: that process is this one\.$/);
  expect(Number.isNaN(Date.parse((error as EspalierError).holder!.since))).toBe(false);
  await lease.release();
  await (await store.lease({ file: ref })).release();
  expect(existsSync(leaseFile())).toBe(false);
  expect(readdirSync(join(ref, "..")).filter((name) => name.includes("lease"))).toEqual([]);
});

test("the lease of a file whose folder is gone is refused in one sentence", async () => {
  const path = join(home, "gone", "s.jsonl");
  await expect(takeFileLease(path)).rejects.toMatchObject({
    code: "not-found",
    message: `${path} or its folder no longer exists; name an existing session.`,
  });
});

test("a leased session is not removed", async () => {
  const lease = await store.lease({ file: ref });
  await expect(store.delete({ file: ref })).rejects.toMatchObject({ code: "busy" });
  expect(existsSync(ref)).toBe(true);
  await lease.release();
  expect(await store.delete({ file: ref })).toEqual([ref]);
});

test("a removed session leaves no lease file or temporary file", async () => {
  for (const ending of ["", "-0123456789ab", "-0123456789ab.tmp"])
    writeFileSync(`${leaseFile()}${ending}`, JSON.stringify({ ...own, processStart: "1" }));
  expect(await store.delete({ file: ref })).toEqual([ref]);
  expect(readdirSync(join(ref, "..")).filter((name) => name.includes(`s${made}.jsonl`))).toEqual([]);
});

test("the lease of a dead process is replaced at once", async () => {
  const child = spawn(process.execPath, ["-e", "0"]);
  await once(child, "exit");
  leave({ pid: child.pid, processStart: "1" });
  await (await store.lease({ file: ref })).release();
});

test("another process with the reused number of a dead owner does not hold its lease", async () => {
  leave({ pid: process.pid, processStart: "1" });
  await (await store.lease({ file: ref })).release();
});

test("a lease from before a restart of the machine has no effect", async () => {
  leave({ boot: "00000000-0000-0000-0000-000000000000" });
  await (await store.lease({ file: ref })).release();
});

test("a lease of another machine counts as alive, and the message says what to do", async () => {
  leave({ host: "elsewhere", pid: 1 });
  await expect(store.lease({ file: ref })).rejects.toMatchObject({
    code: "busy",
    holder: { host: "elsewhere", pid: 1 },
  });
  await expect(store.lease({ file: ref })).rejects.toThrow(/remove .*\.lease/);
});

test.each([undefined, null, 7, {}])("a lease without a time is reported without it: %j", async (since) => {
  leave({ since });
  const error = await store.lease({ file: ref }).catch((cause: EspalierError) => cause);
  expect(error).toMatchObject({ code: "busy", holder: { since: "" } });
  expect((error as Error).message).toContain(`on ${hostname()}; read it only`);
});

test("a lease cut by a power loss, or without a process, has no owner", async () => {
  writeFileSync(leaseFile(), '{"pid":1,"ho');
  await (await store.lease({ file: ref })).release();
  for (const pid of [0, -1, 1.5, null, "1"]) {
    leave({ pid, processStart: null });
    await (await store.lease({ file: ref })).release();
  }
});

test("a foreign file at the path of the lease is not a lease, and links are not followed", async () => {
  const elsewhere = `${ref}.elsewhere`;
  writeFileSync(elsewhere, "somebody's own");
  for (const put of [
    () => execFileSync("sh", ["-c", 'mkfifo "$0"', leaseFile()]),
    () => symlinkSync(elsewhere, leaseFile()),
  ]) {
    put();
    const lease = await store.lease({ file: ref });
    expect(lstatSync(leaseFile()).isFile()).toBe(true);
    await lease.release();
  }
  expect(readFileSync(elsewhere, "utf8")).toBe("somebody's own");
});

test("releasing a lease does not remove the lease of the next holder", async () => {
  const first = await store.lease({ file: ref });
  await first.release();
  const second = await store.lease({ file: ref });
  await first.release();
  await expect(store.lease({ file: ref })).rejects.toMatchObject({ code: "busy" });
  await second.release();
});

test("of several callers that replace a dead owner's lease, exactly one gets it, and leftover files are removed", async () => {
  for (let round = 0; round < 20; round += 1) {
    leave({ processStart: "1" });
    writeFileSync(`${leaseFile()}-0123456789ab`, JSON.stringify({ ...own, processStart: "1" }));
    const asked = await Promise.allSettled(Array.from({ length: 5 }, () => store.lease({ file: ref })));
    const won = asked.filter((each) => each.status === "fulfilled");
    expect(won.length).toBe(1);
    for (const each of asked) if (each.status === "rejected") expect(each.reason.code).toBe("busy");
    await won[0]!.value.release();
    const left = readdirSync(join(ref, "..")).filter((name) => name.includes(`s${made}.jsonl.lease`));
    expect(left).toEqual([]);
  }
});

test("no file is created next to a file that is not a session", async () => {
  await expect(store.lease({ file: join(home, "nothing.jsonl") })).rejects.toMatchObject({
    code: "not-found",
  });
  expect(existsSync(join(home, "nothing.jsonl.lease"))).toBe(false);
});

/** File calls of which one fails, the `at`-th from now on; or all of that name from there on. */
class FailingCalls {
  at = 0;
  isLasting = false;
  failed = "";
  code = "EIO";
  readonly calls = new Proxy(nodeFileCalls, {
    get:
      (target, name: keyof FileCalls) =>
      (...args: never[]) => {
        const call = target[name] as (...args: never[]) => unknown;
        // Nothing of the system's that could fail.
        if (name === "randomName") return call(...args);
        this.at -= 1;
        const isNext = this.at === 0 || (this.isLasting && name === this.failed);
        if (!isNext) return call(...args);
        this.failed = name;
        // A descriptor is gone after its close, whatever that says.
        if (name === "closeSync") call(...args);
        throw Object.assign(new Error(this.code), { code: this.code });
      },
  });
}

describe("a failing call while a lease is taken or released", () => {
  const beside = () => readdirSync(join(ref, "..")).filter((name) => name.includes(`s${made}.jsonl.`));
  const isFree = async () => (await store.lease({ file: ref })).release();

  test.each(["EINTR", "EIO", "EMFILE", "ENOSPC", "EACCES", "ESTALE"])("once, at %s", async (code) => {
    const failing = new FailingCalls();
    failing.code = code;
    const own = fileStore({ home, calls: failing.calls });
    let tried = 0;
    for (let at = 1; ; at += 1, tried += 1) {
      failing.failed = "";
      failing.at = at;
      const taken = await own.lease({ file: ref }).catch((error: unknown) => error);
      if (taken instanceof Error) expect(taken).toMatchObject({ name: "EspalierError" });
      else await (taken as SessionLease).release();
      if (code === "EINTR") expect(taken).not.toBeInstanceOf(Error);
      if (failing.failed === "") break;
      expect(beside(), `${failing.failed}, call ${at}`).toEqual([]);
      await isFree();
    }
    expect(tried).toBeGreaterThan(15);
  });

  test("at every release: the lease counts as free, and the error has a code", async () => {
    for (const name of ["lstatSync", "unlinkSync"]) {
      const failing = new FailingCalls();
      const own = fileStore({ home, calls: failing.calls });
      const lease = await own.lease({ file: ref });
      failing.isLasting = true;
      failing.failed = name;
      const refusal = await lease.release().catch((error: unknown) => error);
      // What can be opened is emptied, and free for everybody; what cannot be looked at is free for us.
      expect(refusal).toBe(undefined);
      expect(readFileSync(leaseFile(), "utf8")).toBe("");
      await isFree();
      expect(beside()).toEqual([]);
    }
  });

  test("when neither removing nor emptying works, this process can take the lease again", async () => {
    const failing = new FailingCalls();
    const own = fileStore({
      home,
      calls: {
        ...nodeFileCalls,
        unlinkSync: (path) => failing.calls.unlinkSync(path),
        ftruncateSync: (fd, length) => failing.calls.unlinkSync(`${fd}${length}`),
      },
    });
    const lease = await own.lease({ file: ref });
    failing.isLasting = true;
    failing.failed = "unlinkSync";
    await expect(lease.release()).rejects.toMatchObject({ code: "write-failed" });
    expect(existsSync(leaseFile())).toBe(true);
    await isFree();
    expect(beside()).toEqual([]);
  });
});

test.each(["files", "memory"])(
  "a clock that is set back does not prolong the wait for a lease in %s",
  async (where) => {
    const timestamp = "2026-01-01T00:00:00.000Z";
    const other = where === "files" ? store : memoryStore();
    const header = { type: "session" as const, version: 3, id: `clock-${where}`, timestamp, cwd: "/" };
    const { ref: file } = await other.create(header);
    const lease = await other.lease({ file });
    const now = Date.now();
    const clock = vi
      .spyOn(Date, "now")
      .mockReturnValueOnce(now)
      .mockReturnValue(now - 7_200_000);
    try {
      await expect(other.lease({ file }, { waitMs: 50 })).rejects.toMatchObject({ code: "busy" });
    } finally {
      clock.mockRestore();
    }
    await lease.release();
  },
);
