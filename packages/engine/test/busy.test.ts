import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { copySession, createSession, deleteSession, openSession } from "@espalier/engine";
import { EspalierError } from "@espalier/jsonl-stream";
import { memoryStore, type SessionLog, type SessionStore } from "@espalier/session-tree";
import { fileStore } from "@espalier/session-tree/node";
import { failingAnswer, scriptedSummarizer } from "@espalier/summarizer/testing";
import { afterAll, beforeEach, expect, test } from "vitest";
import { billed, bytesOf, plant, turn } from "./build-session.ts";

const home = mkdtempSync(join(tmpdir(), "espalier-"));
afterAll(() => rmSync(home, { recursive: true }));

let file = "";
beforeEach(async () => {
  const session = await createSession({ home });
  await session.appendMessages([{ role: "user", content: "What grows here?" }]);
  await session.close();
  file = session.file;
});

test("a session is leased from opening to closing, and a second opener gets an error that names the holder", async () => {
  const first = await openSession({ file }, { home });
  await expect(openSession({ file }, { home })).rejects.toMatchObject({
    code: "busy",
    holder: { pid: process.pid },
  });
  await expect(deleteSession({ file }, { home })).rejects.toMatchObject({ code: "busy" });
  const reader = await openSession({ file }, { home, mode: "read" });
  expect(reader.heldBy).toBeUndefined();
  await reader.close();
  await first.close();
  expect(existsSync(`${file}.lease`)).toBe(false);
  await (await openSession({ file }, { home })).close();
});

test("a new session is leased too", async () => {
  const session = await createSession({ home });
  await expect(openSession({ file: session.file }, { home })).rejects.toMatchObject({ code: "busy" });
  await session.close();
});

test("an error of opening or closing is thrown, and one of releasing the lease is logged", async () => {
  const failing = (code: "unreadable" | "write-failed") => () =>
    Promise.reject(new EspalierError(code, `It is ${code}.`));
  const memory = memoryStore();
  const made = await createSession({ store: memory });
  await made.close();
  let isOpening = true;
  const store: SessionStore = {
    ...memory,
    lease: async () => ({ release: failing("write-failed") }),
    open: async (ref, mode) => {
      if (isOpening) throw new EspalierError("unreadable", "It is unreadable.");
      return Object.assign(await memory.open(ref, mode), { close: failing("unreadable") });
    },
  };
  const logged: unknown[] = [];
  const log = { warn: () => {}, error: (_: string, facts?: object) => void logged.push(facts) };
  await expect(openSession(made.id, { store, log })).rejects.toMatchObject({ code: "unreadable" });
  isOpening = false;
  const session = await openSession(made.id, { store, log });
  await expect(session.close()).rejects.toMatchObject({ code: "unreadable" });
  expect(logged).toMatchObject([{ error: { code: "write-failed" } }, { error: { code: "write-failed" } }]);
});

test("a session with a writer can be read", async () => {
  const first = await openSession({ file }, { home });
  const second = await openSession({ file }, { home, onBusy: "read-only" });
  expect(second.heldBy).toMatchObject({ pid: process.pid });
  await expect(second.rename("x")).rejects.toMatchObject({ code: "read-only" });
  await second.close();
  await first.rename("still ours");
  await first.close();
});

test("a reader is not asked about entries that it cannot write", async () => {
  const { session, store } = await plant();
  const [, second] = session.getBranch();
  const main = session.leafId!;
  await session.navigate(second!.id);
  await session.appendMessages(turn("side"));
  await session.close();
  const summarizer = scriptedSummarizer(failingAnswer("unauthorized", billed(3)));
  const compaction = { keepRecentTokens: 20 };
  const reader = await openSession(
    { file: session.file },
    {
      store,
      mode: "read",
      leafId: main,
      summarizer,
      compaction,
    },
  );
  expect(reader.planCompaction()).toMatchObject({ eligible: true });
  for (const act of [
    () => reader.compact(),
    () => reader.navigate(second!.id, { summarize: true }),
    () => reader.merge(session.leafId!),
  ])
    await expect(act()).rejects.toMatchObject({ code: "read-only" });
  expect(summarizer.requests).toEqual([]);
  // A fork is written elsewhere; what it was billed for nothing is in its error.
  await expect(reader.fork(second!.id, { summarize: true, fallback: false })).rejects.toMatchObject({
    code: "unauthorized",
    usage: { input: 3 },
  });
  await reader.close();
});

test("an extension is not called for an entry that a newer version prevents from being written", async () => {
  const { session, store } = await plant();
  await session.close();
  const [header, ...lines] = Buffer.from(bytesOf(session)).toString().trimEnd().split("\n");
  await store.delete({ file: session.file });
  const newer = header!.replace('"version":3', '"version":4');
  await (await store.create(newer, lines, session.file)).close();
  const summarizer = scriptedSummarizer(failingAnswer("unauthorized", billed(3)));
  const compaction = { keepRecentTokens: 20 };
  const later = await openSession({ file: session.file }, { store, summarizer, compaction });
  const [first] = later.getBranch();
  for (const act of [() => later.compact(), () => later.navigate(first!.id, { summarize: true })])
    await expect(act()).rejects.toMatchObject({ code: "version" });
  expect(summarizer.requests).toEqual([]);
  await later.close();
});

