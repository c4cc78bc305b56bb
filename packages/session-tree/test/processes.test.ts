import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { SessionTree } from "@espalier/session-tree";
import { FileLog, fileStore } from "@espalier/session-tree/node";
import { buildSync } from "esbuild";
import { afterAll, expect, test } from "vitest";

const home = mkdtempSync(join(tmpdir(), "espalier-"));
afterAll(() => rmSync(home, { recursive: true }));
const program = join(home, "hard-pressed.mjs");
buildSync({
  entryPoints: [fileURLToPath(new URL("hard-pressed.ts", import.meta.url))],
  bundle: true,
  platform: "node",
  format: "esm",
  target: "node20",
  outfile: program,
});

/** A process of the program, and the lines it has said so far. */
function start(args: readonly string[], shell = ""): { child: ChildProcess; said: string[] } {
  const child = spawn("sh", ["-c", `${shell} exec "$0" "$@"`, process.execPath, program, ...args], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const said: string[] = [];
  let rest = "";
  child.stdout!.setEncoding("utf8").on("data", (text: string) => {
    const lines = (rest + text).split("\n");
    rest = lines.pop()!;
    said.push(...lines);
  });
  return { child, said };
}

let made = 0;
/** A session of the first format with two messages. */
function oldSession(): { file: string; bytes: string } {
  const file = join(home, `old-${++made}.jsonl`);
  const timestamp = "2025-01-01T00:00:00.000Z";
  const said = (content: string) => ({ type: "message", timestamp, message: { role: "user", content } });
  const lines = [{ type: "session", id: "old", timestamp, cwd: "/garden" }, said("one"), said("two")];
  const bytes = lines.map((line) => `${JSON.stringify(line)}\n`).join("");
  writeFileSync(file, bytes);
  return { file, bytes };
}

const entriesOf = async (file: string) => {
  const session = await SessionTree.open(FileLog.open(file, "read"));
  const found = { ids: [...session.tree.ids()].slice(2), version: session.header?.version };
  await session.close();
  return found;
};

test("what one process appends while another one upgrades the file is kept", async () => {
  const { file, bytes } = oldSession();
  const first = start(["upgrading", file, "first", "stop"]);
  while (!first.said.includes("stopped")) await new Promise((resolve) => setTimeout(resolve, 5));
  const second = start(["upgrading", file, "second"]);
  while (!second.said.includes("open")) await new Promise((resolve) => setTimeout(resolve, 5));
  // Long enough to overtake the first, if it could.
  const isOver = once(second.child, "close");
  await Promise.race([isOver, new Promise((resolve) => setTimeout(resolve, 600))]);
  writeFileSync(`${file}.go`, "");
  await Promise.all([isOver, first.child.exitCode ?? once(first.child, "close")]);
  expect(first.said).toEqual(["open", "stopped", "ok"]);
  expect(second.said).toEqual(["open", "changed", "open", "ok"]);
  const { ids, version } = await entriesOf(file);
  // The second may append between the first's upgrade and its append.
  expect({ ids: ids.sort(), version }).toEqual({ ids: ["first", "second"], version: 3 });
  expect(readFileSync(`${file}.v1`, "utf8")).toBe(bytes);
});

test("a process that dies while it upgrades a file does not prevent others from upgrading it", async () => {
  const { file, bytes } = oldSession();
  const first = start(["upgrading", file, "first", "stop"]);
  while (!first.said.includes("stopped")) await new Promise((resolve) => setTimeout(resolve, 5));
  first.child.kill("SIGKILL");
  await once(first.child, "close");
  const second = start(["upgrading", file, "second"]);
  await once(second.child, "close");
  expect(second.said).toEqual(["open", "ok"]);
  expect((await entriesOf(file)).ids).toEqual(["second"]);
  expect(readFileSync(`${file}.v1`, "utf8")).toBe(bytes);
});

test("of six processes that append to an old file at once, every entry is in the file", async () => {
  const { file } = oldSession();
  const names = ["a", "b", "c", "d", "e", "f"];
  const running = names.map((name) => start(["upgrading", file, name]));
  await Promise.all(running.map(({ child }) => once(child, "close")));
  for (const { said } of running) expect(said.at(-1)).toBe("ok");
  expect((await entriesOf(file)).ids.sort()).toEqual(names);
});

test("with no descriptor left, a lease is still released, every failure has a code, and no file remains", async () => {
  const store = fileStore({ home });
  const timestamp = "2026-01-01T00:00:00.000Z";
  const log = await store.create({ type: "session", version: 3, id: "pressed", timestamp, cwd: "/" });
  await log.close();
  const { child, said } = start(["pressed", home, log.ref], "ulimit -n 64;");
  await once(child, "close");
  expect(said.at(-1)).toBe("over");
  expect(said.filter((line) => line === "held").length).toBeGreaterThan(20);
  const failures = new Set(said.slice(0, -1).filter((line) => line !== "held"));
  for (const failure of failures) expect(["write-failed", "unreadable"]).toContain(failure);
  await (await store.lease({ file: log.ref })).release();
  expect(readdirSync(join(log.ref, "..")).filter((name) => name.includes("lease"))).toEqual([]);
});
