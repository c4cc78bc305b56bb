import { execFileSync } from "node:child_process";
import {
  appendFileSync,
  chmodSync,
  existsSync,
  linkSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { createServer } from "node:net";
import { encodeLines } from "@espalier/jsonl-stream";
import {
  createWhole,
  type FileCalls,
  type FileFacts,
  nodeFileCalls,
  openAppendFile,
  openView,
} from "@espalier/jsonl-stream/node";
import { describe, expect, test } from "vitest";
import { failure } from "./failure.ts";
import { existing, temporaryFolder } from "./temporary-folder.ts";

const { path } = temporaryFolder();
const write = (file: string): unknown => openAppendFile(file, { mode: "write" });
const read = (file: string): unknown => openAppendFile(file, { mode: "read" });
const makeFifo = (name: string): unknown => execFileSync("sh", ["-c", 'mkfifo "$0"', name]);
const doors = [write, read, openView];

describe("a path that is not a regular file of the user is refused in one sentence", () => {
  test("a folder", () => {
    mkdirSync(path("folder"));
    for (const open of doors) {
      expect(failure(() => open(path("folder")))).toMatchObject({
        code: "not-a-file",
        message: `${path("folder")} is a folder; name a file in it.`,
      });
    }
  });

  test("a symbolic link, with or without a target", () => {
    writeFileSync(path("target"), "one\n");
    symlinkSync(path("target"), path("link"));
    symlinkSync(path("nowhere"), path("dangling"));
    for (const open of doors) {
      for (const name of ["link", "dangling"]) {
        expect(failure(() => open(path(name))).message).toContain(
          "is a symbolic link, which is not followed",
        );
      }
    }
    expect(existsSync(path("nowhere"))).toBe(false);
  });

  test("a link that replaces the file between check and opening", () => {
    writeFileSync(path("swapped-target"), "secret\n");
    const calls: FileCalls = {
      ...nodeFileCalls,
      openSync(name, flags, mode) {
        rmSync(name);
        symlinkSync(path("swapped-target"), name);
        return nodeFileCalls.openSync(name, flags, mode);
      },
    };
    writeFileSync(path("swapped"), "");
    expect(failure(() => openAppendFile(path("swapped"), { mode: "write", calls })).code).toBe("not-a-file");
    expect(readFileSync(path("swapped-target"), "utf8")).toBe("secret\n");
  });

  test("a FIFO, without waiting for its other end", () => {
    makeFifo(path("fifo"));
    for (const open of doors) expect(failure(() => open(path("fifo"))).message).toContain("is a FIFO");
  });

  test("a FIFO that replaces the file between check and opening", () => {
    const calls: FileCalls = {
      ...nodeFileCalls,
      openSync(name, flags, mode) {
        rmSync(name);
        makeFifo(name);
        return nodeFileCalls.openSync(name, flags, mode);
      },
    };
    for (const mode of ["read", "write"] as const) {
      writeFileSync(path("late-fifo"), "");
      expect(failure(() => openAppendFile(path("late-fifo"), { mode, calls })).code).toBe("not-a-file");
      rmSync(path("late-fifo"));
    }
  });

  test("a socket and a device", async () => {
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(path("socket"), resolve));
    for (const open of doors) {
      expect(failure(() => open(path("socket"))).message).toContain("is a socket");
      expect(failure(() => open("/dev/null")).message).toContain("is a device");
    }
    await new Promise((resolve) => server.close(resolve));
  });

  test("a file of another user is read, but not written", () => {
    const name = path();
    writeFileSync(name, "one\n");
    const foreign = (facts: FileFacts): FileFacts => ({
      dev: facts.dev,
      ino: facts.ino,
      size: facts.size,
      mode: facts.mode,
      mtimeNs: facts.mtimeNs,
      uid: facts.uid + 1n,
    });
    const calls: FileCalls = {
      ...nodeFileCalls,
      fstatSync: (fd) => foreign(nodeFileCalls.fstatSync(fd)),
      lstatSync: (file) => foreign(nodeFileCalls.lstatSync(file)!),
    };
    expect(failure(() => openAppendFile(name, { mode: "write", calls })).code).toBe("not-ours");
    const file = openAppendFile(name, { mode: "read", calls });
    expect(file.view().size).toBe(4);
    file.close();
  });

  test("a missing file", () => {
    expect(failure(() => openAppendFile(path("missing"), { mode: "write" })).code).toBe("not-found");
    expect(failure(() => openAppendFile(path("missing"), { mode: "read" })).code).toBe("not-found");
    expect(failure(() => openView(path("missing"))).code).toBe("not-found");
    expect(failure(() => write(path("missing/file"))).code).toBe("not-found");
    writeFileSync(path("file"), "");
    for (const open of doors) expect(failure(() => open(path("file/file"))).code).toBe("not-found");
    expect(existsSync(path("missing"))).toBe(false);
  });

  test("missing rights are reported with the cure", () => {
    const denied = (code: string): FileCalls => ({
      ...nodeFileCalls,
      openSync() {
        throw Object.assign(new Error(code), { code });
      },
    });
    const name = path();
    writeFileSync(name, "");
    expect(failure(() => openAppendFile(name, { mode: "write", calls: denied("EACCES") })).code).toBe(
      "read-only",
    );
    expect(failure(() => openAppendFile(name, { mode: "write", calls: denied("EROFS") })).code).toBe(
      "read-only",
    );
    expect(failure(() => openView(name, { calls: denied("EACCES") })).code).toBe("unreadable");
    expect(failure(() => openView(name, { calls: denied("EIO") })).code).toBe("unreadable");
  });
});

