// What authors of stores and policies build with, as they find it.
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createSession, memoryStore } from "espalier";
import * as door from "espalier/extend";
import {
  bytesView,
  firstHeader,
  listingOf,
  MemoryLeases,
  type Policy,
  planKeepingNewest,
  wordEstimator,
} from "espalier/extend";
import { scriptedSummarizer } from "espalier/testing";
import { expect, test } from "vitest";

const header = {
  type: "session",
  version: 3,
  id: "pears",
  timestamp: "2026-01-01T00:00:00.000Z",
  cwd: "/garden",
};
const said = {
  type: "message",
  id: "a",
  parentId: null,
  timestamp: "2026-01-01T00:00:01.000Z",
  message: { role: "user", content: "How are the pears?", timestamp: 1 },
};

test("a store reads the header of its bytes, lists them, and lends leases", async () => {
  const bytes = new TextEncoder().encode(`${JSON.stringify(header)}\n${JSON.stringify(said)}\n`);
  expect(firstHeader(bytesView(bytes))).toEqual(header);
  expect(
    listingOf(bytesView(bytes), { ref: "kept/pears", modified: "2026-01-02T00:00:00.000Z" }),
  ).toMatchObject({
    id: "pears",
    ref: "kept/pears",
    firstMessage: "How are the pears?",
  });
  const leases = new MemoryLeases();
  const lease = await leases.take("kept/pears");
  await expect(leases.take("kept/pears")).rejects.toMatchObject({ code: "busy" });
  await lease.release();
  await (await leases.take("kept/pears")).release();
});

test("a custom policy plans with the same functions as the others", async () => {
  const newestTwo: Policy = {
    name: "newest-two",
    judgedAt: "request",
    estimate: (message) => wordEstimator.estimate(message),
    judge: () => undefined,
    plan: (situation, options) => planKeepingNewest(2, situation, options),
  };
  const summarizer = scriptedSummarizer("## Goal\nRipe pears.");
  const session = await createSession({ store: memoryStore(), policy: newestTwo, summarizer });
  for (const day of ["Monday", "Tuesday", "Wednesday"])
    await session.appendMessages([
      { role: "user", content: `How were the pears on ${day}? ${"Look well. ".repeat(40)}` },
      { role: "assistant", content: [{ type: "text", text: `Riper than before ${day}.` }] },
    ]);
  await session.compact();
  const texts = session.context.messages.map((message) => JSON.stringify(message));
  expect(texts[0]).toContain("Ripe pears.");
  expect(texts.filter((text) => text.includes("Wednesday"))).toHaveLength(2);
  expect(texts.filter((text) => text.includes("Tuesday"))).toEqual([]);
  await session.close();
});

test("an extension file that imports any name of the door gets the program's own", async () => {
  const home = mkdtempSync(join(tmpdir(), "espalier-extend-"));
  const file = join(home, "imports.ts");
  writeFileSync(
    file,
    'import * as door from "espalier/extend";\nexport default ({ events }) => { events.on("door", (give) => give(door)); };',
  );
  const given = new Promise<Record<string, unknown>>((resolve) => {
    const asking = (api: import("espalier").EspalierApi) => api.events.emit("door", resolve);
    void createSession({ home, store: memoryStore(), extensions: [file, asking] });
  });
  const own = await given;
  const missing = Object.entries(door).filter(([name, value]) => own[name] !== value);
  expect(missing.map(([name]) => name)).toEqual([]);
  rmSync(home, { recursive: true });
});
