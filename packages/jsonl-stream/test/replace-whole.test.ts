import {
  appendFileSync,
  chmodSync,
  linkSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { dirname } from "node:path";
import { type FileCalls, nodeFileCalls, replaceWhole } from "@espalier/jsonl-stream/node";
import { expect, test } from "vitest";
import { failure } from "./failure.ts";
import { failures, refuse } from "./file-failures.ts";
import { temporaryFolder } from "./temporary-folder.ts";

const chunks = (...texts: string[]): Uint8Array[] => texts.map((text) => new TextEncoder().encode(text));
const text = (file: string): string => readFileSync(file, "utf8");
const beside = (file: string): string[] => readdirSync(dirname(file)).sort();

const { path } = temporaryFolder();

/** Size of the original, in bytes. */
const expectedSize = 4;

/** A file `session.jsonl` in a folder of its own. */
function original(): { name: string; keepAs: string } {
  const folder = path();
  mkdirSync(folder);
  const name = `${folder}/session.jsonl`;
  writeFileSync(name, "old\n");
  return { name, keepAs: `${name}.v1` };
}

test("the original stays, as the same file under its other name", () => {
  const { name, keepAs } = original();
  const { ino } = statSync(name);
  chmodSync(name, 0o640);
  replaceWhole(name, chunks("new", "\n"), { keepAs, expectedSize });
  expect([text(name), text(keepAs), statSync(keepAs).ino]).toEqual(["new\n", "old\n", ino]);
  expect(statSync(name).mode & 0o777).toBe(0o640);
  expect(beside(name)).toEqual(["session.jsonl", "session.jsonl.v1"]);
});

test.each([...failures, ["renaming", () => ({ renameSync: refuse("EIO") })] as const])(
  "when %s fails, the original keeps its name, and a second try succeeds",
  (_name, broken) => {
    const { name, keepAs } = original();
    const run = (calls: Partial<FileCalls>): void =>
      replaceWhole(name, chunks("new\n"), { keepAs, expectedSize, calls: { ...nodeFileCalls, ...calls } });
    expect(["write-failed", "short-write"]).toContain(failure(() => run(broken())).code);
    expect(text(name)).toBe("old\n");
    expect(beside(name).filter((file) => !file.startsWith("session.jsonl"))).toEqual([]);
    expect(beside(name).filter((file) => file.endsWith(".tmp"))).toEqual([]);
    run({});
    expect([text(name), text(keepAs)]).toEqual(["new\n", "old\n"]);
  },
);

test("a line appended in the meantime is not lost", () => {
  const { name, keepAs } = original();
  const source = function* (): Generator<Uint8Array> {
    yield* chunks("new\n");
    appendFileSync(name, "late\n");
  };
  expect(failure(() => replaceWhole(name, source(), { keepAs, expectedSize })).code).toBe("changed");
  expect(text(name)).toBe("old\nlate\n");
});

test("of two simultaneous replacements one succeeds, and the original stays", () => {
  const { name, keepAs } = original();
  const calls: FileCalls = {
    ...nodeFileCalls,
    linkSync(existing, other) {
      nodeFileCalls.linkSync(existing, other);
      replaceWhole(name, chunks("his\n"), { keepAs, expectedSize });
    },
  };
  expect(failure(() => replaceWhole(name, chunks("ours\n"), { keepAs, expectedSize, calls })).code).toBe(
    "changed",
  );
  expect([text(name), text(keepAs)]).toEqual(["his\n", "old\n"]);
  expect(beside(name)).toEqual(["session.jsonl", "session.jsonl.v1"]);
});

test("the leftover of an interrupted attempt with the same bytes counts as the original", () => {
  const { name, keepAs } = original();
  writeFileSync(keepAs, "old\n");
  replaceWhole(name, chunks("new\n"), { keepAs, expectedSize });
  expect([text(name), text(keepAs)]).toEqual(["new\n", "old\n"]);
});

test("a disk that returns other bytes than written does not replace the original", () => {
  const { name, keepAs } = original();
  const calls: FileCalls = {
    ...nodeFileCalls,
    writeSync(fd, bytes, offset, length, position) {
      return nodeFileCalls.writeSync(fd, Buffer.alloc(bytes.length), offset, length, position);
    },
  };
  const run = () => replaceWhole(name, chunks("new\n"), { keepAs, expectedSize, calls });
  expect(failure(run)).toMatchObject({ code: "write-failed" });
  expect([text(name), beside(name)]).toEqual(["old\n", ["session.jsonl"]]);
});

test("a different file under the name for the original is not changed", () => {
  const { name, keepAs } = original();
  writeFileSync(keepAs, "his\n");
  expect(failure(() => replaceWhole(name, chunks("new\n"), { keepAs, expectedSize })).code).toBe("exists");
  expect([text(name), text(keepAs)]).toEqual(["old\n", "his\n"]);
});

test("the original may already have its other name", () => {
  const { name, keepAs } = original();
  linkSync(name, keepAs);
  replaceWhole(name, chunks("new\n"), { keepAs, expectedSize });
  expect([text(name), text(keepAs)]).toEqual(["new\n", "old\n"]);
});

test("without hard links the original is copied, and a failed copy is removed", () => {
  const { name, keepAs } = original();
  const calls: FileCalls = { ...nodeFileCalls, linkSync: refuse("EPERM") };
  const failing: FileCalls = {
    ...calls,
    renameSync: (from, to) => (to === name ? refuse("EIO")() : nodeFileCalls.renameSync(from, to)),
  };
  expect(
    failure(() => replaceWhole(name, chunks("new\n"), { keepAs, expectedSize, calls: failing })).code,
  ).toBe("write-failed");
  expect(beside(name)).toEqual(["session.jsonl"]);
  replaceWhole(name, chunks("new\n"), { keepAs, expectedSize, calls });
  expect([text(name), text(keepAs)]).toEqual(["new\n", "old\n"]);
  expect(beside(name)).toEqual(["session.jsonl", "session.jsonl.v1"]);
});

test("a file of another kind or user is refused", () => {
  const { name, keepAs } = original();
  symlinkSync(name, `${name}.link`);
  expect(failure(() => replaceWhole(`${name}.link`, chunks("x\n"), { keepAs, expectedSize })).code).toBe(
    "not-a-file",
  );
  expect(failure(() => replaceWhole(`${name}.none`, chunks("x\n"), { keepAs, expectedSize })).code).toBe(
    "not-found",
  );
  expect(failure(() => replaceWhole(dirname(name), chunks("x\n"), { keepAs, expectedSize })).code).toBe(
    "not-a-file",
  );
});
