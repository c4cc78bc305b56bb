import { bytesView } from "@espalier/jsonl-stream";
import {
  branches,
  ChildIndex,
  commonAncestorRow,
  compaction,
  contextOfPath,
  drawTree,
  drawTreeLines,
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
import { describe, expect, test } from "vitest";
import { asked, entryLine, logOf, readLog, slowLogs, TIME } from "./slow-inputs.ts";

describe("a chain of 1,000,000 entries (T11)", () => {
  const COUNT = 1_000_000;
  const bytes = logOf(COUNT, (at) => entryLine(at, at === 0 ? null : at - 1, asked));
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

describe("a log that is built to be slow (T10)", () => {
  test.each(Object.keys(slowLogs))("gives the same context by every way of reading: %s", (name) => {
    const { window, whole } = readLog(slowLogs[name]!(1_000));
    expect(window.messages).toEqual(whole.messages);
    expect(window.tokens).toBe(whole.tokens);
  });

  // Reading takes a second. If its time grew with the square of the size, most of these logs would take minutes.
  test.each(Object.keys(slowLogs))("is read to its end when it has 100,000 lines: %s", (name) => {
    const { window, whole } = readLog(slowLogs[name]!(100_000));
    expect(window.tokens).toBe(whole.tokens);
  });
});
