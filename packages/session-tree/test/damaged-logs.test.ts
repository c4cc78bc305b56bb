import { bytesView, EspalierError } from "@espalier/jsonl-stream";
import {
  branches,
  buildSessionContext,
  contextOfPath,
  DAMAGED,
  drawTree,
  isDamage,
  labelsInForce,
  leafOf,
  memoryLog,
  ORPHAN,
  type PathWindow,
  pathOf,
  pathRows,
  pathWindowAt,
  planFork,
  ROOT,
  readPathWindow,
  referenceIssues,
  SessionTree,
  sessionName,
  Tree,
} from "@espalier/session-tree";
import { growEntries } from "@espalier/session-tree/testing";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { bytesOf, damagedLog } from "./arbitrary-damage.ts";
import { HEADER } from "./arbitrary-log.ts";
import { naiveLeaf, naivePath, readNaively } from "./naive-log.ts";

const RUNS = { numRuns: Number(process.env["FUZZ"] ?? 500) };

const anyLog = damagedLog({ inOrder: false });
const plainLog = damagedLog({ inOrder: true });

const treeOf = (log: string) => new Tree(bytesView(bytesOf(log)));
const contextOfWindow = ({ entries, before }: PathWindow) => contextOfPath(entries, before);

describe("a log with arbitrary damage", () => {
  test("gives the same tree as parsing every line", () => {
    fc.assert(
      fc.property(plainLog, (log) => {
        const naive = readNaively(bytesOf(log));
        const tree = treeOf(log);
        expect([...tree.ids()]).toEqual(naive.rows.map(({ id }) => id));
        for (const [row, { id, parent, offset, entry, type, parentId, content }] of naive.rows.entries()) {
          expect(tree.index.parent(row)).toBe(parent === -1 ? ROOT : parent === -2 ? ORPHAN : parent);
          expect(tree.index.offset(row)).toBe(offset);
          expect(Buffer.from(tree.bytesAt(row)).toString("latin1")).toBe(content);
          const placeholder = { type: DAMAGED, id, parentId, timestamp: "" };
          expect(tree.entryAt(row)).toEqual(entry ? { ...entry, parentId } : placeholder);
          expect(["", type]).toContain(tree.kindAt(row).type);
          expect(pathRows(tree, row)).toEqual(naivePath(naive.rows, row));
        }
        expect(tree.lastRow).toBe(naive.lastRow);
        expect(leafOf(tree)).toBe(naive.rows[naiveLeaf(naive.rows, naive.lastRow)]?.id ?? null);
      }),
      RUNS,
    );
  });

  test("reports every unusable line with its number and offset", () => {
    fc.assert(
      fc.property(plainLog, (log) => {
        const naive = readNaively(bytesOf(log));
        const tree = treeOf(log);
        // A line that keeps its place is known to be damaged once it is read; repeated, it is told once.
        const damaged = new Set(naive.rows.flatMap(({ entry, offset }) => (entry ? [] : [offset])));
        const repeated = new Set(
          naive.issues.flatMap(({ kind, offset }) => (kind === "identical-duplicate" ? [offset] : [])),
        );
        const places = (issues: readonly { kind: string; line: number | null; offset: number }[]) =>
          issues
            .filter(
              ({ kind, offset }) => kind !== "corrupt" || !(damaged.has(offset) || repeated.has(offset)),
            )
            .map(({ kind, line, offset }) => ({ kind, line, offset }));
        expect(places(tree.issues)).toEqual(places(naive.issues));
        const readable = [...tree.entries()].filter(({ type }) => type === DAMAGED);
        expect(readable).toHaveLength(damaged.size);
        expect(JSON.stringify(tree.issues)).not.toMatch(/plain|xxx|quote/);
      }),
      RUNS,
    );
  });

  test("gives the model the same context for every way of reading", () => {
    fc.assert(
      fc.property(anyLog, (log) => {
        const view = bytesView(bytesOf(log));
        const tree = new Tree(view);
        const entries = [...tree.entries()];
        const leaf = leafOf(tree);
        const opened = readPathWindow(view);
        expect(opened.leafId).toBe(leaf);
        expect(contextOfWindow(opened)).toEqual(buildSessionContext(tree));
        for (const id of new Set(tree.ids())) {
          const row = tree.row(id);
          const expected = buildSessionContext(tree, id);
          expect(contextOfWindow(readPathWindow(view, id))).toEqual(expected);
          if (tree.kindAt(row).movesLeaf) {
            expect(readPathWindow(view, id)).toMatchObject(pathWindowAt(tree, row));
            expect(contextOfPath(pathOf(tree, id))).toEqual(expected);
            expect(buildSessionContext(entries, id)).toEqual(expected);
          }
        }
      }),
      RUNS,
    );
  });

  test("can be walked, drawn, checked and forked from any entry", () => {
    fc.assert(
      fc.property(anyLog, (log) => {
        const tree = treeOf(log);
        referenceIssues(tree);
        labelsInForce(tree);
        sessionName(tree);
        const tips = branches(tree).map(({ leafId }) => leafId);
        const drawing = drawTree(tree, { describe: ({ id }) => `<${id}>` });
        for (const id of tips) expect(drawing).toContain(`<${id}>`);
        for (const id of new Set(tree.ids())) {
          for (const position of ["at", "before"] as const) {
            const { rows, leafId } = planFork(tree, id, position);
            expect(rows).toEqual(leafId === null ? [] : pathRows(tree, rows.at(-1)!));
          }
        }
      }),
      { numRuns: RUNS.numRuns / 2 },
    );
  });

  test("gives the same result when reading resumes at any byte", () => {
    fc.assert(
      fc.property(
        anyLog,
        fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { maxLength: 5 }),
        (log, cuts) => {
          const bytes = bytesOf(log);
          const stops = cuts.map((cut) => Math.floor(cut * bytes.length)).sort((a, b) => a - b);
          const grown = new Tree(bytesView(bytes.subarray(0, stops[0] ?? 0)));
          for (const stop of [...stops.slice(1), bytes.length])
            grown.takeIn(bytesView(bytes.subarray(0, stop)));
          const atOnce = treeOf(log);
          fc.pre(stops.every((stop) => !isWholeTail(bytes, stop)));
          expect([...grown.entries()]).toEqual([...atOnce.entries()]);
          expect(grown.issues).toEqual(atOnce.issues);
          expect(leafOf(grown)).toBe(leafOf(atOnce));
          expect(grown.header).toEqual(atOnce.header);
        },
      ),
      RUNS,
    );
  });

  test("gives the same result when reading of an undamaged log resumes at any byte", () => {
    const lines = growEntries("u1 > a1 > l1(u1 x); u1 > a2 > u2*").map((entry) => JSON.stringify(entry));
    const whole = Buffer.from(
      [
        `${HEADER}${lines[0]}`,
        ...lines.slice(1),
        lines[1],
        `${lines[2]}${lines[2]}${lines[1]!.replace('"a1"', '"g1"')}${lines[2]!.replace('"u1"', '"a1"')}`,
        HEADER,
        "torn",
        "",
      ].join("\n"),
    );
    const atOnce = new Tree(bytesView(whole));
    for (let stop = 0; stop <= whole.length; stop++) {
      const grown = new Tree(bytesView(whole.subarray(0, stop)));
      grown.takeIn(bytesView(whole));
      expect(grown.issues).toEqual(atOnce.issues);
      expect([...grown.entries()]).toEqual([...atOnce.entries()]);
      expect([grown.header, grown.lastRow]).toEqual([atOnce.header, atOnce.lastRow]);
    }
  });

  test("opens as a session, or fails with a typed error", async () => {
    await fc.assert(
      fc.asyncProperty(anyLog, async (log) => {
        const tree = treeOf(log);
        try {
          const session = await SessionTree.open(memoryLog(bytesOf(log)));
          expect(session.leafId).toBe(leafOf(session.tree));
          expect(session.context).toEqual(buildSessionContext(session.tree));
        } catch (error) {
          expect(error).toBeInstanceOf(EspalierError);
          expect(error).toMatchObject({ code: "not-a-session" });
          expect(tree.length).toBe(0);
        }
      }),
      { numRuns: RUNS.numRuns / 2 },
    );
  });
});