describe("a file that changed since it was opened is not written to", () => {
  const opened = (): { name: string; append: () => unknown; takeIn: () => unknown } => {
    const name = path();
    const file = openAppendFile(existing(name), { mode: "write" });
    file.append(encodeLines(["one", "two"]));
    return { name, append: () => file.append(encodeLines(["three"])), takeIn: () => file.takeIn() };
  };

  test("if it was removed or renamed", () => {
    const { name, append, takeIn } = opened();
    renameSync(name, `${name}.old`);
    expect(failure(append).code).toBe("removed");
    expect(failure(takeIn).code).toBe("removed");
    expect(readFileSync(`${name}.old`, "utf8")).toBe("one\ntwo\n");
    expect(existsSync(name)).toBe(false);
    renameSync(`${name}.old`, name);
    append();
    expect(readFileSync(name, "utf8")).toBe("one\ntwo\nthree\n");
  });

  test("if it was replaced by another file, even if the old one still exists under another name", () => {
    const { name, append, takeIn } = opened();
    linkSync(name, `${name}.v1`);
    writeFileSync(`${name}.new`, "one\ntwo\n");
    renameSync(`${name}.new`, name);
    expect(failure(append).code).toBe("changed");
    expect(failure(takeIn).code).toBe("changed");
    expect(readFileSync(name, "utf8")).toBe("one\ntwo\n");
    expect(readFileSync(`${name}.v1`, "utf8")).toBe("one\ntwo\n");
  });

  test("if it was shortened", () => {
    const { name, append, takeIn } = opened();
    truncateSync(name, 5);
    expect(failure(append).code).toBe("shrunk");
    expect(failure(takeIn).code).toBe("shrunk");
    expect(readFileSync(name, "utf8")).toBe("one\nt");
  });

  test("if it was rewritten in place", () => {
    const { name, append } = opened();
    writeFileSync(name, "something else altogether");
    expect(failure(append).code).toBe("changed");
    expect(readFileSync(name, "utf8")).toBe("something else altogether");
  });

  test("if it was rewritten in place with other lines, even if one of them has the same end", () => {
    const { name, append } = opened();
    writeFileSync(name, "two\none\nthree\n");
    expect(failure(append).code).toBe("changed");
    expect(readFileSync(name, "utf8")).toBe("two\none\nthree\n");
  });

  test("if it was rewritten in place with as many bytes", async () => {
    const { name, append, takeIn } = opened();
    await new Promise((resolve) => setTimeout(resolve, 20));
    writeFileSync(name, "ONE\ntwo\n");
    expect(failure(append).code).toBe("changed");
    expect(failure(takeIn).code).toBe("changed");
    expect(readFileSync(name, "utf8")).toBe("ONE\ntwo\n");
  });

  test("if it was rewritten in place with as many bytes directly after a sync", async () => {
    const name = path();
    const file = openAppendFile(existing(name), { mode: "write" });
    file.append(encodeLines(["one", "two"]));
    await file.synced();
    await new Promise((resolve) => setTimeout(resolve, 20));
    writeFileSync(name, "ONE\ntwo\n");
    expect(failure(() => file.append(encodeLines(["three"]))).code).toBe("changed");
  });

  test("if it was rewritten in place with the same end and more bytes after it", () => {
    const name = path();
    const lines = Array.from({ length: 40 }, (_, at) => `line ${at} ${"x".repeat(60)}`);
    const file = openAppendFile(existing(name), { mode: "write" });
    file.append(encodeLines(lines));
    file.close();
    for (const place of [0, 21]) {
      writeFileSync(name, encodeLines(lines));
      const opened = openAppendFile(name, { mode: "write" });
      const rewritten = lines.map((line, at) => (at === place ? line.replace("line", "LINE") : line));
      writeFileSync(name, encodeLines([...rewritten, "more"]));
      expect(failure(() => opened.append(encodeLines(["three"]))).code).toBe("changed");
      opened.close();
    }
  });

  test("and one that was only touched counts as unchanged", async () => {
    const { name, append } = opened();
    await new Promise((resolve) => setTimeout(resolve, 20));
    utimesSync(name, new Date(), new Date());
    append();
    expect(readFileSync(name, "utf8")).toBe("one\ntwo\nthree\n");
  });

  test("if its server no longer has it, whichever call reports that", () => {
    for (const call of ["lstatSync", "writeSync", "readSync"] as const) {
      const name = path();
      let isStale = false;
      const calls: FileCalls = {
        ...nodeFileCalls,
        [call]: (...args: never[]) => {
          if (isStale) throw Object.assign(new Error("ESTALE"), { code: "ESTALE" });
          return (nodeFileCalls[call] as (...args: never[]) => unknown)(...args);
        },
      };
      const file = openAppendFile(existing(name), { mode: "write", calls });
      isStale = true;
      expect(failure(() => file.append(encodeLines(["one"]))).code).toBe("removed");
      isStale = false;
      file.close();
    }
  });

  test("if it was opened for reading", () => {
    const { name } = opened();
    const file = openAppendFile(name, { mode: "read" });
    expect(failure(() => file.append(encodeLines(["three"]))).code).toBe("read-only");
    expect(failure(() => file.sync()).code).toBe("read-only");
    file.close();
  });
});

