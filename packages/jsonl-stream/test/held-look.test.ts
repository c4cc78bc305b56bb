import { appendFileSync, readFileSync, renameSync, truncateSync, writeFileSync } from "node:fs";
import { encodeLines } from "@espalier/jsonl-stream";
import { type AppendFile, encodeBriefly, nodeFileCalls, openAppendFile } from "@espalier/jsonl-stream/node";
import fc from "fast-check";
import { afterEach, describe, expect, test, vi } from "vitest";
import { failure } from "./failure.ts";
import { temporaryFolder } from "./temporary-folder.ts";

const { path } = temporaryFolder();
afterEach(() => vi.restoreAllMocks());

/** A file with one line, just looked at, and a clock that moves only when it is told to. */
function opened() {
  let now = 1_000;
  vi.spyOn(performance, "now").mockImplementation(() => now);
  let looks = 0;
  const calls = {
    ...nodeFileCalls,
    lstatSync(name: string) {
      looks += 1;
      return nodeFileCalls.lstatSync(name);
    },
  };
  const name = path();
  const file: AppendFile = openAppendFile(name, { mode: "write", create: true, calls });
  const append = (line: string) => file.append(encodeLines([line]));
  append("first");
  looks = 0;
  return { name, file, append, looks: () => looks, pass: (ms: number) => (now += ms) };
}

describe("who stands at a path is asked once a millisecond", () => {
  test("however many lines are appended meanwhile", () => {
    const { file, append, looks, pass } = opened();
    for (let n = 0; n < 50; n++) append(`line ${n}`);
    expect(looks()).toBe(0);
    pass(1);
    for (let n = 0; n < 50; n++) append(`line ${n}`);
    expect(looks()).toBe(1);
    file.takeIn();
    expect(looks()).toBe(2);
    file.close();
  });

  test("what others appended meanwhile is seen all the same, and what they tore is not glued to", () => {
    const { name, file, append } = opened();
    appendFileSync(name, "rival\n");
    expect(append("own")).toEqual({ offset: 12, length: 4, from: 6, to: 16 });
    appendFileSync(name, '{"to');
    append("again");
    expect(readFileSync(name, "utf8")).toBe('first\nrival\nown\n{"to\nagain\n');
    expect(file.size).toBe(readFileSync(name).length);
    file.close();
  });

  test.each([0, 3, 6])("a file that was shortened to %d bytes meanwhile is not written to", (size) => {
    const { name, file, append } = opened();
    append("second");
    append("third");
    truncateSync(name, size);
    expect(failure(() => append("fourth")).code).toBe("shrunk");
    expect(failure(() => append("fifth")).code).toBe("shrunk");
    expect(readFileSync(name)).toHaveLength(size);
    file.close();
  });

  test("a file that was rewritten meanwhile is not written to, even where it has as many bytes as before", () => {
    for (const text of ["something else altogether\n", "worst\n", "x\n"]) {
      const { name, file, append } = opened();
      writeFileSync(name, text);
      expect(["changed", "shrunk"]).toContain(failure(() => append("second")).code);
      expect(readFileSync(name, "utf8")).toBe(text);
      file.close();
    }
  });

  test("a file that was moved meanwhile gets what was acknowledged, and a millisecond later nothing is", () => {
    const { name, file, append, pass } = opened();
    renameSync(name, `${name}.moved`);
    append("second");
    pass(1);
    expect(failure(() => append("third")).code).toBe("removed");
    writeFileSync(name, "first\n");
    expect(failure(() => append("third")).code).toBe("changed");
    expect(readFileSync(`${name}.moved`, "utf8")).toBe("first\nsecond\n");
    expect(readFileSync(name, "utf8")).toBe("first\n");
    file.close();
  });

  test("and behind a write that failed", () => {
    const name = path();
    let full = false;
    const file = openAppendFile(name, {
      mode: "write",
      create: true,
      calls: {
        ...nodeFileCalls,
        writeSync: (fd, bytes, offset, length, position) =>
          nodeFileCalls.writeSync(fd, bytes, offset, full ? length >> 1 : length, position),
      },
    });
    vi.spyOn(performance, "now").mockReturnValue(1_000);
    file.append(encodeLines(["one"]));
    full = true;
    expect(failure(() => file.append(encodeLines(["0123456789"]))).code).toBe("short-write");
    full = false;
    file.append(encodeLines(["two"]));
    expect(readFileSync(name, "utf8")).toBe("one\n01234\ntwo\n");
    file.close();
  });
});

describe("lines that are encoded for the moment", () => {
  test("are the bytes that they are otherwise", () => {
    const line = fc.oneof(
      fc.string({ unit: "binary" }),
      fc.integer({ min: 0, max: 90_000 }).map((length) => "é".repeat(length)),
    );
    fc.assert(
      fc.property(fc.array(line), (given) => {
        const lines = given.map((text) => JSON.stringify(text));
        expect(Buffer.compare(encodeBriefly(lines), encodeLines(lines))).toBe(0);
      }),
      { numRuns: 300 },
    );
    expect(failure(() => encodeBriefly(["two\nlines"])).code).toBe("not-json");
  });

  test("leave nothing behind in a file that remembers its end", () => {
    const { name, file, pass } = opened();
    file.append(encodeBriefly(["a line of its own, longer than what is remembered"]));
    encodeBriefly(["another line, which is never written, in the same memory"]);
    appendFileSync(name, "rival\n");
    pass(1);
    expect(file.append(encodeBriefly(["last"]))).toMatchObject({ length: 5 });
    file.close();
  });
});