/** True when an entry that is cut off at `stop` parses as it is, and is not what the line says in the end. */
function isWholeTail(bytes: Uint8Array, stop: number): boolean {
  const { issues } = readNaively(bytes.subarray(0, stop));
  return issues.at(-1)?.kind === "unterminated-tail" && bytes[stop] !== 10 && stop < bytes.length;
}

test("a repeated `leaf` line that names its own id and has no parent is read the same from both ends", async () => {
  const line = (fields: object) => `${JSON.stringify({ timestamp: "t", ...fields })}\n`;
  const said = { role: "user", content: "x" };
  const named = line({ type: "leaf", id: "a", targetId: "a" });
  const log =
    line({ type: "session", version: 3, id: "s", cwd: "/garden" }) +
    line({ type: "message", id: "a", parentId: null, message: said }) +
    named +
    line({ type: "message", id: "b", parentId: "a", message: said }) +
    named;
  const session = await SessionTree.open(memoryLog(new TextEncoder().encode(log)));
  expect(session.leafId).toBe(leafOf(session.tree));
});

test("a repeated `leaf` line that lost its parent means the entry that has its target's id at that line", async () => {
  const line = (fields: object) => `${JSON.stringify({ timestamp: "t", ...fields })}\n`;
  const said = (content: string) => ({ role: "user", content });
  const back = line({ type: "leaf", id: "c", targetId: "a" });
  const log =
    line({ type: "session", version: 3, id: "s", cwd: "/garden" }) +
    line({ type: "message", id: "a", parentId: null, message: said("first") }) +
    back +
    line({ type: "message", id: "a", parentId: "a", message: said("second") }) +
    back;
  const session = await SessionTree.open(memoryLog(new TextEncoder().encode(log)));
  expect(session.context).toEqual(buildSessionContext(session.tree));
  expect(session.context.messages).toHaveLength(2);
});

