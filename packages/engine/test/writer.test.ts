import { readFileSync } from "node:fs";
import { createSession, openSession } from "@espalier/engine";
import { memoryStore } from "@espalier/session-tree";
import { expect, test } from "vitest";

const versionOf = (name: string): string =>
  JSON.parse(readFileSync(new URL(`../../${name}/package.json`, import.meta.url), "utf8")).version;

test("a new session and a fork name the program and version that created them", async () => {
  const store = memoryStore();
  const session = await createSession({ store });
  await session.appendMessages([{ role: "user", content: "Hello" }]);
  const fork = await session.fork(session.leafId!);
  const opened = await openSession({ file: fork.file }, { store, mode: "read" });
  for (const name of ["session-tree", "engine"])
    for (const { header } of [session, opened])
      expect(header).toMatchObject({ version: 3, writer: `espalier/${versionOf(name)}` });
  await opened.close();
  await session.close();
});
