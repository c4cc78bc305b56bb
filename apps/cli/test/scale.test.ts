import { closeSync, createReadStream, openSync, statSync, writeSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { expect, test } from "vitest";
import { HEADER, start, temporaryFolder } from "./espalier.ts";

const ENTRIES = 1_000_000;
const REPLAYED = 300_000;

/** A chain of a million messages: 110 MB. */
function writeChain(file: string): void {
  const descriptor = openSync(file, "w");
  let lines = `${JSON.stringify(HEADER)}\n`;
  for (let at = 1; at <= ENTRIES; at++) {
    const parentId = at === 1 ? "null" : `"e${at - 1}"`;
    lines += `{"type":"message","id":"e${at}","parentId":${parentId},"timestamp":"","message":{"role":"user","content":"x"}}\n`;
    if (lines.length > 1 << 20 || at === ENTRIES) {
      writeSync(descriptor, lines);
      lines = "";
    }
  }
  closeSync(descriptor);
}

/** Runs a command whose output is too long for a string; its last characters and the number of its lines. */
async function run(parameters: readonly string[]) {
  const child = await start([...parameters, "--json"]);
  child.stdin.end();
  let bytes = 0;
  let lines = 0;
  let end = "";
  child.stdout.on("data", (piece: Buffer) => {
    bytes += piece.length;
    for (const byte of piece) if (byte === 10) lines++;
    end = (end + piece.toString("latin1")).slice(-400);
  });
  const code = await new Promise((resolve) => child.on("close", resolve));
  return { code, bytes, lines, end };
}

test("a chain of 1,000,000 entries is drawn, read, forked and replayed", {
  timeout: 300_000,
}, async () => {
  const folder = temporaryFolder();
  const chain = join(folder, "chain.jsonl");
  const fork = join(folder, "fork.jsonl");
  writeChain(chain);
  const [tree, context, forked, replayed] = await Promise.all([
    run(["tree", chain, "--ids"]),
    run(["context", chain]),
    run(["fork", chain, "e999999", "--out", fork]),
    // A step costs the same wherever it is: a part of them shows as much.
    run(["replay", chain, "--until", `e${REPLAYED}`]),
  ]);
  expect(tree).toMatchObject({ code: 0, lines: 1 });
  expect(tree.end).toMatch(
    /\{"id":"e1000000","parentId":"e999999","type":"message","label":null,"onPath":true,"archived":false\}\],"issues":\[\]\}\n$/,
  );
  expect(context).toMatchObject({ code: 0, lines: 1 });
  expect(context.end).toMatch(/"e999999","e1000000"\],"model":null,"thinkingLevel":"off"\}\n$/);
  expect(forked).toMatchObject({ code: 0 });
  expect(JSON.parse(forked.end)).toMatchObject({ leafId: "e999999" });
  expect(statSync(fork).size).toBeGreaterThan(statSync(chain).size - 400);
  expect(await linesIn(fork)).toBe(ENTRIES);
  expect(replayed).toMatchObject({ code: 0, lines: REPLAYED });
  expect(replayed.end).toMatch(/"contextMessages":300000,"contextTokens":300000\}\n$/);
});

async function linesIn(file: string): Promise<number> {
  let lines = 0;
  for await (const _ of createInterface({ input: createReadStream(file) })) lines++;
  return lines;
}
