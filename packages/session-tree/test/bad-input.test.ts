import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { EspalierError } from "@espalier/jsonl-stream";
import { contextEdit, label, leaf, message, type SessionListing, SessionTree } from "@espalier/session-tree";
import { FileLog, fileStore } from "@espalier/session-tree/node";
import { growEntries } from "@espalier/session-tree/testing";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { HEADER } from "./arbitrary-log.ts";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "espalier-"));
});
afterEach(() => rmSync(folder, { recursive: true }));

const hello = message.of({ message: { role: "user", content: "hello", timestamp: 1 } });
const linesOf = (text: string) => growEntries(text).map((entry) => JSON.stringify(entry));

/** A file with this content. */
function file(content: string | Uint8Array, name = "session.jsonl"): string {
  const path = join(folder, name);
  writeFileSync(path, content);
  return path;
}

const session = (path: string, mode: "read" | "write" = "write") =>
  SessionTree.open(FileLog.open(path, mode));

/** Every file below the folder with its bytes, to see that nothing changes. */
function everything(): Record<string, string> {
  const found = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((each) => each.isFile());
  return Object.fromEntries(
    found.map((each) => [
      join(each.parentPath, each.name),
      readFileSync(join(each.parentPath, each.name), "latin1"),
    ]),
  );
}

/** What an act fails with; one sentence that ends like one, and nothing on disk has changed. */
async function refusal(act: () => unknown): Promise<EspalierError> {
  const before = everything();
  const error = await (async () => act())().then(
    () => undefined,
    (reason: unknown) => reason,
  );
  expect(error).toBeInstanceOf(EspalierError);
  expect((error as Error).message).toMatch(/^[A-Z/].*[.?]$/);
  expect(everything()).toEqual(before);
  return error as EspalierError;
}

describe("a file that is not a session", () => {
  test.each(["read", "write"] as const)("is refused in one sentence (mode %s)", async (mode) => {
    const nothing = join(folder, "nothing.jsonl");
    symlinkSync(file(HEADER, "real.jsonl"), join(folder, "link.jsonl"));
    const cases: [string, string][] = [
      [nothing, "not-found"],
      [join(nothing, "deeper.jsonl"), "not-found"],
      [file("", "empty.jsonl"), "empty-file"],
      [file("dear diary,\ntoday I\n", "text.jsonl"), "not-a-session"],
      [file(Uint8Array.of(0, 255, 10, 0, 200), "bytes.jsonl"), "not-a-session"],
      [file("\n\n \n", "blank.jsonl"), "not-a-session"],
      [file('{"a":1}\n[]\n5\nnull\n', "json.jsonl"), "not-a-session"],
      [folder, "not-a-file"],
      [join(folder, "link.jsonl"), "not-a-file"],
    ];
    for (const [path, code] of cases) expect((await refusal(() => session(path, mode))).code).toBe(code);
  });

  test("is reported as unreadable without the right to read it", async () => {
    const path = file(`${HEADER}\n`);
    chmodSync(folder, 0o755);
    chmodSync(path, 0o000);
    // Root may read everything, so the test looks as nobody.
    const isRoot = process.geteuid?.() === 0;
    if (isRoot) process.seteuid?.(65_534);
    try {
      expect(() => FileLog.open(path, "read")).toThrow(expect.objectContaining({ code: "unreadable" }));
    } finally {
      if (isRoot) process.seteuid?.(0);
    }
  });

  test("is reported as unreadable when reading fails for another reason", async () => {
    // A folder that is a file: the system refuses to look, whoever asks.
    const path = join(file("x", "file"), "session.jsonl");
    expect(["unreadable", "not-found"]).toContain((await refusal(() => session(path))).code);
    expect((await refusal(() => session(join(folder, "x".repeat(300))))).code).toBe("unreadable");
  });

  test("is not listed, leased or removed by a store", async () => {
    const store = fileStore({ home: folder, folders: [folder] });
    const others = [
      file("dear diary\n", "a.jsonl"),
      file("", "b.jsonl"),
      file('{"type":"user","uuid":"u"}\n', "c.jsonl"),
      file("{}", "notes.txt"),
    ];
    for await (const listing of store.list()) expect(listing).toBe("nothing");
    for (const path of others) {
      expect(["not-a-session", "empty-file"]).toContain(
        (await refusal(() => store.delete({ file: path }))).code,
      );
    }
    expect((await refusal(() => store.delete({ file: folder }))).code).toBe("not-a-file");
    expect((await refusal(() => store.delete(""))).code).toBe("not-found");
    expect((await refusal(() => store.open("", "read"))).code).toBe("not-found");
  });
});

