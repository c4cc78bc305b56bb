import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { type ByteView, bytesView } from "@espalier/jsonl-stream";
import { readPathWindow, Tree } from "@espalier/session-tree";
import { build } from "esbuild";
import fc from "fast-check";
import { expect, test } from "vitest";
import { bytesOf, damagedLog } from "./arbitrary-damage.ts";
import { HEADER } from "./arbitrary-log.ts";
import { readNaively } from "./naive-log.ts";

const RUNS = { numRuns: Number(process.env["FUZZ"] ?? 500) };

/** What a tree knows of its rows without reading what they say. */
const rowsOf = (tree: Tree) =>
  Array.from({ length: tree.length }, (_, row) => [
    tree.idAt(row),
    tree.index.offset(row),
    tree.index.lineLength(row),
    tree.index.parent(row),
    tree.index.kind(row),
  ]);

const windowIds = (view: ByteView) => readPathWindow(view).entries.map(({ id }) => id);

/** A view of which something else is read each time it is itself: that cannot use the memory that this walk has. */
function interrupted<Read>(bytes: Uint8Array, read: (view: ByteView) => Read, within: Read[]): ByteView {
  const view = bytesView(bytes);
  return {
    ...view,
    size: view.size,
    read: (offset, length) => view.read(offset, length),
    readInto: (offset, target) => {
      within.push(read(bytesView(bytes)));
      return view.readInto(offset, target);
    },
  };
}

const message = (id: string, parentId: string, text: string) =>
  `${JSON.stringify({ type: "message", id, parentId, timestamp: "2026-01-05T09:00:00.000Z", message: { role: "user", content: text } })}\n`;

test("the compiled code matches its source", () => {
  const script = fileURLToPath(new URL("../../../scripts/compile-scan.mjs", import.meta.url));
  expect(() => execFileSync(process.execPath, [script, "--check"], { stdio: "pipe" })).not.toThrow();
});

test.each([
  ["without WebAssembly", "node --jitless", ""],
  [
    "where the code cannot be compiled",
    "node",
    "WebAssembly.Module = class { constructor() { throw new WebAssembly.CompileError(); } };",
  ],
  ["on a processor without SSE 4.1", "node --noenable-sse4-1", ""],
  ["with a limited address space", "ulimit -v 6000000 && node", ""],
  ["without Buffer, as in a browser", "node", "globalThis.Buffer = undefined;"],
])("a log is read %s", async (_where, command, before) => {
  const folder = mkdtempSync(join(tmpdir(), "compiled-scan-"));
  const bundle = join(folder, "read.mjs");
  await build({
    stdin: {
      contents: `import { bytesView } from "@espalier/jsonl-stream";
        import { readPathWindow, Tree } from "@espalier/session-tree";
        import { readFileSync } from "node:fs";
        const view = bytesView(readFileSync(process.argv[2]));
        console.log([...new Tree(view).ids(), ...readPathWindow(view).entries.map(({ id }) => id)].join(" "));`,
      resolveDir: import.meta.dirname,
    },
    bundle: true,
    banner: { js: before },
    platform: "node",
    format: "esm",
    outfile: bundle,
  });
  const log = join(folder, "log.jsonl");
  const torn = message("b", "a", "y").slice(0, 70);
  const noEntry = '{"type":"custom","id":"q","parentIdx":"a"}\n';
  writeFileSync(log, `${HEADER}\n${message("a", "", "x")}${torn}${noEntry}${torn}${message("c", "a", "z")}`);
  const said = execFileSync("bash", ["-c", `${command} "$0" "$1"`, bundle, log], { encoding: "utf8" });
  // The line that is cut keeps its place, as `b`.
  expect(said.trim()).toBe("a b c a c");
  rmSync(folder, { recursive: true });
});

test("a log that is read while another one is being read gives the same tree", () => {
  fc.assert(
    fc.property(damagedLog({ inOrder: false }), (log) => {
      const within: Tree[] = [];
      const bytes = bytesOf(log);
      const tree = new Tree(interrupted(bytes, (view) => new Tree(view), within));
      expect(within.length).toBeGreaterThan(bytes.length > 0 ? 0 : -1);
      for (const other of within) {
        expect(rowsOf(other)).toEqual(rowsOf(tree));
        expect(other.issues).toEqual(tree.issues);
        expect(other.lastRow).toBe(tree.lastRow);
      }
    }),
    RUNS,
  );
});

test("a path that is read while another one is being read is the same path", () => {
  fc.assert(
    fc.property(damagedLog({ inOrder: false }), (log) => {
      const within: string[][] = [];
      const ids = windowIds(interrupted(bytesOf(log), windowIds, within));
      for (const other of within) expect(other).toEqual(ids);
    }),
    RUNS,
  );
});

test("an entry joined to a torn line is found at any position in a block and at any distance from its `parentId`", () => {
  const whole = message("c", "b", "glued");
  fc.assert(
    fc.property(fc.nat({ max: 200 }), fc.nat({ max: 300 }), fc.nat({ max: 4_000 }), (before, cut, within) => {
      const torn = message("b", "a", "I".repeat(within)).slice(0, 60 + Math.min(cut, within));
      const log = `${HEADER}\n${" ".repeat(before)}\n${message("a", "", "x")}${message("b", "a", "y")}${torn}${whole}${message("d", "c", "z")}`;
      const tree = new Tree(bytesView(bytesOf(log)));
      expect([...tree.ids()]).toEqual(["a", "b", "c", "d"]);
      expect(windowIds(bytesView(bytesOf(log)))).toEqual(["a", "b", "c", "d"]);
    }),
    RUNS,
  );
});

test("lines longer than a block, and more lines than a block has room for, are read correctly", () => {
  const lines = [`${HEADER}\n`, message("a", "", "x")];
  for (let at = 0; at < 300; at++) {
    const parent = at === 0 ? "a" : `e${at - 1}`;
    const length = at === 50 || at === 52 ? 1_500_000 : at === 120 ? 9_000_000 : (at * 977) % 30_000;
    lines.push(message(`e${at}`, parent, "I said: Id".repeat(length / 10)));
    if (at === 200) lines.push("\n".repeat(70_000));
    if (at === 210) lines.push(message("torn", "e0", "cut").slice(0, 70));
  }
  const bytes = bytesOf(lines.join(""));
  const tree = new Tree(bytesView(bytes));
  const naive = readNaively(bytes);
  expect(rowsOf(tree).map(([id, offset, , parent]) => [id, offset, parent])).toEqual(
    naive.rows.map(({ id, offset, parent }) => [id, offset, parent]),
  );
  expect(windowIds(bytesView(bytes))).toEqual(["a", ...Array.from({ length: 300 }, (_, at) => `e${at}`)]);
});
