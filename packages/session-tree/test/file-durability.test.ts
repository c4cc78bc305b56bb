import { fstatSync, mkdtempSync, readFileSync, readlinkSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { type FileCalls, nodeFileCalls } from "@espalier/jsonl-stream/node";
import { custom, message, SessionTree } from "@espalier/session-tree";
import { fileStore } from "@espalier/session-tree/node";
import { afterAll, expect, test } from "vitest";

const home = mkdtempSync(join(tmpdir(), "espalier-"));
afterAll(() => rmSync(home, { recursive: true }));

let made = 0;
const header = () => ({
  type: "session" as const,
  version: 3,
  id: `s${++made}`,
  timestamp: "2026-01-01T00:00:00.000Z",
  cwd: "/garden",
});
const said = (text: string) => message.of({ message: { role: "user", content: text, timestamp: 0 } });

async function sessionWith(calls: Partial<FileCalls>) {
  const store = fileStore({ home, calls: { ...nodeFileCalls, ...calls } });
  return SessionTree.open(await store.create(header()));
}

test("sixteen who append durably at once share one sync", async () => {
  // A disk that takes five milliseconds, as most do that really write.
  let syncs = 0;
  const fdatasync = async () => {
    syncs += 1;
    await new Promise((resolve) => setTimeout(resolve, 5));
  };
  const session = await sessionWith({ fdatasync });
  for (let at = 0; at < 16; at += 1) await session.append(said(`alone ${at}`));
  expect(syncs).toBe(16);
  await Promise.all(Array.from({ length: 16 }, (_, at) => session.append(said(`together ${at}`))));
  expect(syncs).toBe(17);
  expect(session.getBranch().length).toBe(32);
  await session.close();
});

test("what is less precious is acknowledged without a sync, and a later flush syncs it", async () => {
  let syncs = 0;
  const session = await sessionWith({
    fdatasync(fd) {
      syncs += 1;
      return nodeFileCalls.fdatasync(fd);
    },
  });
  await session.append(custom.of({ customType: "test" }));
  expect(syncs).toBe(0);
  await session.append(custom.of({ customType: "test" }), { durability: "fsync" });
  expect(syncs).toBe(1);
  await session.append(said("hello"));
  expect(syncs).toBe(2);
  await session.append(said("hello"), { durability: "flush" });
  expect(syncs).toBe(2);
  await session.flush();
  expect(syncs).toBe(3);
  await session.close();
});

test("a failed sync is final for the opening, and its entries are still in the file", async () => {
  let failing = true;
  const session = await sessionWith({
    fdatasync: (fd) =>
      failing
        ? Promise.reject(Object.assign(new Error("EIO"), { code: "EIO" }))
        : nodeFileCalls.fdatasync(fd),
  });
  await expect(session.append(said("one"))).rejects.toMatchObject({ code: "sync-failed" });
  failing = false;
  await expect(session.append(said("two"))).rejects.toMatchObject({ code: "sync-failed" });
  await session.close();
  const again = await SessionTree.open(await fileStore({ home }).open({ file: session.log.ref }, "write"));
  expect(again.leafId).toBe(session.leafId);
  await again.append(said("two"));
  expect(again.getBranch().length).toBe(2);
  await again.close();
});

test("after a full disk has room again, no acknowledged entry is lost and no lines are joined", async () => {
  let room = Number.POSITIVE_INFINITY;
  const session = await sessionWith({
    writeSync(fd, bytes, offset, length, position) {
      const fits = Math.min(length, room);
      room -= fits;
      if (fits === 0) throw Object.assign(new Error("ENOSPC"), { code: "ENOSPC" });
      return nodeFileCalls.writeSync(fd, bytes, offset, fits, position);
    },
  });
  await session.append(said("before"));
  // Room for a part of the line, for none of it, for all but its end.
  for (const left of [40, 0, 140]) {
    room = left;
    const kept = session.append(said("kept"), { onFailure: "queue" });
    await expect(session.append(said("at once"))).rejects.toThrow(/fitted|written/);
    room = Number.POSITIVE_INFINITY;
    await session.flush();
    await kept;
  }
  const reopened = await SessionTree.open(await fileStore({ home }).open({ file: session.log.ref }, "read"));
  expect(reopened.context).toEqual(session.context);
  expect(reopened.context.messages.map((said) => (said as { content: unknown }).content)).toEqual([
    "before",
    "kept",
    "kept",
    "kept",
  ]);
  await session.close();
});

test("files are readable only by their owner, under any umask", async () => {
  for (const mask of [0, 0o22, 0o77]) {
    const before = process.umask(mask);
    const store = fileStore({ home: join(home, `mask-${mask}`) });
    const session = await SessionTree.open(await store.create(header()));
    const lease = await store.lease({ file: session.log.ref });
    process.umask(before);
    expect(statSync(session.log.ref).mode & 0o777).toBe(0o600);
    expect(statSync(`${session.log.ref}.lease`).mode & 0o777).toBe(0o600);
    for (let folder = join(session.log.ref, ".."); folder !== home; folder = join(folder, ".."))
      expect(statSync(folder).mode & 0o777).toBe(0o700);
    await lease.release();
    await session.close();
    expect(readFileSync(session.log.ref, "utf8").endsWith("\n")).toBe(true);
  }
});

test.skipIf(process.platform !== "linux")(
  "a new session syncs the folders created for it, each in its parent folder",
  async () => {
    const synced = new Set<string>();
    const calls: FileCalls = {
      ...nodeFileCalls,
      fsyncSync(fd) {
        synced.add(readlinkSync(`/proc/self/fd/${fd}`));
        nodeFileCalls.fsyncSync(fd);
      },
      fsync(fd) {
        synced.add(readlinkSync(`/proc/self/fd/${fd}`));
        return nodeFileCalls.fsync(fd);
      },
    };
    const home = join(mkdtempSync(join(tmpdir(), "espalier-")), "deep", "home");
    const timestamp = "2026-01-01T00:00:00.000Z";
    const log = await fileStore({ home, calls }).create({
      type: "session",
      version: 3,
      id: "deep",
      timestamp,
      cwd: "/",
    });
    await log.close();
    const made = [dirname(dirname(home)), dirname(home), home, join(home, "sessions"), dirname(log.ref)];
    for (const folder of made) expect([...synced]).toContain(folder);
    rmSync(dirname(dirname(home)), { recursive: true });
  },
);

test("a session that is being created opens once its name is on disk", async () => {
  const acts: string[] = [];
  let letSync = (): void => undefined;
  const isAllowed = new Promise<void>((resolve) => {
    letSync = resolve;
  });
  let reach = (): void => undefined;
  const isReached = new Promise<void>((resolve) => {
    reach = resolve;
  });
  const calls: FileCalls = {
    ...nodeFileCalls,
    async fsync(fd) {
      if (fstatSync(fd).isDirectory()) {
        reach();
        await isAllowed;
        acts.push("synced");
      }
      return nodeFileCalls.fsync(fd);
    },
  };
  const made = fileStore({ home, calls }).create({ ...header(), id: "slow" });
  await isReached;
  const store = fileStore({ home });
  const opened = store.open({ id: "slow" }, "write").then((log) => {
    acts.push("opened");
    return log.close();
  });
  const leased = store.lease({ id: "slow" }).then((lease) => {
    acts.push("leased");
    return lease.release();
  });
  // Time for an opening that does not wait.
  for (let turn = 0; turn < 20; turn += 1) await new Promise((resolve) => setImmediate(resolve));
  expect(acts).toEqual([]);
  letSync();
  await Promise.all([opened, leased, made.then((log) => log.close())]);
  expect(acts[0]).toBe("synced");
  expect(acts.sort()).toEqual(["leased", "opened", "synced"]);
});