describe("a session opened for reading", () => {
  test("without a header opens, and is not written", async () => {
    const path = file(`${linesOf("u1 > a1 > u2").join("\n")}\n`);
    const opened = await session(path);
    expect(opened.leafId).toBe("u2");
    expect(opened.context.messages).toHaveLength(3);
    expect(opened.tree.issues.map(({ kind, line, offset }) => ({ kind, line, offset }))).toEqual([
      { kind: "no-header", line: 1, offset: 0 },
    ]);
    expect((await refusal(() => opened.append(hello))).code).toBe("no-header");
    expect((await refusal(() => opened.moveTo("u1"))).code).toBe("no-header");
  });

  test("with an entry before its header counts as a session without a header, in a list and when opened", async () => {
    const [first, ...others] = linesOf("u1 > a1");
    const path = file(`${[first, HEADER, ...others].join("\n")}\n`);
    expect((await session(path)).id).toBe("");
    const listings: SessionListing[] = [];
    for await (const each of fileStore({ home: folder, folders: [folder] }).list()) listings.push(each);
    expect(listings).toMatchObject([{ ref: path, id: "", cwd: "", firstMessage: "u1" }]);
  });

  test("of a newer version opens, and is not written", async () => {
    const path = file(
      `${[HEADER.replace('"version":3', '"version":4'), ...linesOf("u1 > a1")].join("\n")}\n`,
    );
    const opened = await session(path);
    expect(opened.leafId).toBe("a1");
    expect(opened.tree.issues.map(({ kind, line }) => ({ kind, line }))).toEqual([
      { kind: "version", line: 1 },
    ]);
    expect((await refusal(() => opened.append(hello))).code).toBe("version");
    expect((await refusal(() => opened.append(label.of({ targetId: "a1", label: "x" })))).code).toBe(
      "version",
    );
  });
});

describe("an entry that cannot be appended", () => {
  const grown = () =>
    session(
      file(`${[HEADER, ...linesOf("u10001 > a10002 > u10003; a10002 > u20001 > l1(u10003)")].join("\n")}\n`),
    );

  test.each([
    ["an unknown parent", { ...hello, parentId: "nobody" }, "unknown-parent"],
    ["an id that is taken", { ...hello, id: "u10001" }, "duplicate-id"],
    ["an empty id", { ...hello, id: "" }, "invalid-entry"],
    ["a parent that is no id", { ...hello, parentId: 7 }, "invalid-entry"],
    ["no type", { ...hello, type: undefined }, "invalid-entry"],
    ["the type of a header", { type: "session", version: 3 }, "invalid-entry"],
    ["a message without a role", { type: "message", message: {} }, "invalid-entry"],
    ["no message", { type: "message" }, "invalid-entry"],
    ["a time that is not text", { ...hello, timestamp: 5 }, "invalid-entry"],
    [
      "what JSON cannot hold",
      { type: "custom", customType: "t", data: { at: new Date(0) } },
      "invalid-entry",
    ],
    ["a NaN", { type: "custom", customType: "t", data: Number.NaN }, "invalid-entry"],
    [
      "an own __proto__",
      { type: "custom", customType: "t", data: JSON.parse('{"__proto__":1}') },
      "invalid-entry",
    ],
    [
      "a line of more than 16 MiB",
      { type: "custom", customType: "t", data: "x".repeat(17 << 20) },
      "invalid-entry",
    ],
    [
      "an edit of an entry off the path",
      contextEdit.of({ targetId: "u10003", replacement: null }),
      "off-path",
    ],
    ["an edit of an unknown entry", contextEdit.of({ targetId: "nobody", replacement: null }), "off-path"],
    [
      "a compaction that keeps from off the path",
      { type: "compaction", summary: "s", firstKeptEntryId: "u10003", tokensBefore: 1 },
      "off-path",
    ],
    ["a label of an unknown entry", label.of({ targetId: "nobody", label: "x" }), "unknown-entry"],
    [
      "a label under another parent than the leaf",
      { ...label.of({ targetId: "u10001", label: "x" }), parentId: "u10001" },
      "invalid-entry",
    ],
    ["a leaf at an unknown entry", leaf.of({ targetId: "nobody", parentId: "nobody" }), "unknown-parent"],
    ["a leaf at a label", leaf.of({ targetId: "l1", parentId: "l1" }), "invalid-entry"],
    [
      "a leaf that has another parent than its target",
      leaf.of({ targetId: "u10003", parentId: "u10001" }),
      "invalid-entry",
    ],
  ])("is refused: %s", async (_name, draft, code) => {
    const opened = await grown();
    expect((await refusal(() => opened.append(draft as never))).code).toBe(code);
    expect(opened.leafId).toBe("u20001");
    // Nothing of a batch is written when one of its entries is refused.
    expect((await refusal(() => opened.append([hello, draft as never, hello]))).code).toBe(code);
    expect(opened.tree.length).toBe(5);
    await opened.append(hello);
  });

  test("an unknown id is reported with similar ids, by every function that looks it up", async () => {
    const path = file(`${[HEADER, ...linesOf("u10001 > a10002 > u10003")].join("\n")}\n`);
    const opened = await session(path, "read");
    for (const act of [
      () => opened.moveTo("u10009"),
      () => opened.contextAt("u10009"),
      () => opened.getBranch("u10009"),
      () => opened.placeOf("u10009"),
      () => SessionTree.open(FileLog.open(path, "read"), "u10009"),
    ]) {
      const error = await refusal(act);
      expect(error.code).toBe("unknown-entry");
      expect(error.message).toContain('There is no entry "u10009"');
      expect(error.message).toMatch(/Similar ids: u1000[13], u1000[13]/);
    }
    expect((await refusal(() => opened.getBranch("u1"))).message).toContain("u10001");
    expect((await refusal(() => opened.getBranch("entirely other"))).message).toContain("espalier tree");
  });
});

