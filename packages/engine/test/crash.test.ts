import { spawn } from "node:child_process";
import { once } from "node:events";
import {
  existsSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { copySession, createSession, openSession, runStateOf, SENT, sentEntry } from "@espalier/engine";
import { buildSync } from "esbuild";
import { afterAll, expect, test } from "vitest";

const home = mkdtempSync(join(tmpdir(), "espalier-"));
afterAll(() => rmSync(home, { recursive: true }));

const question = [{ role: "user", content: "What grows here?" }];
const answer = [{ role: "assistant", content: [{ type: "text", text: "Pears." }] }];

test("a prompt that was never sent, sent without an answer, or answered is distinguished", async () => {
  const session = await createSession({ home });
  const reopened = async () => {
    const again = await openSession({ file: session.file }, { home, mode: "read" });
    const state = runStateOf(again);
    await again.close();
    return state;
  };
  expect(await reopened()).toEqual({ state: "answered" });
  const [asked] = await session.appendMessages(question as never);
  expect(await reopened()).toEqual({ state: "unsent", entryId: asked!.id });
  const [sent] = await session.append(sentEntry(session.leafId, "gardener-1"), { durability: "fsync" });
  expect(await reopened()).toEqual({
    state: "outcome-unknown",
    entryId: sent!.id,
    model: "gardener-1",
    sentAt: sent!.timestamp,
  });
  await session.label(asked!.id, "here");
  expect((await reopened()).state).toBe("outcome-unknown");
  await session.appendMessages(answer as never);
  expect(await reopened()).toEqual({ state: "answered" });
  await session.navigate(sent!.id);
  expect((await reopened()).state).toBe("outcome-unknown");
  await session.navigate(null);
  expect(await reopened()).toEqual({ state: "answered" });
  await session.close();
});

test("a process killed while sending leaves a session that records it", async () => {
  const program = join(home, "sender.mjs");
  buildSync({
    entryPoints: [fileURLToPath(new URL("sender.ts", import.meta.url))],
    bundle: true,
    platform: "node",
    format: "esm",
    outfile: program,
    banner: { js: "import{createRequire as r}from'node:module';const require=r(import.meta.url);" },
  });
  const child = spawn(process.execPath, [program, home], { stdio: ["ignore", "pipe", "inherit"] });
  const [said] = (await once(child.stdout, "data")) as [Buffer];
  child.kill("SIGKILL");
  await once(child, "close");
  const file = said.toString().trim();
  const session = await openSession({ file }, { home });
  expect(session.context.messages).toMatchObject([{ role: "user", content: "What grows here?" }]);
  expect(runStateOf(session)).toMatchObject({ state: "outcome-unknown", model: "gardener-1" });
  expect(session.getEntry(session.leafId!)).toMatchObject({ customType: SENT });
  await session.close();
});

test("an open session can be copied after its file was removed or replaced", async () => {
  const session = await createSession({ home });
  await session.appendMessages(question as never);
  const content = readFileSync(session.file);
  rmSync(session.file);
  await expect(session.appendMessages(question as never)).rejects.toMatchObject({ code: "removed" });
  expect(existsSync(session.file)).toBe(false);
  const saves = ["removed", "replaced"].map((name) => session.file.replace(/\.jsonl$/, `.${name}.jsonl`));
  await copySession(session.log, session.store, saves[0]);
  writeFileSync(session.file, "somebody else's\n");
  await expect(session.appendMessages(question as never)).rejects.toMatchObject({ code: "changed" });
  await copySession(session.log, session.store, saves[1]);
  for (const save of saves) expect(readFileSync(save).equals(content)).toBe(true);
  expect(readFileSync(session.file, "utf8")).toBe("somebody else's\n");
  await session.close();
  const saved = await openSession({ file: saves[1]! }, { home });
  await saved.appendMessages(answer as never);
  await saved.close();
});

test("a session whose file was emptied is refused, and nothing is written into it", async () => {
  const session = await createSession({ home });
  await session.appendMessages(question as never);
  truncateSync(session.file, 0);
  await expect(session.appendMessages(question as never)).rejects.toMatchObject({ code: "shrunk" });
  await expect(copySession(session.log, session.store, `${session.file}.saved`)).rejects.toMatchObject({
    code: "shrunk",
  });
  expect(statSync(session.file).size).toBe(0);
  await session.close();
});
