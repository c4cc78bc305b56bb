import {
  appendFileSync,
  closeSync,
  openSync,
  readFileSync,
  truncateSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { type ByteView, encodeLines, scanLines } from "@espalier/jsonl-stream";
import { type AppendFile, type FileCalls, nodeFileCalls, openAppendFile } from "@espalier/jsonl-stream/node";
import { describe, expect, test } from "vitest";
import { failure } from "./failure.ts";
import { existing, temporaryFolder } from "./temporary-folder.ts";

const { path } = temporaryFolder();

const contents = (view: ByteView): string[] =>
  [...scanLines(view)].map(({ bytes }) => Buffer.from(bytes).toString());
const write = (file: string, calls?: FileCalls): AppendFile =>
  openAppendFile(existing(file), { mode: "write", ...(calls && { calls }) });

/** File calls in which another writer is always just ahead: `before` runs right before each write. */
const withRival = (before: (attempt: number) => void): FileCalls => {
  let attempt = 0;
  return {
    ...nodeFileCalls,
    writeSync(...call) {
      attempt += 1;
      before(attempt);
      return nodeFileCalls.writeSync(...call);
    },
  };
};

test("lines that could not be read back at first are found on retry, so that memory equals the file", () => {
  const name = path();
  let failing = 0;
  const calls: FileCalls = {
    ...nodeFileCalls,
    readSync(...call) {
      failing -= 1;
      if (failing === 0) throw Object.assign(new Error("EIO"), { code: "EIO" });
      return nodeFileCalls.readSync(...call);
    },
  };
  const file = write(name, calls);
  failing = 1;
  expect(file.append(encodeLines(["one"]))).toMatchObject({ offset: 0, to: 4 });
  expect(readFileSync(name, "utf8")).toBe("one\n");
  file.close();
});

describe("appending", () => {
  test("writes lines one after another and returns their positions", () => {
    const name = path();
    const file = write(name);
    expect(file.append(encodeLines(["one", "two"]))).toEqual({ offset: 0, length: 8, from: 0, to: 8 });
    expect(file.append(encodeLines(["three"]))).toEqual({ offset: 8, length: 6, from: 8, to: 14 });
    expect(file.append(encodeLines(["no newline"]))).toMatchObject({ offset: 14, length: 11 });
    expect(file.append(encodeLines([]))).toEqual({ offset: 25, length: 0, from: 25, to: 25 });
    file.close();
    expect(readFileSync(name, "utf8")).toBe("one\ntwo\nthree\nno newline\n");
  });

  test("leaves a view unchanged while the file grows, and the next view has the new lines", () => {
    const file = write(path());
    file.append(encodeLines(["one"]));
    const before = file.view();
    file.append(encodeLines(["two"]));
    expect(contents(before)).toEqual(["one"]);
    expect(contents(file.view())).toEqual(["one", "two"]);
    expect(Buffer.from(file.view().read(4, 100)).toString()).toBe("two\n");
    file.close();
    expect(failure(() => before.read(0, 1)).code).toBe("closed");
    expect(failure(() => file.append(encodeLines(["three"]))).code).toBe("closed");
    expect(failure(() => file.takeIn()).code).toBe("closed");
  });

  test("starts a new line after a tear at any byte, and loses nothing else", () => {
    const whole = encodeLines(['{"id":"a"}', '{"id":"é"}', '{"id":"c"}']);
    const name = path();
    for (let cut = 0; cut <= whole.length; cut += 1) {
      const torn = whole.subarray(0, cut);
      writeFileSync(name, torn);
      const file = write(name);
      const { offset, length, from, to } = file.append(encodeLines(['{"id":"new"}']));
      const after = readFileSync(name);
      expect(after.subarray(0, cut).equals(torn)).toBe(true);
      const clean = cut === 0 || torn[cut - 1] === 10;
      expect(after.subarray(cut).toString()).toBe(`${clean ? "" : "\n"}{"id":"new"}\n`);
      expect(after.subarray(offset, offset + length).toString()).toBe('{"id":"new"}\n');
      // What is new begins with the torn line, now ended.
      expect([from, to]).toEqual([torn.lastIndexOf(10) + 1, after.length]);
      file.close();
    }
  });

  test("reads the appends of others: whole lines, each once", () => {
    const name = path();
    const file = write(name);
    const reader = openAppendFile(name, { mode: "read" });
    expect(reader.takeIn()).toBeNull();
    file.append(encodeLines(["one"]));
    expect(reader.takeIn()).toEqual({ from: 0, to: 4 });
    expect(reader.takeIn()).toBeNull();
    appendFileSync(name, "foreign\nhalf");
    expect(file.takeIn()).toEqual({ from: 4, to: 12 });
    expect(file.takeIn()).toBeNull();
    appendFileSync(name, " done\n");
    expect(file.append(encodeLines(["two"]))).toEqual({ offset: 22, length: 4, from: 12, to: 26 });
    expect(reader.takeIn()).toEqual({ from: 4, to: 26 });
    expect(contents(reader.view())).toEqual(["one", "foreign", "half done", "two"]);
    file.close();
    reader.close();
  });

  test("reads an unterminated line, and counts it when it is whole", () => {
    const name = path();
    writeFileSync(name, '{"id":"a"}\n{"id":"b"}');
    const file = openAppendFile(name, { mode: "read" });
    expect([...scanLines(file.view())].map((line) => line.terminated)).toEqual([true, false]);
    appendFileSync(name, "\n");
    expect(file.takeIn()).toEqual({ from: 11, to: 22 });
    file.close();
  });

  test("counts a torn line that was cut off and written again", () => {
    const name = path();
    writeFileSync(name, "one\ntorn and long");
    const file = write(name);
    truncateSync(name, 4);
    appendFileSync(name, "two\n");
    expect(file.takeIn()).toEqual({ from: 4, to: 8 });
    file.close();
  });

  test("finds the whole lines at the end of a long file at once, also after a long torn line", () => {
    const name = path();
    writeFileSync(name, `${"x".repeat(300_000)}\n${"y".repeat(300_000)}`);
    const file = write(name);
    appendFileSync(name, `${"y".repeat(200_000)}\nz`);
    expect(file.takeIn()).toEqual({ from: 300_001, to: 800_002 });
    file.close();
  });
});

describe("appending beside another writer", () => {
  test("counts a line of the other writer before the own line", () => {
    const name = path();
    const file = write(
      name,
      withRival(() => appendFileSync(name, "rival\n")),
    );
    expect(file.append(encodeLines(["own"]))).toEqual({ offset: 6, length: 4, from: 0, to: 10 });
    expect(contents(file.view())).toEqual(["rival", "own"]);
    file.close();
  });

  test("writes an own line again after a newline if it was joined to a torn one", () => {
    const name = path();
    const file = write(
      name,
      withRival((attempt) => attempt === 1 && appendFileSync(name, '{"to')),
    );
    const { offset, from, to } = file.append(encodeLines(["own", "too"]));
    expect(readFileSync(name, "utf8")).toBe('{"toown\ntoo\n\nown\ntoo\n');
    expect({ offset, from, to }).toEqual({ offset: 13, from: 0, to: 21 });
    file.close();
  });

  test("keeps a line that the other writer was writing whole, at the cost of a blank line", () => {
    const name = path();
    writeFileSync(name, "one\nhal");
    const file = write(
      name,
      withRival(() => appendFileSync(name, "f\n")),
    );
    const { offset, from, to } = file.append(encodeLines(["own"]));
    expect(readFileSync(name, "utf8")).toBe("one\nhalf\n\nown\n");
    expect({ offset, from, to }).toEqual({ offset: 10, from: 4, to: 14 });
    file.close();
  });

  test("does not mistake another writer's line with the same beginning for its own", () => {
    const name = path();
    const file = write(
      name,
      withRival(() => appendFileSync(name, "own\nother\nown and more\n")),
    );
    expect(file.append(encodeLines(["own", "second"])).offset).toBe(23);
    file.close();
  });

  test("ends with an error after five writes if the other writer tears every line", () => {
    const name = path();
    let writes = 0;
    const file = write(name, {
      ...nodeFileCalls,
      writeSync(fd, bytes, offset, length, position) {
        writes += 1;
        const middle = Math.floor(length / 2);
        const first = nodeFileCalls.writeSync(fd, bytes, offset, middle, position);
        appendFileSync(name, "#");
        return first + nodeFileCalls.writeSync(fd, bytes, offset + middle, length - middle, position);
      },
    });
    expect(failure(() => file.append(encodeLines(["own"]))).code).toBe("write-failed");
    expect(writes).toBe(5);
    file.close();
  });

  test("compares a long append to its last byte", () => {
    const name = path();
    const line = "x".repeat(1_000_000);
    let corrupt = true;
    const file = write(name, {
      ...nodeFileCalls,
      writeSync(fd, bytes, offset, length, position) {
        const written = new Uint8Array(bytes);
        if (corrupt) written[written.length - 2] = 121;
        corrupt = false;
        return nodeFileCalls.writeSync(fd, written, offset, length, position);
      },
    });
    expect(file.append(encodeLines([line])).offset).toBe(line.length + 2);
    file.close();
  });
});

describe("writes that fail", () => {
  const half: FileCalls["writeSync"] = (fd, bytes, offset, length, position) =>
    nodeFileCalls.writeSync(fd, bytes, offset, Math.floor(length / 2), position);

  test("a short write is an error, and the next line is not joined to it", () => {
    const name = path();
    let full = true;
    const file = write(name, {
      ...nodeFileCalls,
      writeSync: (...call) => (full ? half : nodeFileCalls.writeSync)(...call),
    });
    expect(failure(() => file.append(encodeLines(["0123456789"]))).code).toBe("short-write");
    full = false;
    expect(file.append(encodeLines(["again"]))).toEqual({ offset: 6, length: 6, from: 0, to: 12 });
    expect(readFileSync(name, "utf8")).toBe("01234\nagain\n");
    file.close();
  });

  test("an error of the system is the cause of the thrown error, and nothing counts as appended", () => {
    const name = path();
    const noSpace = Object.assign(new Error("ENOSPC"), { code: "ENOSPC" });
    let full = true;
    const file = write(name, {
      ...nodeFileCalls,
      writeSync(...call) {
        if (full) throw noSpace;
        return nodeFileCalls.writeSync(...call);
      },
    });
    const error = failure(() => file.append(encodeLines(["one"])));
    expect(error).toMatchObject({ code: "write-failed", cause: noSpace });
    expect(error.message).toContain("ENOSPC");
    full = false;
    expect(file.append(encodeLines(["one"])).offset).toBe(0);
    file.close();
  });

  test("interrupted calls are repeated", () => {
    const name = path();
    let interruptions = 0;
    const interrupted =
      <A extends unknown[], R>(call: (...values: A) => R) =>
      (...values: A): R => {
        interruptions += 1;
        if (interruptions % 3 !== 0) throw Object.assign(new Error("EINTR"), { code: "EINTR" });
        return call(...values);
      };
    const file = write(name, {
      ...nodeFileCalls,
      writeSync: interrupted(nodeFileCalls.writeSync),
      readSync: interrupted(nodeFileCalls.readSync),
    });
    file.append(encodeLines(["one"]));
    file.append(encodeLines(["two"]));
    expect(contents(file.view())).toEqual(["one", "two"]);
    expect(interruptions).toBeGreaterThan(8);
    file.close();
  });

  test("short reads are continued", () => {
    const name = path();
    writeFileSync(name, "one\ntwo\n");
    const file = write(name, {
      ...nodeFileCalls,
      readSync: (fd, target, offset, length, position) =>
        nodeFileCalls.readSync(fd, target, offset, Math.min(length, 3), position),
    });
    expect(file.append(encodeLines(["three, which is long"])).offset).toBe(8);
    expect(contents(file.view())).toEqual(["one", "two", "three, which is long"]);
    file.close();
  });
});

describe("syncing", () => {
  test("fails permanently after one failure, until the file is reopened", () => {
    const name = path();
    let failing = true;
    const calls: FileCalls = {
      ...nodeFileCalls,
      fdatasyncSync(fd) {
        if (failing) throw Object.assign(new Error("EIO"), { code: "EIO" });
        nodeFileCalls.fdatasyncSync(fd);
      },
    };
    const file = write(name, calls);
    file.append(encodeLines(["one"]));
    expect(failure(() => file.sync()).code).toBe("sync-failed");
    failing = false;
    expect(failure(() => file.sync()).code).toBe("sync-failed");
    expect(failure(() => file.append(encodeLines(["two"]))).code).toBe("sync-failed");
    expect(contents(file.view())).toEqual(["one"]);
    file.close();
    const again = write(name, calls);
    again.append(encodeLines(["two"]));
    again.sync();
    again.close();
    expect(readFileSync(name, "utf8")).toBe("one\ntwo\n");
  });
});

test("a descriptor that another process opened earlier still sees its lines", () => {
  const name = path();
  const rival = openSync(name, "a");
  const file = write(name);
  writeSync(rival, "rival\n");
  expect(file.append(encodeLines(["own"])).offset).toBe(6);
  closeSync(rival);
  file.close();
});
