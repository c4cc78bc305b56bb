import { type PageFile, piImporter, ScratchSpace } from "@espalier/interop";
import { bytesView, parseLine, scanLines } from "@espalier/jsonl-stream";
import { compaction, deriveId, parseHeader, Tree, tipRows, upgradeLog } from "@espalier/session-tree";
import fc from "fast-check";
import { expect, test } from "vitest";

/** What a report says of what a tree finds. */
const TOLD = new Map<string, string>([
  ["corrupt", "unreadable-content"],
  ["torn-tail", "unreadable-content"],
  ["salvaged", "salvaged"],
  ["duplicate-id", "duplicate-id"],
  ["orphan", "phantom-parent"],
]);

const SESSION = "d703a1a9-1b7b-4fb1-b512-c9738b1fe617";
const TIME = "2026-11-21T20:00:00.000Z";

/** Lines of a file of Pi by their numbers: each number is a line, out of few ids, so that ids meet in every way. */
function linesOf(version: number, numbers: readonly number[], ids: number): string[] {
  const header = { type: "session", version, id: SESSION, timestamp: TIME, cwd: "/" };
  const lines = [JSON.stringify(version === 1 ? { ...header, version: undefined } : header)];
  for (const number of numbers) lines.push(lineOf(version, number, ids, lines));
  return lines;
}

function lineOf(version: number, number: number, ids: number, above: readonly string[]): string {
  const [id, parent] = [`e${number % ids}`, `e${(number >>> 7) % (ids + 1)}`];
  // Files of the first version have no ids, but for lines that others wrote; those may have what we would derive.
  const own = version === 1 && number % 2 === 0 ? deriveId(SESSION, number % 50) : id;
  const places =
    version === 1 && number % 5 > 1 ? {} : { id: own, parentId: number % 11 === 0 ? null : parent };
  const role = number % 3 === 0 ? "hookMessage" : "user";
  const said = {
    type: "message",
    ...places,
    timestamp: TIME,
    message: { role, content: `${number % 7}`, timestamp: 1 },
  };
  switch ((number >>> 3) % 14) {
    case 0:
      return JSON.stringify({ type: "label", ...places, timestamp: TIME, targetId: id, label: "mark" });
    case 1:
      return JSON.stringify({ type: "leaf", ...places, timestamp: TIME, targetId: id });
    case 2: {
      const fields = { timestamp: TIME, summary: "s", firstKeptEntryIndex: number % 40, tokensBefore: 1 };
      return JSON.stringify({ type: "compaction", ...places, ...fields });
    }
    case 3:
      return JSON.stringify(said).slice(0, number % 60);
    case 4:
      // A line that was cut, and another one behind it.
      return `${JSON.stringify(said).slice(0, number % 40)}${JSON.stringify(said)}`;
    case 10:
      // A newline that was lost, and one that became another byte.
      return `${JSON.stringify(said)}${"J".repeat(number % 2)}${JSON.stringify({ ...said, id: `g${number % 5}` })}`;
    case 5:
      return above[number % above.length]!;
    case 6:
      return " ".repeat(number % 3);
    case 7:
      return JSON.stringify({ ...said, message: undefined, big: "1e999" }).replace('"1e999"', "1e999");
    case 8:
      return '{"type":"message","id":"e1","parentId":"e0","message":{"role":"user","content":"\xff';
    case 9:
      return JSON.stringify({ first: 1, ...said, weird: "\ud800", nothing: null });
    default:
      return JSON.stringify(said);
  }
}

