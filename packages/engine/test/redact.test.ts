import { mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { createSession, defineExtension, listSessions, rulesOf } from "@espalier/engine";
import { custom, message, redactText } from "@espalier/session-tree";
import { afterAll, expect, test } from "vitest";

const home = mkdtempSync(join(tmpdir(), "espalier-"));
afterAll(() => rmSync(home, { recursive: true }));

/** Put together here, so that no scanner takes this file for a leak. */
const SECRET = `sk-${"ant"}-api03-${"aB3dE5gH7jK9mN1pQ".repeat(6).slice(0, 90)}`;

const open = (options = {}) => createSession({ home, ...options });

test("a key never reaches the disk or the context, in any kind of entry", async () => {
  const session = await open();
  await session.appendMessages([{ role: "user", content: `Use ${SECRET}` }]);
  await session.append([
    custom.of({ customType: "test", data: { deep: [{ key: SECRET }] } }),
    message.of({
      message: {
        role: "toolResult",
        toolCallId: "c1",
        toolName: "bash",
        content: [{ type: "text", text: `KEY=${SECRET}` }],
        details: { stdout: SECRET },
        isError: false,
        timestamp: 0,
      },
    }),
  ]);
  await session.rename(`With ${SECRET}`);
  await session.label(session.leafId!, SECRET);
  await session.branchWithSummary(null, `They used ${SECRET}.`);
  const fork = await session.fork(session.leafId!);
  expect(JSON.stringify(session.context)).not.toContain(SECRET);
  await session.close();
  for (const file of [session.file, fork.file])
    expect(readFileSync(file, "utf8")).not.toContain(SECRET.slice(8));
  expect(readFileSync(session.file, "utf8").match(/\[redacted anthropic key\]/g)?.length).toBe(7);
});

test("an extension's additions are redacted too, and a custom redactor replaces the built-in one", async () => {
  const adding = defineExtension((api) => {
    api.on("entry_before_append", ({ entry }) => ({ entry: { ...entry, extra: SECRET } as typeof entry }));
  });
  const session = await open({ extensions: [adding] });
  await session.append(custom.of({ customType: "test" }));
  expect(readFileSync(session.file, "utf8")).not.toContain(SECRET);
  await session.close();
  const own = await open({ redact: (text: string) => text.replaceAll("swordfish", "***") });
  await own.append(custom.of({ customType: "test", data: `swordfish ${SECRET}` }));
  expect(readFileSync(own.file, "utf8")).toContain(`*** ${SECRET}`);
  await own.close();
});

test("a rule in the words of an extension is redacted too", async () => {
  const naming = defineExtension((api) => {
    api.on("rules_found", ({ found }) => {
      found.rules = [{ text: `never print ${SECRET}`, kind: "never", range: [0, 1] }];
    });
  });
  const session = await open({ extensions: [naming] });
  await session.appendMessages([{ role: "user", content: "Keep the key to yourself." }]);
  expect(rulesOf(session).map(({ text }) => text)).toEqual(["never print [redacted anthropic key]"]);
  await session.close();
  expect(readFileSync(session.file, "utf8")).not.toContain(SECRET);
});

test("a folder name with a key is written without it, always in the same way, and sessions work there", async () => {
  const folder = join(mkdtempSync(join(tmpdir(), "espalier-")), `checkout-${SECRET}`);
  mkdirSync(folder);
  const before = process.cwd();
  process.chdir(folder);
  try {
    const folders: string[] = [];
    const noting = defineExtension((api) => {
      api.on("session_start", (_event, context) => {
        folders.push(context.cwd);
      });
    });
    const files = [];
    for (const _ of [1, 2]) {
      const session = await open({ extensions: [noting] });
      await session.appendMessages([{ role: "user", content: "Here" }]);
      files.push(session.file);
      await session.close();
    }
    for (const file of files) expect(readFileSync(file, "utf8")).not.toContain(SECRET.slice(8));
    expect(dirname(files[0]!)).toBe(dirname(files[1]!));
    expect(folders).toEqual([process.cwd(), process.cwd()]);
    const places: string[] = [];
    for await (const { ref, cwd } of listSessions({ home })) if (files.includes(ref)) places.push(cwd);
    expect(places).toEqual([redactText(process.cwd()), redactText(process.cwd())]);
  } finally {
    process.chdir(before);
  }
});

test("redacting can be switched off, by name", async () => {
  const session = await open({ redact: false });
  await session.append(custom.of({ customType: "test", data: SECRET }));
  expect(readFileSync(session.file, "utf8")).toContain(SECRET);
  await session.close();
});
