import { createHash } from "node:crypto";
import {
  lstatSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { lstat, mkdir, rmdir } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileOffloadStorage } from "@espalier/compaction/node";
import { expect, test } from "vitest";

const newFolder = () => join(mkdtempSync(join(tmpdir(), "espalier-")), "session.offloaded");
const mode = (path: string) => (statSync(path).mode & 0o777).toString(8);

test("a text is in a file named by its digest, readable only by the owner under any umask", async () => {
  const before = process.umask(0);
  try {
    const folder = newFolder();
    const path = await fileOffloadStorage(folder).write("a résult\n");
    const digest = createHash("sha256").update("a résult\n").digest("hex");
    expect(path).toBe(join(folder, `${digest}.txt`));
    expect(readFileSync(path, "utf8")).toBe("a résult\n");
    expect([mode(folder), mode(path)]).toEqual(["700", "600"]);
  } finally {
    process.umask(before);
  }
});

test("writing a text again writes nothing, and leaves no temporary file", async () => {
  const folder = newFolder();
  const storage = fileOffloadStorage(folder);
  const path = await storage.write("once");
  utimesSync(path, 1, 1);
  expect(await storage.write("once")).toBe(path);
  expect(statSync(path).mtimeMs).toBe(1_000);
  expect(readdirSync(folder)).toHaveLength(1);
});

test("a text written twice at the same time is in the folder once, and whole", async () => {
  const folder = newFolder();
  const storage = fileOffloadStorage(folder);
  const text = "the same result\n".repeat(100_000);
  const paths = await Promise.all(Array.from({ length: 8 }, () => storage.write(text)));
  expect(new Set(paths)).toEqual(new Set([storage.pathFor(text)]));
  expect(await storage.read(paths[0]!)).toBe(text);
  expect(readdirSync(folder)).toHaveLength(1);
});

test("a truncated file is written again", async () => {
  const storage = fileOffloadStorage(newFolder());
  const path = await storage.write("the whole text");
  writeFileSync(path, "the wh");
  await storage.write("the whole text");
  expect(await storage.read(path)).toBe("the whole text");
});

test("a folder that is removed while it is listed has no files", async () => {
  const folder = newFolder();
  const storage = fileOffloadStorage(folder);
  for (let round = 0; round < 100; round++) {
    await mkdir(folder);
    const removed = lstat(folder).then(() => rmdir(folder));
    expect(await Promise.all([storage.list(), storage.list(), removed])).toEqual([[], [], undefined]);
  }
});

test("only paths in its folder are valid, and nothing else is read", async () => {
  const folder = newFolder();
  const storage = fileOffloadStorage(folder);
  const name = `${"0".repeat(64)}.txt`;
  expect(storage.owns(join(folder, name))).toBe(true);
  for (const path of [
    "/etc/passwd",
    name,
    `${folder}/../${name}`,
    `${folder}/x/${name}`,
    `${folder}/notes.txt`,
  ]) {
    expect(storage.owns(path)).toBe(false);
    expect(await storage.read(path)).toBeUndefined();
  }
});

test("links are not followed, and a file whose content does not match its name does not count", async () => {
  const folder = newFolder();
  const storage = fileOffloadStorage(folder);
  const path = await storage.write("the result");
  const outside = join(folder, "..", "outside.txt");
  for (const text of ["somebody's own", "the result"]) {
    writeFileSync(outside, text);
    rmSync(path);
    symlinkSync(outside, path);
    expect([await storage.has(path), await storage.read(path)]).toEqual([false, undefined]);
    await storage.write("the result");
    expect(lstatSync(path).isSymbolicLink()).toBe(false);
    expect(readFileSync(outside, "utf8")).toBe(text);
  }
  writeFileSync(path, "the tluser");
  expect(await storage.read(path)).toBeUndefined();
  await storage.write("the result");
  expect(await storage.read(path)).toBe("the result");
  // The folder may be a link too.
  const elsewhere = mkdtempSync(join(tmpdir(), "espalier-"));
  const link = join(elsewhere, "link.offloaded");
  symlinkSync(folder, link);
  const linked = fileOffloadStorage(link);
  const there = linked.pathFor("the result");
  expect([await linked.has(there), await linked.read(there), await linked.list()]).toEqual([
    false,
    undefined,
    [],
  ]);
  await expect(linked.write("the result")).rejects.toMatchObject({ code: "no-storage" });
});

test("a missing file is reported as missing", async () => {
  const storage = fileOffloadStorage(newFolder());
  expect(await storage.list()).toEqual([]);
  const path = await storage.write("x");
  expect(await storage.has(path)).toBe(true);
  await storage.remove(path);
  expect([await storage.has(path), await storage.read(path), await storage.list()]).toEqual([
    false,
    undefined,
    [],
  ]);
  await expect(storage.remove(path)).rejects.toThrow(/ENOENT/);
});

test("an old temporary file of a dead process is listed for removal; other files never are", async () => {
  const folder = newFolder();
  const storage = fileOffloadStorage(folder);
  const path = await storage.write("x");
  const draft = `${path}.1.tmp`;
  writeFileSync(draft, "half");
  writeFileSync(join(folder, "notes.txt"), "somebody's own");
  expect(await storage.list()).toEqual([path]);
  utimesSync(draft, 1, 1);
  expect((await storage.list()).sort()).toEqual([path, draft].sort());
});

test("a failed write is an error of the system", async () => {
  const folder = newFolder();
  writeFileSync(folder, "a file where the folder should be");
  await expect(fileOffloadStorage(folder).write("x")).rejects.toThrow(/EEXIST|ENOTDIR/);
});