/** What the importer gives for a file, and what a tree in memory says of the same. */
function bothWays(bytes: Uint8Array, scratch: ScratchSpace) {
  const view = bytesView(bytes);
  const source = { path: "s.jsonl", view, digest: () => "" };
  const [draft] = piImporter({ files: [], open: () => undefined, scratch }).read(source);
  const copied = Array.from(draft!.entries(), (line) => textOf(line as Uint8Array));
  const [first] = scanLines(view);
  const upgraded = upgradeLog(view, parseHeader(JSON.parse(textOf(first!.bytes))))?.view ?? view;
  const tree = new Tree(upgraded);
  // What stands on one line, where newlines were lost, gets lines of its own.
  const cuts = tree.issues.flatMap(({ kind, offset }) =>
    kind === "glued" || kind === "corrupt" ? [offset] : [],
  );
  const lines = Array.from(scanLines(upgraded), ({ offset, bytes: whole }) => {
    const text = textOf(whole);
    const starts = [0, ...cuts.map((cut) => cut - offset).filter((at) => at > 0 && at < text.length)];
    return starts.map((start, at) => text.slice(start, starts[at + 1]));
  }).flat();
  const glued = new Set(tree.issues.flatMap(({ kind, line }) => (kind === "glued" ? [line] : [])));
  const issues = tree.issues.flatMap(({ kind, line }) =>
    TOLD.has(kind) ? [`${line} ${TOLD.get(kind)}`] : [],
  );
  // A tree does not read what stands behind the beginning of a line; the report says whether it can be read.
  for (const { bytes, lineNumber } of scanLines(upgraded)) {
    const told = `${lineNumber} unreadable-content`;
    const parsed = parseLine(bytes);
    if (glued.has(lineNumber)) continue;
    if (!parsed.ok && parsed.problem.kind !== "blank" && !issues.includes(told)) issues.push(told);
  }
  const rows = Array.from({ length: tree.length }, (_, row) => tree.kindAt(row).type);
  return {
    draft: { lines: copied, issues: toldOf(draft!.issues.list()), counts: draft!.counts },
    tree: {
      lines: lines.slice(1).filter((line) => !/^[ \t\r]*$/.test(line)),
      issues: [...new Set(issues)].sort(),
      counts: {
        entries: tree.length,
        branches: tipRows(tree).length,
        compactions: rows.filter((type) => type === compaction.type).length,
      },
    },
  };
}

/** A character for each byte, so that equal texts are equal bytes. */
const textOf = (bytes: Uint8Array): string => Buffer.from(bytes).toString("latin1");

/** Each line and kind of a report. */
function toldOf(issues: readonly { kind: string; lines: string }[]): string[] {
  return issues
    .flatMap(({ kind, lines }) =>
      lines.split(", ").flatMap((run) => {
        const [from, to = from] = run.split("-").map(Number);
        return Array.from({ length: to! - from! + 1 }, (_, at) => `${from! + at} ${kind}`);
      }),
    )
    .sort();
}

/** Pages in memory that are where a file would be. */
function pageFile(): PageFile {
  const pages = new Map<number, Uint8Array>();
  return {
    read: (offset, page) => page.set(pages.get(offset)!),
    write: (offset, page) => void pages.set(offset, page.slice()),
    close: () => pages.clear(),
  };
}

const versions = fc.constantFrom(1, 2, 3);

const file = fc.record({
  version: versions,
  numbers: fc.array(fc.nat()),
  ids: fc.integer({ min: 1, max: 30 }),
  changed: fc.array(fc.tuple(fc.nat(), fc.nat(255)), { maxLength: 5 }),
  cut: fc.nat(200),
});

/** Two entries of version 1 on one line, the first with a damaged key `id`: its upgrade makes an entry of it. */
const GLUED = {
  version: 1,
  numbers: [
    2005974097, 467187577, 1897237693, 1660438235, 826869737, 718090671, 160256169, 2603410, 1955279536,
  ],
  ids: 17,
  changed: [[796858167, 35]] as [number, number][],
  cut: 0,
};

/** A line of version 2 whose first entry has a damaged key `id`; the next line repeats its second entry. */
const REPEATED = {
  version: 2,
  numbers: [2041783938, 651683801],
  ids: 1,
  changed: [[19, 32]] as [number, number][],
  cut: 0,
};

test("a file of any version with any damage gives the lines, the report and the counts of its tree", () => {
  fc.assert(
    fc.property(file, ({ version, numbers, ids, changed, cut }) => {
      const bytes = Buffer.from(`${linesOf(version, numbers, ids).join("\n")}\n`);
      const header = bytes.indexOf("\n") + 1;
      const rest = bytes.length - header;
      for (const [at, byte] of changed) if (rest > 0) bytes[header + (at % rest)] = byte;
      const { draft, tree } = bothWays(
        bytes.subarray(0, Math.max(header, bytes.length - cut)),
        new ScratchSpace(),
      );
      expect(draft).toEqual(tree);
    }),
    { numRuns: 500, examples: [[GLUED], [REPEATED]] },
  );
});

test.each([1, 2, 3])(
  "a long file of version %i gives the same result with a single page in memory",
  (version) => {
    let number = 7;
    const numbers = Array.from({ length: 20_000 }, () => {
      number = (Math.imul(number, 1_103_515_245) + 12_345) >>> 0;
      return number >>> 1;
    });
    const scratch = new ScratchSpace(pageFile, 1);
    const { draft, tree } = bothWays(Buffer.from(linesOf(version, numbers, 9_000).join("\n")), scratch);
    scratch.close();
    expect(draft.counts).toEqual(tree.counts);
    expect(draft.issues).toEqual(tree.issues);
    expect(draft.lines).toEqual(tree.lines);
  },
);
