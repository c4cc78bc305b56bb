import { encodeLines } from "@espalier/jsonl-stream";
import { expect, test } from "vitest";
import { formatAddress, parseAddress } from "../src/page/app/address.ts";
import { localSource } from "../src/page/source/page-source.ts";

const session = (id: string, said: string) =>
  encodeLines(
    [
      { type: "session", version: 3, id, timestamp: "2026-01-01T00:00:00.000Z", cwd: "/garden" },
      {
        type: "message",
        id: "a",
        parentId: null,
        timestamp: "",
        message: { role: "user", content: said, timestamp: 1 },
      },
    ].map((line) => JSON.stringify(line)),
  );

test("a loaded session is found by its address, whatever its name", async () => {
  for (const name of ["plain", "säule.jsonl", "日本", "50%", "a/b ?#", "lone \ud800"]) {
    const local = localSource();
    const key = await local.add("file.jsonl", session(name, "first"));
    await local.add("another.jsonl", session("another", "second"));
    const { session: named } = parseAddress(formatAddress({ session: key, tab: "usage" }));
    const [found] = (await (await local.open(named!)).find("first")).newest;
    expect(found?.snippet).toBe("first");
  }
});

test("the only session is shown under any name; of several, an unknown name shows none", async () => {
  const local = localSource();
  await local.add("one.jsonl", session("one", "first"));
  expect((await (await local.open("one~of a server")).facts()).id).toBe("one");
  await local.add("two.jsonl", session("two", "second"));
  await expect(local.open("three")).rejects.toMatchObject({ code: "not-found" });
});