describe("two entries on one line", () => {
  const user = (id: string, parentId: string | null) =>
    `{"type":"message","id":"${id}","parentId":${JSON.stringify(parentId)},"timestamp":"t","message":{"role":"user","content":"${id}"}}`;
  const torn = (line: string) => line.slice(0, -12);

  test.each<[string, string, string[], string]>([
    ["an entry after a torn one is found", torn(user("b", "a")) + user("c", "a"), ["a", "c", "d"], "a c d"],
    ["two whole entries are both found", user("b", "a") + user("c", "b"), ["a", "b", "c", "d"], "a b c d"],
    [
      "three whole ones: all are, with space between them",
      `${user("b", "a")} ${user("x", "b")}\r${user("c", "x")}`,
      ["a", "b", "x", "c", "d"],
      "a b x c d",
    ],
    [
      "two whole ones behind a torn one: both are",
      torn(user("z", "a")) + user("b", "a") + user("c", "b"),
      ["a", "b", "c", "d"],
      "a b c d",
    ],
    [
      "a newline that became another byte costs that byte",
      `${user("b", "a")}J${user("c", "b")}`,
      ["a", "b", "c", "d"],
      "a b c d",
    ],
    [
      "a torn one between two whole ones costs itself",
      user("b", "a") + torn(user("z", "b")) + user("c", "b"),
      ["a", "b", "c", "d"],
      "a b c d",
    ],
    [
      "in whatever order their keys stand",
      `{"id":"b","type":"custom","data":{"parentId":"x"},"parentId":"a"}{"parentId":"b","id":"c","type":"message","message":{"role":"user","content":"c"}}`,
      ["a", "b", "c", "d"],
      "a c d",
    ],
    [
      "what names a parent only within is none",
      `${torn(user("z", "a"))}{"type":"toolCall","id":"c","arguments":{"parentId":"a"}}`,
      ["a", "z", "d"],
      "d",
    ],
    [
      "a text that looks like an entry is none",
      user("c", "a").replace('"c"}', String.raw`"c {\"type\":\"x\",\"parentId\":\"a\"}"}`),
      ["a", "c", "d"],
      'a c {"type":"x","parentId":"a"} d',
    ],
    [
      "what names no parent is none, even under the id of the torn one",
      `${torn(user("c", "a"))}{"type":"message","id":"c","message":{"role":"user","content":"x"}}`,
      ["a", "c", "d"],
      "a d",
    ],
    [
      "what names its parent in an odd way is none",
      `${torn(user("c", "a"))}{"type":"custom","id":"x","parentId" : "a"}`,
      ["a", "c", "d"],
      "a d",
    ],
    [
      "a header behind a torn line is none",
      torn(user("c", "a")) + HEADER.replace("{", '{"parentId":null,'),
      ["a", "c", "d"],
      "a d",
    ],
  ])("%s", (_name, glued, ids, words) => {
    const bytes = Buffer.from(`${[HEADER, user("a", null), glued, user("d", "c")].join("\n")}\n`);
    const tree = new Tree(bytesView(bytes));
    expect([...tree.ids()]).toEqual(ids);
    const said = buildSessionContext(tree);
    expect(said.messages.map((each) => "content" in each && each.content).join(" ")).toBe(words);
    expect(contextOfWindow(readPathWindow(bytesView(bytes)))).toEqual(said);
    expect(buildSessionContext([...tree.entries()])).toEqual(said);
  });
});