test("a session with a writer can be forked, and the fork can be written", async () => {
  const first = await openSession({ file }, { home });
  const before = readFileSync(file);
  const fork = await openSession({ file }, { home, onBusy: "fork" });
  expect(fork.file).not.toBe(file);
  expect(fork.header?.parent).toMatchObject({ sessionId: first.id, kind: "fork" });
  expect(fork.heldBy).toMatchObject({ pid: process.pid });
  expect(fork.leafId).toBe(first.leafId);
  await fork.appendMessages([{ role: "user", content: "And there?" }]);
  await expect(openSession({ file: fork.file }, { home })).rejects.toMatchObject({ code: "busy" });
  await fork.close();
  expect(readFileSync(file).equals(before)).toBe(true);
  await first.close();
});

test("a session with a writer can be shared: two branches, nothing lost", async () => {
  const first = await openSession({ file }, { home });
  const second = await openSession({ file }, { home, onBusy: "share" });
  const leaf = first.leafId;
  await first.appendMessages([{ role: "user", content: "first" }]);
  await second.appendMessages([{ role: "user", content: "second" }]);
  expect(second.tree.length).toBe(3);
  expect(second.getEntry(second.leafId!)?.parentId).toBe(leaf);
  expect(first.getEntry(first.leafId!)?.parentId).toBe(leaf);
  await second.close();
  // The lease is still the first one's.
  await expect(openSession({ file }, { home })).rejects.toMatchObject({ code: "busy" });
  await first.close();
});

test("a label can be appended while another process writes", async () => {
  const first = await openSession({ file }, { home });
  const beside = await openSession({ file }, { home, lease: false });
  await beside.label(first.leafId!, "here");
  await beside.close();
  await first.refresh();
  expect(first.getLabel(first.leafId!)).toBe("here");
  await first.close();
});

test("a label that is appended beside a writer leaves the leaf where the writer moved it", async () => {
  const writer = await openSession({ file }, { home });
  const beside = await openSession({ file }, { home, lease: false });
  await writer.appendMessages([{ role: "assistant", content: "Pears." }]);
  await beside.label(writer.window.entries[0]!.id, "here");
  await beside.rename("The garden");
  await beside.close();
  const { leafId } = writer;
  await writer.close();
  const again = await openSession({ file }, { home, mode: "read" });
  expect(again.leafId).toBe(leafId);
  await again.close();
});

test("a label that is appended beside a writer leaves the leaf where the writer navigated to", async () => {
  const writer = await openSession({ file }, { home });
  const [first] = writer.getBranch();
  await writer.appendMessages([{ role: "assistant", content: "Pears." }]);
  const beside = await openSession({ file }, { home, lease: false });
  await writer.moveTo(first!.id);
  await writer.appendMessages([{ role: "assistant", content: "Plums." }]);
  await beside.label(first!.id, "here");
  await beside.close();
  const { leafId } = writer;
  await writer.close();
  const again = await openSession({ file }, { home, mode: "read" });
  expect(again.leafId).toBe(leafId);
  await again.close();
});

test("a pin that is appended beside a writer applies where the writer continues", async () => {
  const writer = await openSession({ file }, { home });
  const [first] = writer.getBranch();
  const beside = await openSession({ file }, { home, lease: false });
  await writer.appendMessages([{ role: "assistant", content: "Pears." }]);
  await beside.pin(first!.id);
  await beside.pin(writer.leafId!);
  await beside.pin(first!.id, false);
  await beside.close();
  await writer.appendMessages([{ role: "user", content: "And there?" }]);
  await writer.close();
  const again = await openSession({ file }, { home, mode: "read" });
  expect(again.context.messages).toHaveLength(3);
  expect(again.pinned()).toEqual([again.context.sources[1]]);
  await again.close();
});

test("two short acts wait for each other", async () => {
  const first = await openSession({ file }, { home, waitMs: 60_000 });
  const second = openSession({ file }, { home, waitMs: 60_000 });
  await new Promise((resolve) => setTimeout(resolve, 40));
  await first.close();
  await (await second).close();
});

test("a failed opening holds no lease", async () => {
  await expect(openSession({ file }, { home, leafId: "nobody" })).rejects.toMatchObject({
    code: "unknown-entry",
  });
  await (await openSession({ file }, { home })).close();
});

test("a lease that fails for an unknown reason is an error, for every `onBusy`", async () => {
  const near = fileStore({ home });
  const refused = new EspalierError("busy", "Somebody writes it; nobody knows who.");
  const closed: string[] = [];
  const watched = (log: SessionLog): SessionLog =>
    new Proxy(log, {
      get(_, key) {
        if (key === "close") closed.push(log.ref);
        const value: unknown = Reflect.get(log, key, log);
        return typeof value === "function" ? value.bind(log) : value;
      },
    });
  const store: SessionStore = {
    ...near,
    lease: () => Promise.reject(refused),
    create: async (...given) => watched(await near.create(...given)),
    open: async (...given) => watched(await near.open(...given)),
  };
  for (const onBusy of ["error", "read-only", "fork", "share"] as const)
    await expect(openSession({ file }, { store, onBusy })).rejects.toBe(refused);
  // Nothing stays open where the lease of what was just made cannot be had.
  const made = join(home, "made.jsonl");
  await expect(createSession({ store, file: made })).rejects.toBe(refused);
  const source = await near.open({ file }, "read");
  for (const copy of [join(home, "copy.jsonl"), join(home, "copy.jsonl")])
    await expect(copySession(source, store, copy)).rejects.toBe(refused);
  expect(closed).toEqual([made, join(home, "copy.jsonl"), join(home, "copy.jsonl")]);
});

test("a store in memory has its own leases", async () => {
  const store = memoryStore();
  const first = await createSession({ store });
  await expect(openSession({ file: first.file }, { store })).rejects.toMatchObject({ code: "busy" });
  await expect(deleteSession({ file: first.file }, { store })).rejects.toMatchObject({ code: "busy" });
  await first.close();
  await deleteSession({ file: first.file }, { store });
});
