import { execFile } from "node:child_process";
import { copyFileSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { offloadedPath } from "@espalier/compaction/policies";
import { openSession } from "@espalier/engine";
import { anthropicFormat, buildRequest, compaction, contextEdit } from "@espalier/session-tree";
import { checkAnthropicRequest } from "@espalier/session-tree/testing";
import { buildSync } from "esbuild";
import { afterAll, beforeAll, expect, test } from "vitest";
import { say, stage } from "./policy-stage.ts";

const folder = mkdtempSync(join(tmpdir(), "espalier-"));
const program = join(folder, "victim.mjs");
afterAll(() => rmSync(folder, { recursive: true }));

beforeAll(() => {
  buildSync({
    entryPoints: [fileURLToPath(new URL("policy-victim.ts", import.meta.url))],
    bundle: true,
    platform: "node",
    format: "esm",
    outfile: program,
    banner: { js: "import{createRequire as r}from'node:module';const require=r(import.meta.url);" },
  });
});

/** Runs the program on a copy of a session; how many calls it made when it lived, null when it was killed. */
async function run(original: string, file: string, scenario: string, dieAt: number): Promise<number | null> {
  copyFileSync(original, file);
  return new Promise((resolve, reject) => {
    execFile(process.execPath, [program, file, scenario, String(dieAt)], (error, stdout, stderr) => {
      if (error?.signal === "SIGKILL") resolve(null);
      else if (error || stderr !== "") reject(new Error(`It failed on its own. ${stderr}`, { cause: error }));
      else resolve(Number(stdout));
    });
  });
}

/** What a session is after its writer died: as it was, or further; valid, and with every file it speaks of. */
async function examine(file: string, before: string): Promise<{ edits: number; compactions: number }> {
  expect(readFileSync(file, "utf8").startsWith(before)).toBe(true);
  const read = await openSession({ file }, { mode: "read" });
  const { context } = read;
  const request = buildRequest(context, { format: anthropicFormat });
  expect(checkAnthropicRequest({ model: "m", max_tokens: 1_000, ...request })).toEqual([]);
  for (const path of context.messages.map(offloadedPath)) {
    if (path !== undefined) expect(readFileSync(path, "utf8")).toMatch(/^(one|two) .{20000}/s);
  }
  const branch = read.getBranch();
  await read.close();
  // It can be written again at once, and goes on from there.
  const session = await openSession({ file });
  await session.appendMessages([{ role: "user", content: "still there?" }]);
  expect(session.context.messages.at(-1)).toMatchObject({ content: "still there?" });
  await session.close();
  return {
    edits: branch.filter((entry) => contextEdit.is(entry)).length,
    compactions: branch.filter((entry) => compaction.is(entry)).length,
  };
}

async function killEverywhere(original: string, scenario: string): Promise<Set<string>> {
  const before = readFileSync(original, "utf8");
  const calls = (await run(original, join(folder, `${scenario}.jsonl`), scenario, 0))!;
  const seen = new Set<string>();
  let next = 0;
  const kill = async (): Promise<void> => {
    for (let dieAt = next++; dieAt <= calls; dieAt = next++) {
      const file = join(folder, `${scenario}-${dieAt}.jsonl`);
      // Call 0 is never made: that one lives.
      expect([dieAt, await run(original, file, scenario, dieAt)]).toEqual([
        dieAt,
        dieAt === 0 ? calls : null,
      ]);
      const { edits, compactions } = await examine(file, before);
      seen.add(`${edits} edits, ${compactions} compactions`);
    }
  };
  await Promise.all([kill(), kill(), kill()]);
  return seen;
}

test("a kill at any call of an offload and its compaction loses nothing", async () => {
  const session = await stage();
  await session.appendMessages([{ role: "user", content: "read both" }]);
  for (const id of ["one", "two"]) {
    const toolCall = { type: "toolCall", id, name: "read", arguments: { path: id } };
    await session.appendMessages([
      { role: "assistant", content: [toolCall] },
      { role: "toolResult", toolCallId: id, content: `${id} `.repeat(6_000) },
    ]);
  }
  await say(session, 9, 1);
  await session.close();
  const seen = await killEverywhere(session.file, "offload");
  // Some died before anything was written, some between the edits and the compaction, some behind it.
  expect([...seen]).toEqual(
    expect.arrayContaining(["0 edits, 0 compactions", "2 edits, 0 compactions", "2 edits, 1 compactions"]),
  );
  // The one that lived has removed what nobody refers to any more.
  expect(readdirSync(join(folder, "offload.offloaded"))).toEqual([]);
});

test("a kill at any call of compactions in the background loses nothing", async () => {
  const session = await stage();
  await say(session, 6);
  await session.close();
  const seen = await killEverywhere(session.file, "window");
  expect([...seen]).toEqual(
    expect.arrayContaining(["0 edits, 0 compactions", "0 edits, 1 compactions", "0 edits, 2 compactions"]),
  );
});
