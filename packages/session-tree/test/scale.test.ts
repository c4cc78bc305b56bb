import { bytesView } from "@espalier/jsonl-stream";
import {
  branches,
  buildSessionContext,
  ChildIndex,
  commonAncestorRow,
  compaction,
  contextOfPath,
  ForkLines,
  forkHeader,
  label,
  leafOf,
  memoryLog,
  memoryStore,
  message,
  planFork,
  readPathWindow,
  referenceIssues,
  SessionTree,
  Tree,
} from "@espalier/session-tree";
import { drawTree, drawTreeLines } from "@espalier/session-tree/testing";
import { describe, expect, test } from "vitest";
import { HEADER } from "./arbitrary-log.ts";

const TIME = "2026-01-01T00:00:00.000Z";

/** A log of so many lines, without an array of them. */
function logOf(count: number, lineAt: (at: number) => string): Uint8Array {
  const parts: Uint8Array[] = [Buffer.from(`${HEADER}\n`)];
  for (let at = 0; at < count; at += 10_000) {
    let text = "";
    for (let i = at; i < Math.min(at + 10_000, count); i++) text += `${lineAt(i)}\n`;
    parts.push(Buffer.from(text));
  }
  return Uint8Array.from(Buffer.concat(parts));
}

const entry = (id: number, parent: number | null, body: string) =>
  `{"type":"message","id":"e${id}","parentId":${parent === null ? null : `"e${parent}"`},"timestamp":"${TIME}","message":${body}}`;
const asked = '{"role":"user","content":"and then?","timestamp":1}';

describe("a chain of 1,000,000 entries (T11)", () => {
  const COUNT = 1_000_000;
  const bytes = logOf(COUNT, (at) => entry(at, at === 0 ? null : at - 1, asked));
  const last = `e${COUNT - 1}`;

  test("is indexed and walked", () => {
    const tree = new Tree(bytesView(bytes));
    expect(tree.length).toBe(COUNT);
    expect(tree.issues).toEqual([]);
    expect(leafOf(tree)).toBe(last);
    expect(branches(tree)).toEqual([{ leafId: last, lastUserText: "and then?", timestamp: TIME }]);
    expect(commonAncestorRow(tree, 17, tree.row(last))).toBe(17);
    expect([...new ChildIndex(tree).of(17)]).toEqual([18]);
  });

  test("opens with its whole context, continues, and is forked", async () => {
    const session = await SessionTree.open(memoryLog(bytes));
    expect(session.context.messages.length).toBe(COUNT);
    expect(session.context.tokens).toBe(COUNT * 3);
    expect(session.getBranch().length).toBe(COUNT);
    await session.append([
      message.of({ message: { role: "user", content: "more", timestamp: 1 } }),
      label.of({ targetId: "e0", label: "start" }),
    ]);
    expect(session.context.messages.length).toBe(COUNT + 1);
    const plan = planFork(session.tree, last);
    const header = forkHeader(session.header!, "here", last, TIME);
    const fork = new Tree(
      await (await memoryStore().create(header, new ForkLines(session.tree, plan))).load(),
    );
    expect(leafOf(fork)).toBe(last);
    // The label of the first entry is in force, and not on the path.
    expect(fork.length).toBe(COUNT + 1);
    await session.append(compaction.of({ summary: "much", firstKeptEntryId: last, tokensBefore: 1 }));
    expect(session.context.messages).toHaveLength(3);
    expect(session.window.entries).toHaveLength(3);
    // Seconds on a machine of its own; a busy one may need many times that.
  }, 300_000);

  test("after a compaction takes as long as its context", () => {
    const settings = { provider: "p", modelId: "m", thinkingLevel: "low" };
    const compacted = {
      type: "compaction",
      id: "k",
      parentId: last,
      timestamp: TIME,
      summary: "s",
      firstKeptEntryId: last,
      tokensBefore: 1,
      details: { settings },
    };
    let read = 0;
    const whole = bytesView(Buffer.concat([bytes, Buffer.from(`${JSON.stringify(compacted)}\n`)]));
    const counting = {
      ...whole,
      readInto: (offset: number, target: Uint8Array) => {
        read += target.length;
        return whole.readInto(offset, target);
      },
    };
    const window = readPathWindow(counting);
    expect(window.entries.map(({ id }) => id)).toEqual([last, "k"]);
    expect(contextOfPath(window.entries, window.before)).toMatchObject({ thinkingLevel: "low", tokens: 4 });
    expect(read).toBeLessThan(3 << 20);
  });

  test("is drawn and checked (a fifth of it: 20 times the depth that recursion survives)", () => {
    const tree = new Tree(bytesView(bytes.subarray(0, bytes.indexOf(10, bytes.length / 5) + 1)));
    expect(tree.length).toBeGreaterThan(200_000);
    expect(referenceIssues(tree)).toEqual([]);
    const folded = drawTree(tree, { fold: 3, standsOut: () => false });
    expect(folded).toBe(`… ${tree.length - 1} entries\n${leafOf(tree)} *`);
    let lines = 0;
    for (const _ of drawTreeLines(tree)) lines++;
    expect(lines).toBe(tree.length);
  });
});

