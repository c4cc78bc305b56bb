import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createSession, defineExtension, type Extension, openSession } from "@espalier/engine";
import {
  type BaseEntry,
  defineEntry,
  type EntryKind,
  memoryStore,
  messageText,
  type SessionContext,
} from "@espalier/session-tree";
import { expect, test } from "vitest";
import { newFile, stage } from "./policy-stage.ts";

interface Weather extends BaseEntry {
  type: "garden.weather";
  degrees: number;
}

/** A kind with everything that a kind of one's own may say. */
const weather = defineEntry<Weather>("garden.weather", {
  movesLeaf: true,
  toMessages: ({ degrees, timestamp }) => [
    { role: "user", content: `It is ${degrees} degrees.`, timestamp: Date.parse(timestamp) },
  ],
  problem: ({ degrees }) => (Number.isFinite(degrees) ? undefined : "`degrees` is not a number"),
  durability: () => "fsync",
  draw: ({ degrees }) => `${degrees} °C`,
});

const kinds = [weather];
const texts = ({ context }: { context: SessionContext }) => context.messages.map(messageText);

test("a kind in the options defines the messages of its entries, now and after reopening", async () => {
  const session = await stage({ kinds });
  await session.appendMessages([{ role: "user", content: "How is it?" }]);
  const [entry] = await session.append(weather.of({ degrees: 21 }));
  expect(session.leafId).toBe(entry!.id);
  expect(texts(session)).toEqual(["How is it?", "It is 21 degrees."]);
  expect(session.contextAt(entry!.id)).toEqual(session.context);
  await session.close();
  const reopened = await openSession({ file: session.file }, { kinds });
  expect(texts(reopened)).toEqual(["How is it?", "It is 21 degrees."]);
  expect(texts({ context: reopened.contextAt(entry!.id) })).toEqual(["How is it?", "It is 21 degrees."]);
  await reopened.hide(entry!.id);
  expect(texts(reopened)).toEqual(["How is it?"]);
  await reopened.close();
});

test("a reader without the kind keeps the entry as data, also in the same process, and finds the same leaf", async () => {
  const session = await stage({ kinds });
  await session.appendMessages([{ role: "user", content: "How is it?" }]);
  const [entry] = await session.append(weather.of({ degrees: 21 }));
  const reader = await openSession({ file: session.file }, { mode: "read" });
  expect(reader.leafId).toBe(session.leafId);
  expect(texts(reader)).toEqual(["How is it?"]);
  expect(reader.getEntry(entry!.id)).toMatchObject({ type: "garden.weather", degrees: 21 });
  expect(texts(session)).toHaveLength(2);
  await reader.close();
  await session.close();
  const writer = await openSession({ file: session.file });
  await writer.appendMessages([{ role: "assistant", content: "Warm." }]);
  await writer.close();
  const again = await openSession({ file: session.file }, { kinds, mode: "read" });
  expect(texts(again).slice(0, 2)).toEqual(["How is it?", "It is 21 degrees."]);
  expect(again.context.messages).toHaveLength(3);
  await again.close();
});

test("an append is refused for a problem that the kind reports, and has the durability of the kind", async () => {
  const session = await stage({ kinds });
  const before = readFileSync(session.file, "utf8");
  await expect(session.append(weather.of({ degrees: Number.NaN }))).rejects.toMatchObject({
    code: "invalid-entry",
    message: "The garden.weather entry is not valid: `degrees` is not a number.",
  });
  expect(readFileSync(session.file, "utf8")).toBe(before);
  let flushes = 0;
  const flush = session.log.flush.bind(session.log);
  session.log.flush = async () => {
    flushes++;
    await flush();
  };
  await session.append({ type: "garden.unknown" });
  expect(flushes).toBe(0);
  await session.append(weather.of({ degrees: 3 }));
  expect(flushes).toBe(1);
  await session.close();
});

test("an extension registers a kind, in its setup or later, and it applies to existing entries", async () => {
  const early: Extension = (api) => api.registerKind(weather);
  const late = defineExtension("late", (api) => {
    api.on("session_start", () => api.registerKind(weather));
  });
  for (const extension of [early, late]) {
    const store = memoryStore();
    const session = await createSession({ store, extensions: [extension] });
    await session.append(weather.of({ degrees: 4 }));
    expect(texts(session)).toEqual(["It is 4 degrees."]);
    await session.close();
    const reopened = await openSession(session.id, { store, extensions: [extension], mode: "read" });
    expect(texts(reopened)).toEqual(["It is 4 degrees."]);
    await reopened.close();
  }
});

test("an extension file gets defineEntry from the host, by name", async () => {
  const session = await stage();
  await session.append({ type: "garden.weather", degrees: 5 } as never);
  await session.close();
  const file = join(newFile(), "../kinds.ts");
  writeFileSync(
    file,
    `import { defineEntry } from "@espalier/session-tree";
export default (api: any) => api.registerKind(defineEntry("garden.weather", {
  movesLeaf: true,
  toMessages: (entry: any) => [{ role: "user", content: entry.degrees + " degrees", timestamp: 0 }],
}));`,
  );
  const reopened = await openSession({ file: session.file }, { extensions: [file], mode: "read" });
  expect(texts(reopened)).toEqual(["5 degrees"]);
  await reopened.close();
});

test("a kind that would change the path for readers without it, or that takes an existing type, is refused", async () => {
  const refused = async (kind: EntryKind, code: string, words: string) => {
    const error: unknown = await createSession({ store: memoryStore(), kinds: [weather, kind] }).catch(
      (e) => e,
    );
    expect(error).toMatchObject({ code });
    expect((error as Error).message).toContain(words);
  };
  await refused(defineEntry("x", { movesLeaf: false }), "bad-kind", "another leaf");
  await refused(defineEntry("x", { movesLeaf: true, title: 5 as never }), "bad-kind", "`title` is not text");
  await refused(defineEntry("x", { movesLeaf: true, firstKept: ({ id }) => id }), "bad-kind", "firstKept");
  await refused(
    defineEntry("x", { movesLeaf: true, settings: () => ({ thinkingLevel: "high" }) }),
    "bad-kind",
    "settings",
  );
  await refused(defineEntry("session", { movesLeaf: true }), "bad-kind", "header");
  await refused(defineEntry("message", { movesLeaf: true }), "exists", "already");
  await refused(defineEntry("garden.weather", { movesLeaf: true }), "exists", "already");
});

test("an entry whose kind throws gives no messages, stops nothing, and is reported by doctor", async () => {
  const session = await stage();
  await session.appendMessages([{ role: "user", content: "How is it?" }]);
  const [entry] = await session.append({ type: "garden.weather" });
  await session.close();
  const strict = defineEntry<Weather>("garden.weather", {
    movesLeaf: true,
    toMessages: ({ degrees }) => [{ role: "user", content: degrees.toFixed(1), timestamp: 0 }],
  });
  const reopened = await openSession({ file: session.file }, { kinds: [strict], mode: "read" });
  expect(texts(reopened)).toEqual(["How is it?"]);
  const { issues } = reopened.diagnose();
  expect(issues).toMatchObject([{ id: entry!.id }]);
  expect(issues[0]!.message).toContain("its kind fails on it");
  await reopened.close();
});