test("a failed close is reported by name, and an interrupted close counts as a close", () => {
  for (const [code, expected] of [
    ["EIO", "write-failed"],
    ["EINTR", undefined],
  ] as const) {
    const calls: FileCalls = {
      ...nodeFileCalls,
      closeSync(fd) {
        nodeFileCalls.closeSync(fd);
        throw Object.assign(new Error(code), { code });
      },
    };
    const name = path();
    const make = () => createWhole(name, [encodeLines(["one"])], { calls });
    if (expected) expect(failure(make).code).toBe(expected);
    else make();
    expect(existsSync(name)).toBe(expected === undefined);
    const file = openAppendFile(existing(path()), { mode: "write", calls });
    if (expected) expect(failure(() => file.close()).code).toBe(expected);
    else file.close();
  }
});

describe("a view of a file", () => {
  test("has the file's content at opening", () => {
    const name = path();
    writeFileSync(name, "0123456789");
    const view = openView(name);
    appendFileSync(name, "more");
    expect(view.size).toBe(10);
    expect(Buffer.from(view.read(8, 100)).toString()).toBe("89");
    expect(view.read(20, 5)).toHaveLength(0);
    const target = new Uint8Array(4);
    expect([view.readInto(8, target), view.readInto(0, target)]).toEqual([2, 4]);
    expect(Buffer.from(target).toString()).toBe("0123");
    view.close();
    view.close();
    expect(failure(() => view.read(0, 1)).code).toBe("closed");
  });

  test("reports that the file was shortened, instead of giving less", () => {
    const name = path();
    writeFileSync(name, "0123456789");
    const view = openView(name);
    truncateSync(name, 5);
    expect(Buffer.from(view.read(0, 5)).toString()).toBe("01234");
    expect(failure(() => view.read(0, 10)).code).toBe("shrunk");
    view.close();
  });
});

test("others lose their rights on a file on request, or it is not opened for writing", () => {
  const file = path("loose.jsonl");
  const rights = () => statSync(file).mode & 0o777;
  const open = (mode: "read" | "write", code?: string) => {
    const fchmodSync = (fd: number, rights: number) => {
      if (code !== undefined) throw Object.assign(new Error(code), { code });
      nodeFileCalls.fchmodSync(fd, rights);
    };
    openAppendFile(file, { mode, tighten: true, calls: { ...nodeFileCalls, fchmodSync } }).close();
  };
  writeFileSync(file, "1\n");
  chmodSync(file, 0o664);
  open("read");
  // A file system that knows no rights.
  open("write", "EPERM");
  expect(rights()).toBe(0o664);
  expect(failure(() => open("write", "EROFS"))).toMatchObject({ code: "read-only" });
  open("write");
  expect(rights()).toBe(0o600);
});