/** Milliseconds of processor time of the faster of two runs: others may keep the machine busy. */
function timed(run: () => unknown): number {
  return Math.min(
    ...[1, 2].map(() => {
      const start = process.cpuUsage();
      run();
      return process.cpuUsage(start).user / 1_000;
    }),
  );
}

describe("a log that is built to be slow (T10)", () => {
  const COUNT = 8_000;
  const labelAt = (id: string, parent: string, target: string) =>
    `{"type":"label","id":"${id}","parentId":"${parent}","timestamp":"${TIME}","targetId":"${target}","label":"x"}`;
  const shapes: Record<string, (at: number, count: number) => string> = {
    "one id for all": (at) => entry(7, at === 0 ? null : 7, asked.replace("then", String(at))),
    "the same line again and again": () => entry(7, null, asked),
    "every entry its own parent": (at) => entry(at, at, asked),
    "every parent below": (at) => entry(at, at + 1, asked),
    "labels of nobody to the end": (at, count) =>
      at < count / 2 ? entry(at, null, asked) : labelAt(`l${at}`, "nobody", "nobody"),
    "a chain of labels that leads nowhere": (at) =>
      labelAt(`l${at}`, at === 0 ? "nobody" : `l${at - 1}`, "nobody"),
    "leaves at nobody": (at) =>
      `{"type":"leaf","id":"l${at}","parentId":"nobody","timestamp":"${TIME}","targetId":"nobody"}`,
    "labels of an id that comes again and again": (at, count) =>
      at % 2 === 0 && at > count / 2 ? entry(7, null, String(at)) : labelAt(`l${at}`, "e7", "e7"),
    "compactions of nothing": (at) =>
      `{"type":"compaction","id":"e${at}","parentId":"e${at - 1}","timestamp":"${TIME}","summary":"s","firstKeptEntryId":"nobody","tokensBefore":1}`,
    "edits of an id that many have beside them": (at, count) =>
      at < count / 2
        ? entry(7, null, asked)
        : `{"type":"context_edit","id":"e${at}","parentId":${at === count / 2 ? null : `"e${at - 1}"`},"timestamp":"${TIME}","targetId":"e7","replacement":null}`,
    "edits upon edits": (at) =>
      `{"type":"context_edit","id":"e${at}","parentId":"e${at - 1}","timestamp":"${TIME}","targetId":"e0","replacement":null}`,
    "torn lines": (at) => entry(at, at - 1, asked).slice(0, -3),
    "quotes and braces": () => '"{'.repeat(60),
    "side branches all the way": (at) =>
      entry(at, at < 2 ? (at === 0 ? null : 0) : at - 1 - (at % 2), '{"role":"assistant","content":[]}'),
  };

  /** Everything a reader does with a log, once. */
  function readAll(bytes: Uint8Array): void {
    const view = bytesView(bytes);
    const tree = new Tree(view);
    leafOf(tree);
    const { entries, before } = readPathWindow(view);
    contextOfPath(entries, before);
    buildSessionContext([...tree.entries()]);
    referenceIssues(tree);
    branches(tree);
    drawTree(tree, { fold: 2 });
    if (tree.length > 0) planFork(tree, tree.idAt(tree.length - 1));
  }

  test.each(Object.keys(shapes))("takes time in proportion to its size: %s", { retry: 5 }, (name) => {
    const small = logOf(COUNT / 8, (at) => shapes[name]!(at, COUNT / 8));
    const large = logOf(COUNT, (at) => shapes[name]!(at, COUNT));
    readAll(small);
    const [less, more] = [timed(() => readAll(small)), timed(() => readAll(large))];
    // Eight times the size: quadratic work would take 64 times as long.
    expect(more / Math.max(less, 5)).toBeLessThan(32);
  });
});
