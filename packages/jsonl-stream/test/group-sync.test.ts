import { closeSync, fstatSync, openSync } from "node:fs";
import { encodeLines } from "@espalier/jsonl-stream";
import { type AppendFile, type FileCalls, nodeFileCalls, openAppendFile } from "@espalier/jsonl-stream/node";
import { expect, test } from "vitest";
import { existing, temporaryFolder } from "./temporary-folder.ts";

const { path } = temporaryFolder();

/** A file whose syncs end when the test says so. */
function slowFile(): { file: AppendFile; begun: () => number; end: (error?: Error) => void } {
  const open: { resolve: () => void; reject: (error: Error) => void }[] = [];
  let begun = 0;
  const calls: FileCalls = {
    ...nodeFileCalls,
    fdatasync: () =>
      new Promise((resolve, reject) => {
        begun += 1;
        open.push({ resolve, reject });
      }),
  };
  const file = openAppendFile(existing(path()), { mode: "write", calls });
  return {
    file,
    begun: () => begun,
    end: (error) => {
      const sync = open.shift()!;
      if (error) sync.reject(error);
      else sync.resolve();
    },
  };
}

const turn = () => new Promise((resolve) => setTimeout(resolve, 5));

test("all callers in one turn share one sync, and later callers wait for the next", async () => {
  const { file, begun, end } = slowFile();
  const done: string[] = [];
  const append = (name: string) => {
    file.append(encodeLines([name]));
    return file.synced().then(() => done.push(name));
  };
  const first = [append("a"), append("b"), append("c")];
  await turn();
  expect(begun()).toBe(1);
  const second = [append("d"), append("e")];
  await turn();
  expect(begun()).toBe(1);
  end();
  await Promise.all(first);
  expect(done).toEqual(["a", "b", "c"]);
  await turn();
  expect(begun()).toBe(2);
  end();
  await Promise.all(second);
  expect(done).toEqual(["a", "b", "c", "d", "e"]);
  file.close();
});

test("a failed sync on another thread is final for all waiting and later callers", async () => {
  const { file, end } = slowFile();
  file.append(encodeLines(["a"]));
  const waiting = [file.synced(), file.synced()];
  await turn();
  const later = file.synced();
  end(Object.assign(new Error("EIO"), { code: "EIO" }));
  for (const each of [...waiting, later]) await expect(each).rejects.toMatchObject({ code: "sync-failed" });
  expect(() => file.append(encodeLines(["b"]))).toThrow(/could not be synced/);
  await expect(file.synced()).rejects.toMatchObject({ code: "sync-failed" });
  file.close();
});

test("a sync that a signal interrupted is repeated", async () => {
  let count = 0;
  const calls: FileCalls = {
    ...nodeFileCalls,
    fdatasync(fd) {
      count += 1;
      if (count < 3) return Promise.reject(Object.assign(new Error("EINTR"), { code: "EINTR" }));
      return nodeFileCalls.fdatasync(fd);
    },
  };
  const file = openAppendFile(existing(path()), { mode: "write", calls });
  file.append(encodeLines(["a"]));
  await file.synced();
  expect(count).toBe(3);
  file.close();
});

test("closing keeps the descriptor for a running sync, and no longer", async () => {
  let syncing = -1;
  const calls: FileCalls = {
    ...nodeFileCalls,
    fdatasync(fd) {
      syncing = fd;
      // Throws when the number belongs to nobody, and is another file's when it was given away.
      fstatSync(fd);
      return nodeFileCalls.fdatasync(fd);
    },
  };
  const file = openAppendFile(existing(path()), { mode: "write", calls });
  file.append(encodeLines(["a"]));
  const waiting = file.synced();
  file.close();
  await waiting;
  const next = openSync(path(), "a");
  expect(next).toBe(syncing);
  closeSync(next);
  expect(() => file.append(encodeLines(["b"]))).toThrow(/was closed/);
  await expect(file.synced()).rejects.toMatchObject({ code: "closed" });
});

test("nothing is synced for a file opened for reading", async () => {
  const name = path();
  openAppendFile(existing(name), { mode: "write" }).close();
  const file = openAppendFile(name, { mode: "read" });
  await expect(file.synced()).rejects.toMatchObject({ code: "read-only" });
  file.close();
});
