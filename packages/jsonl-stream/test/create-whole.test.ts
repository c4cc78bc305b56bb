import {
  existsSync,
  fstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { basename, dirname, join } from "node:path";
import { createWhole, createWholeAsync, type FileCalls, nodeFileCalls } from "@espalier/jsonl-stream/node";
import { describe, expect, test } from "vitest";
import { rejection } from "./failure.ts";
import { failures, refuse } from "./file-failures.ts";
import { temporaryFolder } from "./temporary-folder.ts";

const chunks = (...texts: string[]): Uint8Array[] => texts.map((text) => new TextEncoder().encode(text));
const text = (file: string): string => readFileSync(file, "utf8");
const beside = (file: string): string[] => readdirSync(dirname(file)).sort();

const ways: [string, typeof createWholeAsync][] = [
  ["on this thread", async (...given) => createWhole(...given)],
  ["with syncs on other threads", createWholeAsync],
];

describe.each(ways)("creating a whole file %s", (_way, make) => {
  const { path } = temporaryFolder();

  test("writes every chunk, with mode 0600 under any umask, and leaves no other file", async () => {
    const name = path("created.jsonl");
    const mask = process.umask(0);
    try {
      await make(name, chunks("one\n", "", "two\n"));
    } finally {
      process.umask(mask);
    }
    expect(text(name)).toBe("one\ntwo\n");
    expect(statSync(name).mode & 0o777).toBe(0o600);
    expect(statSync(name).nlink).toBe(1);
    expect(beside(name)).toEqual(["created.jsonl"]);
  });

  test("never overwrites a file, or a link without a target", async () => {
    const name = path("taken.jsonl");
    writeFileSync(name, "his\n");
    expect((await rejection(make(name, chunks("ours\n")))).code).toBe("exists");
    expect(text(name)).toBe("his\n");
    symlinkSync(path("nowhere"), path("dangling"));
    expect((await rejection(make(path("dangling"), chunks("ours\n")))).code).toBe("exists");
    expect(existsSync(path("nowhere"))).toBe(false);
    expect(beside(name)).toEqual(["created.jsonl", "dangling", "taken.jsonl"]);
  });

  test("never overwrites on a file system without hard links", async () => {
    const name = path("linkless.jsonl");
    const calls: FileCalls = { ...nodeFileCalls, linkSync: refuse("EPERM") };
    await make(name, chunks("one\n"), { calls });
    expect(text(name)).toBe("one\n");
    expect(statSync(name).mode & 0o777).toBe(0o600);
    expect((await rejection(make(name, chunks("two\n"), { calls }))).code).toBe("exists");
    expect(text(name)).toBe("one\n");
    expect(beside(name)).not.toContainEqual(expect.stringMatching(/tmp$/));
  });

  test("replaces an older file only when asked, whole or not at all", async () => {
    const name = path("older.jsonl");
    writeFileSync(name, "older\n", { mode: 0o644 });
    const renameSync = refuse("EIO");
    const failing = { replaces: true, calls: { ...nodeFileCalls, renameSync } };
    expect((await rejection(make(name, chunks("newer\n"), failing))).code).toBe("write-failed");
    expect(text(name)).toBe("older\n");
    await make(name, chunks("newer\n"), { replaces: true });
    expect(text(name)).toBe("newer\n");
    expect(statSync(name).mode & 0o777).toBe(0o600);
    expect(beside(name)).not.toContainEqual(expect.stringMatching(/tmp$/));
  });

  test("writes everything to a disk that accepts little at a time", async () => {
    const name = path("bits.jsonl");
    const writeSync: FileCalls["writeSync"] = (fd, bytes, offset, length, position) =>
      nodeFileCalls.writeSync(fd, bytes, offset, Math.min(length, 3), position);
    await make(name, chunks("0123456789\n"), { calls: { ...nodeFileCalls, writeSync } });
    expect(text(name)).toBe("0123456789\n");
  });

  test("names a folder that is missing, or is a file", async () => {
    expect((await rejection(make(path("no/such/file"), chunks("x\n")))).code).toBe("not-found");
    writeFileSync(path("a file"), "");
    expect((await rejection(make(path("a file/file"), chunks("x\n")))).code).toBe("not-found");
  });
});

describe.each(ways)("a failure while creating a whole file %s leaves nothing", (_way, make) => {
  const { path } = temporaryFolder();

  test.each(failures)("at %s", async (_name, broken) => {
    const name = path("never.jsonl");
    expect(["write-failed", "short-write"]).toContain(
      (await rejection(make(name, chunks("one\n"), { calls: { ...nodeFileCalls, ...broken() } }))).code,
    );
    expect(beside(name)).toEqual([]);
  });

  test("nor if the bytes cannot be produced", async () => {
    const name = path("never.jsonl");
    const source = function* (): Generator<Uint8Array> {
      yield* chunks("one\n");
      throw new RangeError("no more");
    };
    await expect(make(name, source())).rejects.toThrow(RangeError);
    expect(beside(name)).toEqual([]);
  });

  test("nor without hard links if the last step fails", async () => {
    const name = path("never.jsonl");
    const calls: FileCalls = { ...nodeFileCalls, linkSync: refuse("ENOTSUP"), renameSync: refuse("EIO") };
    expect((await rejection(make(name, chunks("one\n"), { calls }))).code).toBe("write-failed");
    expect(beside(name)).toEqual([]);
  });
});

describe("files created at the same time", () => {
  const { path } = temporaryFolder();

  /** What was done, in its order: `sync <name>` when a sync ends, `link <name>`. */
  function recorded(): { calls: FileCalls; acts: string[] } {
    const acts: string[] = [];
    const names = new Map<number, string>();
    const calls: FileCalls = {
      ...nodeFileCalls,
      openSync(file, ...rest) {
        const fd = nodeFileCalls.openSync(file, ...rest);
        names.set(fd, basename(file).replace(/\.[0-9a-f]{12}\.tmp$/, ""));
        return fd;
      },
      async fsync(fd) {
        const name = names.get(fd);
        await nodeFileCalls.fsync(fd);
        acts.push(`sync ${name}`);
      },
      linkSync(existing, file) {
        nodeFileCalls.linkSync(existing, file);
        acts.push(`link ${basename(file)}`);
      },
    };
    return { calls, acts };
  }

  test("share one sync of their folder, after each file was synced and linked", async () => {
    const folder = path();
    mkdirSync(folder);
    const { calls, acts } = recorded();
    const names = Array.from({ length: 100 }, (_, n) => `made${n}`);
    await Promise.all(
      names.map(async (name) => {
        await createWholeAsync(join(folder, name), chunks("one\n"), { calls });
        expect(acts.at(-1)).toBe(`sync ${basename(folder)}`);
        expect(acts.indexOf(`link ${name}`)).toBeGreaterThan(acts.indexOf(`sync ${name}`));
      }),
    );
    expect(acts.filter((act) => act === `sync ${basename(folder)}`)).toHaveLength(1);
    expect(acts.filter((act) => act.startsWith("sync made"))).toHaveLength(100);
    expect(readdirSync(folder).sort()).toEqual(names.sort());
  });

  test("fail separately", async () => {
    const taken = path("taken.jsonl");
    writeFileSync(taken, "his\n");
    const [refused, made] = await Promise.allSettled([
      createWholeAsync(taken, chunks("ours\n")),
      createWholeAsync(path("made.jsonl"), chunks("ours\n")),
    ]);
    expect(refused).toMatchObject({ status: "rejected", reason: { code: "exists" } });
    expect(made.status).toBe("fulfilled");
    expect(beside(taken)).not.toContainEqual(expect.stringMatching(/tmp$/));
  });

  test("all fail if their folder cannot be synced", async () => {
    const folder = path();
    mkdirSync(folder);
    const calls: FileCalls = {
      ...nodeFileCalls,
      fsync: async (fd) => (fstatSync(fd).isDirectory() ? refuse("EIO")() : nodeFileCalls.fsync(fd)),
    };
    const make = (name: string) => createWholeAsync(join(folder, name), chunks("one\n"), { calls });
    const ends = await Promise.allSettled([make("one"), make("two")]);
    for (const end of ends)
      expect(end).toMatchObject({ status: "rejected", reason: { code: "write-failed" } });
    expect(readdirSync(folder)).toEqual([]);
  });
});