describe("a file that was changed by another program", () => {
  test("is no longer written, and the error says so", async () => {
    const path = file(`${[HEADER, ...linesOf("u1 > a1")].join("\n")}\n`);
    const cut = await session(path);
    writeFileSync(path, `${HEADER}\n`);
    expect((await refusal(() => cut.append(hello))).code).toBe("shrunk");
    const gone = await session(path);
    rmSync(path);
    expect((await refusal(() => gone.append(hello))).code).toBe("removed");
    const other = await session(file(`${HEADER}\n`));
    rmSync(path);
    file(`${HEADER}\n`);
    expect((await refusal(() => other.append(hello))).code).toBe("changed");
  });
});

describe("a file of a store", () => {
  test("is readable only by its owner, with all folders that the store creates, under any umask", async () => {
    const home = join(folder, "not", "yet", "there");
    const before = process.umask(0);
    try {
      const store = fileStore({ home });
      const own = await store.create(JSON.parse(HEADER));
      const elsewhere = await store.create(JSON.parse(HEADER), [], join(folder, "deep", "er", "fork.jsonl"));
      const old = file(
        `${HEADER.replace(',"version":3', "")}\n{"type":"custom","customType":"t"}\n`,
        "old.jsonl",
      );
      chmodSync(old, 0o600);
      await (await session(old)).append(hello);
      for (const path of [own.ref, elsewhere.ref, old, `${old}.v1`])
        expect(statSync(path).mode & 0o777).toBe(0o600);
      const folders = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((each) =>
        each.isDirectory(),
      );
      expect(folders.length).toBeGreaterThanOrEqual(7);
      for (const each of folders) expect(statSync(join(each.parentPath, each.name)).mode & 0o777).toBe(0o700);
    } finally {
      process.umask(before);
    }
  });

  test("is refused in one sentence if its folder cannot be created or is not a folder", async () => {
    const home = file("x", "no folder");
    const unmakeable = await refusal(() => fileStore({ home }).create(JSON.parse(HEADER)));
    expect(unmakeable.code).toBe("write-failed");
    expect(unmakeable.message).toContain("ENOTDIR");
    const list = async () => {
      for await (const listing of fileStore({ home, folders: [home] }).list())
        expect(listing).toBe("nothing");
    };
    expect((await refusal(list)).code).toBe("unreadable");
  });

  test("is never outside the store's home, for any id", async () => {
    const store = fileStore({ home: join(folder, "home") });
    for (const id of ["../../evil", "a/b", ".hidden", "", "x".repeat(200), "a\u0000b"]) {
      const header = { ...JSON.parse(HEADER), id };
      expect((await refusal(() => store.create(header))).code).toBe("invalid-entry");
    }
    mkdirSync(join(folder, "home"), { recursive: true });
    expect(existsSync(join(folder, "evil"))).toBe(false);
  });
});
