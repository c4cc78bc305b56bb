import { existsSync, readdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { createWhole, type FileCalls, nodeFileCalls } from "@espalier/jsonl-stream/node";
import { describe, expect, test } from "vitest";
import { failure } from "./failure.ts";
import { failures, refuse } from "./file-failures.ts";
import { temporaryFolder } from "./temporary-folder.ts";

const chunks = (...texts: string[]): Uint8Array[] => texts.map((text) => new TextEncoder().encode(text));
const text = (file: string): string => readFileSync(file, "utf8");
const beside = (file: string): string[] => readdirSync(dirname(file)).sort();

describe("creating a whole file", () => {
  const { path } = temporaryFolder();

  test("writes every chunk, 0600 even where the process masks nothing, and leaves nothing beside it", () => {
    const name = path("created.jsonl");
    const mask = process.umask(0);
    try {
      createWhole(name, chunks("one\n", "", "two\n"));
    } finally {
      process.umask(mask);
    }
    expect(text(name)).toBe("one\ntwo\n");
    expect(statSync(name).mode & 0o777).toBe(0o600);
    expect(statSync(name).nlink).toBe(1);
    expect(beside(name)).toEqual(["created.jsonl"]);
  });

  test("never overwrites: a file, a link to nowhere", () => {
    const name = path("taken.jsonl");
    writeFileSync(name, "his\n");
    expect(failure(() => createWhole(name, chunks("ours\n"))).code).toBe("exists");
    expect(text(name)).toBe("his\n");
    symlinkSync(path("nowhere"), path("dangling"));
    expect(failure(() => createWhole(path("dangling"), chunks("ours\n"))).code).toBe("exists");
    expect(existsSync(path("nowhere"))).toBe(false);
    expect(beside(name)).toEqual(["created.jsonl", "dangling", "taken.jsonl"]);
  });

  test("where there are no hard links it still never overwrites", () => {
    const name = path("linkless.jsonl");
    const calls: FileCalls = { ...nodeFileCalls, linkSync: refuse("EPERM") };
    createWhole(name, chunks("one\n"), { calls });
    expect(text(name)).toBe("one\n");
    expect(statSync(name).mode & 0o777).toBe(0o600);
    expect(failure(() => createWhole(name, chunks("two\n"), { calls })).code).toBe("exists");
    expect(text(name)).toBe("one\n");
    expect(beside(name)).not.toContainEqual(expect.stringMatching(/tmp$/));
  });

  test("a disk that takes a little at a time gets it all", () => {
    const name = path("bits.jsonl");
    const writeSync: FileCalls["writeSync"] = (fd, bytes, offset, length, position) =>
      nodeFileCalls.writeSync(fd, bytes, offset, Math.min(length, 3), position);
    createWhole(name, chunks("0123456789\n"), { calls: { ...nodeFileCalls, writeSync } });
    expect(text(name)).toBe("0123456789\n");
  });

  test("a folder that is missing, or is a file, is named", () => {
    expect(failure(() => createWhole(path("no/such/file"), chunks("x\n"))).code).toBe("not-found");
    writeFileSync(path("a file"), "");
    expect(failure(() => createWhole(path("a file/file"), chunks("x\n"))).code).toBe("not-found");
  });
});

describe("creating a whole file that fails leaves nothing", () => {
  const { path } = temporaryFolder();

  test.each(failures)("at %s", (_name, broken) => {
    const name = path("never.jsonl");
    expect(["write-failed", "short-write"]).toContain(
      failure(() => createWhole(name, chunks("one\n"), { calls: { ...nodeFileCalls, ...broken() } })).code,
    );
    expect(beside(name)).toEqual([]);
  });

  test("nor when the bytes fail to come", () => {
    const name = path("never.jsonl");
    const source = function* (): Generator<Uint8Array> {
      yield* chunks("one\n");
      throw new RangeError("no more");
    };
    expect(() => createWhole(name, source())).toThrow(RangeError);
    expect(beside(name)).toEqual([]);
  });

  test("nor where there are no hard links and the last step fails", () => {
    const name = path("never.jsonl");
    const calls: FileCalls = { ...nodeFileCalls, linkSync: refuse("ENOTSUP"), renameSync: refuse("EIO") };
    expect(failure(() => createWhole(name, chunks("one\n"), { calls })).code).toBe("write-failed");
    expect(beside(name)).toEqual([]);
  });
});