describe("a lost newline between whole lines", () => {
  const said = (id: string, parentId: string | null, time = 1) =>
    `{"type":"message","id":"${id}","parentId":${JSON.stringify(parentId)},"timestamp":"2026-01-01T00:00:0${time}.000Z","message":{"role":"user","content":"${id}"}}`;
  const viewOf = (text: string) => bytesView(Buffer.from(text));

  test("loses no entry, and is not reported as damage", () => {
    const lines = [said("a", null), said("b", "a"), said("c", "b"), said("d", "c")];
    const view = viewOf(`${HEADER}\n${lines[0]}\n${lines[1]}${lines[2]}\n${lines[3]}\n`);
    const tree = new Tree(view);
    expect([...tree.ids()]).toEqual(["a", "b", "c", "d"]);
    const offset = HEADER.length + lines[0]!.length + lines[1]!.length + 2;
    expect(tree.issues).toMatchObject([{ kind: "glued", line: 3, offset, id: "c" }]);
    expect(tree.issues.filter(isDamage)).toEqual([]);
    expect(readPathWindow(view).entries).toEqual([...tree.entries()]);
    for (const id of "abcd") expect(readPathWindow(view, id).leafId).toBe(id);
  });

  test("does not hide the header, even if every newline of a log is lost", async () => {
    for (const between of ["\n", ""]) {
      const text = HEADER + [said("a", null), said("b", "a"), said("c", "b")].join(between);
      const session = await SessionTree.open(memoryLog(Buffer.from(text)));
      expect(session.header?.id).toBe("s");
      expect(session.getBranch().map(({ id }) => id)).toEqual(["a", "b", "c"]);
      expect(session.tree.issues.map(({ kind }) => kind)).not.toContain("no-header");
      const [next] = await session.append({ type: "custom", customType: "test", data: 1 } as never);
      const again = await SessionTree.open(memoryLog(await bytesIn(session)));
      expect(again.getBranch().map(({ id }) => id)).toEqual(["a", "b", "c", next!.id]);
    }
  });

  test("does not hide entries that others append after a last line without a newline", async () => {
    const log = memoryLog(Buffer.from(`${HEADER}\n${said("a", null)}`));
    const tree = new Tree(await log.load());
    const grown = `${HEADER}\n${said("a", null)}${said("b", "a")}`;
    tree.takeIn(viewOf(grown));
    expect(tree.issues.map(({ kind }) => kind)).toEqual(["glued", "unterminated-tail"]);
    tree.takeIn(viewOf(`${grown}${said("c", "b")}\n${said("d", "c")}\n`));
    expect([...tree.ids()]).toEqual(["a", "b", "c", "d"]);
    expect(tree.issues.map(({ kind, line }) => [kind, line])).toEqual([
      ["glued", 2],
      ["glued", 2],
    ]);
  });

  test("at any position gives the same tree as the lines with their newlines", () => {
    const inUse = damagedLog({ inOrder: true });
    const keys = ["id", "type", "parentId"];
    fc.assert(
      fc.property(inUse, fc.array(fc.boolean(), { minLength: 1 }), (log, losses) => {
        const lines = log.split("\n").flatMap((line) => {
          const entry = parsed(line);
          return entry && keys.every((key) => key in entry) ? [line.trim()] : [];
        });
        const text = (isLost: (at: number) => boolean) =>
          lines.map((line, at) => (isLost(at) ? line : `${line}\n`)).join("");
        const whole = treeOf(`${HEADER}\n${text(() => false)}`);
        const glued = treeOf(`${HEADER}\n${text((at) => losses[at % losses.length]!)}`);
        expect([...glued.entries()]).toEqual([...whole.entries()]);
        expect(leafOf(glued)).toBe(leafOf(whole));
        for (let row = 0; row < whole.length; row++)
          expect(glued.index.parent(row)).toBe(whole.index.parent(row));
        expect(glued.issues.filter(({ kind }) => kind === "corrupt" || kind === "salvaged")).toEqual([]);
        expect(buildSessionContext(glued)).toEqual(buildSessionContext(whole));
        expect(contextOfWindow(readPathWindow(glued.view))).toEqual(buildSessionContext(whole));
      }),
      RUNS,
    );
  });
});

