import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { setTimeout } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { encodeLines, parseLine, salvageLine, scanLines } from "@espalier/jsonl-stream";
import { openAppendFile, openView } from "@espalier/jsonl-stream/node";
import { buildSync } from "esbuild";
import { expect, test } from "vitest";
import { existing, temporaryFolder } from "./temporary-folder.ts";

const { path } = temporaryFolder();
const program = path("appender.mjs");
buildSync({
  entryPoints: [fileURLToPath(new URL("appender.ts", import.meta.url))],
  bundle: true,
  platform: "node",
  format: "esm",
  outfile: program,
});

interface Appender {
  child: ChildProcess;
  acked: number[];
  /** Resolves when it has opened the file and waits to begin. */
  ready: Promise<void>;
  begin(): void;
}

function startAppender(file: string, writer: string, count: number, largest: number): Appender {
  const child = spawn(process.execPath, [program, file, writer, `${count}`, `${largest}`], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  const acked: number[] = [];
  let rest = "";
  const ready = new Promise<void>((resolve, reject) => {
    child.once("error", reject);
    child.stdout!.on("data", (data: Buffer) => {
      const lines = (rest + data.toString()).split("\n");
      rest = lines.pop()!;
      if (lines[0] === "ready") {
        lines.shift();
        resolve();
      }
      acked.push(...lines.map(Number));
    });
  });
  return { child, acked, ready, begin: () => void child.stdin!.end("x") };
}

interface Reading {
  /** How often each line stands in the file by itself, as `writer n`. */
  counts: Map<string, number>;
  bad: Uint8Array[];
  blank: number;
}

const nameOf = (value: unknown): string => {
  const { writer, n } = value as { writer: string; n: number };
  return `${writer} ${n}`;
};

function readAll(file: string): Reading {
  const view = openView(file);
  const reading: Reading = { counts: new Map(), bad: [], blank: 0 };
  for (const { bytes } of scanLines(view)) {
    const parsed = parseLine(bytes);
    if (parsed.ok)
      reading.counts.set(nameOf(parsed.value), (reading.counts.get(nameOf(parsed.value)) ?? 0) + 1);
    else if (parsed.problem.kind === "blank") reading.blank += 1;
    else reading.bad.push(bytes.slice());
  }
  view.close();
  return reading;
}

test("two processes that append at once lose and tear nothing, and a reader sees only whole lines", async () => {
  const file = path("two.jsonl");
  const reader = openAppendFile(existing(file), { mode: "write" });
  const appenders = ["left", "right"].map((writer) => startAppender(file, writer, 500, 20_000));
  await Promise.all(appenders.map(({ ready }) => ready));
  for (const { begin } of appenders) begin();
  let running = appenders.length;
  for (const { child } of appenders) child.once("close", () => (running -= 1));
  let seen = 0;
  let end = 0;
  const follow = (): void => {
    const span = reader.takeIn();
    if (span === null) return;
    expect(span.from).toBe(end);
    for (const line of scanLines(reader.view(), span)) {
      seen += line.length === 0 ? 0 : 1;
      expect(line.terminated).toBe(true);
    }
    end = span.to;
  };
  while (running > 0) {
    follow();
    await new Promise((resolve) => setImmediate(resolve));
  }
  follow();
  reader.close();
  const { counts, bad } = readAll(file);
  expect(bad).toHaveLength(0);
  expect(counts.size).toBe(1_000);
  expect([...counts.values()].every((count) => count === 1)).toBe(true);
  for (const { acked } of appenders) expect(acked).toHaveLength(500);
  expect(seen).toBe(1_000);
});

test("a process killed during appends loses nothing acknowledged, and neither does a running process", async () => {
  const file = path("killed.jsonl");
  const neighbour = openAppendFile(existing(file), { mode: "write" });
  const acked: string[] = [];
  for (let round = 0; round < 20; round += 1) {
    const appender = startAppender(file, `w${round}`, 1_000_000, 1_000_000);
    await appender.ready;
    appender.begin();
    // While it appends, so do we; but not right before it dies, since our write would wait for its to end.
    const until = performance.now() + 4;
    for (let n = 0; performance.now() < until || appender.acked.length === 0; n += 1) {
      neighbour.append(encodeLines([JSON.stringify({ writer: `n${round}`, n })]));
      acked.push(`n${round} ${n}`);
      await new Promise((resolve) => setImmediate(resolve));
    }
    await setTimeout(1 + (round % 5));
    appender.child.kill("SIGKILL");
    await once(appender.child, "close");
    acked.push(...appender.acked.map((n) => `w${round} ${n}`));
  }
  neighbour.append(encodeLines([JSON.stringify({ writer: "last", n: 0 })]));
  neighbour.close();
  const { counts, bad } = readAll(file);
  expect(acked.length).toBeGreaterThan(100);
  expect(acked.filter((name) => !counts.has(name))).toEqual([]);
  expect(counts.has("last 0")).toBe(true);
  // At most one torn line a kill; what was glued to it stands elsewhere by itself.
  expect(bad.length).toBeLessThanOrEqual(20);
  for (const line of bad) {
    const glued = salvageLine(line, '{"writer":');
    if (glued) expect(counts.has(nameOf(glued.value))).toBe(true);
  }
});