function parsed(line: string): object | undefined {
  try {
    const value: unknown = JSON.parse(
      new TextDecoder("utf-8", { fatal: true }).decode(Buffer.from(line, "latin1")),
    );
    return typeof value === "object" && value !== null ? value : undefined;
  } catch {
    return undefined;
  }
}

async function bytesIn({ log }: SessionTree): Promise<Uint8Array> {
  const view = await log.load();
  return view.read(0, view.size);
}

test("an entry after a torn line is found with any format of its time", () => {
  const TIME = "2026-01-01T00:00:00.000Z";
  const line = (id: string, parentId: string | null, timestamp = TIME) =>
    JSON.stringify({ type: "message", id, parentId, timestamp, message: { role: "user", content: id } });
  const ids = (glued: string) => {
    const view = bytesView(Buffer.from(`${[HEADER, line("a", null), glued, line("d", "c")].join("\n")}\n`));
    const tree = new Tree(view);
    expect(contextOfWindow(readPathWindow(view))).toEqual(buildSessionContext(tree));
    return [...tree.ids()];
  };
  const torn = line("b", "a").slice(0, -12);
  const cut = line("b", "a").slice(0, -60);
  for (const time of [TIME, "2026-01-01T00:00:00.000+00:00", "2026-01-01T00:00:00.000123Z", "2026-01-01"])
    for (const first of [torn, cut, line("b", "a", time).slice(0, -12)])
      expect(ids(first + line("c", "a", time))).toEqual(["a", "c", "d"]);
});

test("a line with a repeated key stays in the tree, adds nothing to the context, and is reported", () => {
  const line = (id: string, parentId: string | null, more = "") =>
    `{"type":"message","id":"${id}","parentId":${JSON.stringify(parentId)},${more}"message":{"role":"user","content":"${id}"}}`;
  for (const more of ['"id":"z",', '"type":"label",', '"type":"session",']) {
    const lines = [HEADER, line("a", null), line("b", "a", more), line("c", "b")];
    const view = bytesView(Buffer.from(`${lines.join("\n")}\n`));
    const tree = new Tree(view);
    expect([...tree.ids()]).toEqual(["a", "b", "c"]);
    expect([...tree.entries()].map(({ type }) => type)).toEqual(["message", DAMAGED, "message"]);
    expect(buildSessionContext(tree).sources).toEqual(["a", "c"]);
    expect(contextOfWindow(readPathWindow(view))).toEqual(buildSessionContext(tree));
  }

  // With both its id and its parent twice, it is parsed, and the last ones count.
  const twice = line("b", "a").replace('"message":{', '"id":"c","parentId":"a","message":{');
  const tree = new Tree(bytesView(Buffer.from(`${[HEADER, line("a", null), twice].join("\n")}\n`)));
  expect([...tree.ids()]).toEqual(["a", "c"]);
  expect(tree.entryAt(1)).toMatchObject({ id: "c", message: { content: "b" } });
});

test.each([
  ["another header", [HEADER, HEADER]],
  ["an entry", [JSON.stringify(growEntries("u1")[0]), HEADER]],
])("a header after %s is reported and does not count", (_, lines) => {
  const { issues } = new Tree(bytesView(bytesOf(lines.join("\n"))));
  expect(issues.find(({ kind }) => kind === "duplicate-header")).toMatchObject({
    line: 2,
    message: "This header is after another header or an entry, so it does not count.",
  });
});

test("a line whose parent is no id is reported and does not count", () => {
  const [line] = growEntries("u1").map((entry) => JSON.stringify(entry));
  const tree = new Tree(bytesView(bytesOf([HEADER, line!.replace("null", "7"), ""].join("\n"))));
  expect(tree.issues).toMatchObject([{ kind: "corrupt", line: 2 }]);
  expect(tree.issues[0]!.message).toContain("The `parentId` is neither an id nor null");
  expect(tree.length).toBe(0);
});
