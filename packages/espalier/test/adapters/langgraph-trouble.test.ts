// Bad input, other tenants and processes, other versions of the host: one sentence each.
import { appendFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { serverPrograms, startPrivateServer } from "@espalier/store-postgres/testing";
import { AIMessage, HumanMessage } from "@langchain/core/messages";
import { emptyCheckpoint, JsonPlusSerializer, uuid6 } from "@langchain/langgraph-checkpoint";
import { deleteSession, EspalierError, memoryStore, openSession, redactText } from "espalier";
import { EspalierSaver } from "espalier/adapters/langgraph";
import { migratePostgres, openPostgresStore } from "espalier/postgres";
import { afterAll, beforeEach, describe, expect, test, vi } from "vitest";

const folder = mkdtempSync(join(tmpdir(), "espalier-langgraph-"));
afterAll(() => rmSync(folder, { recursive: true }));
const freshHome = () => mkdtempSync(join(folder, "home-"));

const onThread = (thread_id: unknown) => ({ configurable: { thread_id } });
const metadata = { source: "loop" as const, step: 0, parents: {} };
let version = 0;
function checkpointOf(...texts: string[]) {
  version++;
  const messages = texts.map((content, at) => new HumanMessage({ id: `m${at}`, content }));
  const [channel_values, channel_versions] = [{ messages }, { messages: version }];
  return { ...emptyCheckpoint(), id: uuid6(version), channel_values, channel_versions };
}
const save = (saver: EspalierSaver, thread: unknown, ...texts: string[]) => {
  const checkpoint = checkpointOf(...texts);
  return saver.put(onThread(thread), checkpoint, metadata, checkpoint.channel_versions);
};
async function textsOf(saver: EspalierSaver, thread: unknown) {
  const values = (await saver.get(onThread(thread)))?.channel_values as
    | { messages: HumanMessage[] }
    | undefined;
  return values?.messages.map(({ text }) => text);
}

describe("a thread_id that cannot name a session", () => {
  const bad = [
    "../../etc/passwd",
    "/tmp/x",
    "__proto__",
    "a".repeat(10_000),
    "",
    "a/b",
    "x.jsonl/",
    7,
    null,
    {},
  ];
  test.each(bad.map((id): [string, unknown] => [JSON.stringify(id).slice(0, 20), id]))(
    "%s",
    async (_, id) => {
      for (const place of [{ store: memoryStore() }, { home: freshHome() }]) {
        const saver = new EspalierSaver(place);
        const asked = [
          () => save(saver, id, "Hello."),
          () => saver.getTuple(onThread(id)),
          () => saver.list(onThread(id)).next(),
          () => saver.putWrites({ configurable: { thread_id: id, checkpoint_id: "1" } }, [["a", 1]], "task"),
          () => saver.deleteThread(id as string),
          () => saver.getDeltaChannelHistory({ config: onThread(id), channels: ["a"] }),
        ];
        for (const ask of asked) {
          const error = await ask().then(
            () => undefined,
            (reason: unknown) => reason,
          );
          expect(error).toBeInstanceOf(EspalierError);
          expect(error).toMatchObject({ code: "bad-input" });
          expect((error as Error).message).toMatch(
            /^The thread_id .{1,60} cannot name a session; give .*UUID\.$/,
          );
        }
        await saver.close();
      }
      expect(({} as { messages?: unknown }).messages).toBeUndefined();
    },
  );
});

test("writes without a checkpoint are refused", async () => {
  const saver = new EspalierSaver({ store: memoryStore() });
  await expect(saver.putWrites(onThread("a"), [["a", 1]], "task")).rejects.toThrow(
    "The writes name no checkpoint; pass the config that `put` returned.",
  );
  await saver.close();
});

test("another tenant's thread cannot be read, deleted or listed", async () => {
  const stores: [EspalierSaver, EspalierSaver][] = [
    [new EspalierSaver({ home: freshHome() }), new EspalierSaver({ home: freshHome() })],
  ];
  const server = serverPrograms() ? await startPrivateServer() : undefined;
  const databases = [];
  if (server) {
    await migratePostgres(server.url);
    databases.push(
      openPostgresStore(`${server.url}?namespace=ada`),
      openPostgresStore(`${server.url}?namespace=bob`),
    );
    const [ada, bob] = databases.map((store) => new EspalierSaver({ store }));
    stores.push([ada!, bob!]);
  }
  for (const [ada, bob] of stores) {
    await save(ada, "shared-name", "Ada's.");
    expect(await textsOf(bob, "shared-name")).toBeUndefined();
    expect(await bob.list({}).next()).toEqual({ done: true, value: undefined });
    await bob.deleteThread("shared-name");
    await save(bob, "shared-name", "Bob's.");
    expect(await textsOf(ada, "shared-name")).toEqual(["Ada's."]);
    await Promise.all([ada.close(), bob.close()]);
  }
  for (const store of databases) await store.close();
  await server?.remove();
});

test("threads of savers with the same home take turns, and each reads the other's writes", async () => {
  const home = freshHome();
  const savers = [new EspalierSaver({ home, idleMs: 0 }), new EspalierSaver({ home, idleMs: 0 })];
  for (let turn = 0; turn < 6; turn++) {
    await save(savers[turn % 2]!, "one", `Turn ${turn}.`);
    expect(await textsOf(savers[(turn + 1) % 2]!, "one")).toEqual([`Turn ${turn}.`]);
  }
  await Promise.all(savers.map((saver) => saver.close()));
});

test("a thread that another process writes can be read, and writing is refused in one sentence", async () => {
  const home = freshHome();
  const before = new EspalierSaver({ home });
  await save(before, "busy", "Before.");
  await before.close();
  const holder = await openSession("busy", { home });
  const saver = new EspalierSaver({ home, waitMs: 20 });
  expect(await textsOf(saver, "busy")).toEqual(["Before."]);
  const error = await save(saver, "busy", "Mine.").catch((reason: unknown) => reason);
  expect(error).toMatchObject({ code: "busy" });
  expect((error as Error).message).not.toContain("\n");
  await holder.close();
  await save(saver, "busy", "After.");
  expect(await textsOf(saver, "busy")).toEqual(["After."]);
  await saver.close();
});

test("more threads than stay open are written and read at once", async () => {
  const saver = new EspalierSaver({ home: freshHome() });
  const threads = Array.from({ length: 80 }, (_, at) => `thread-${at}`);
  await Promise.all(threads.map((thread) => save(saver, thread, `Hello, ${thread}.`)));
  const texts = await Promise.all([...threads, ...threads].map((thread) => textsOf(saver, thread)));
  expect(texts).toEqual([...threads, ...threads].map((thread) => [`Hello, ${thread}.`]));
  await saver.close();
});

test("a thread that could not be opened for a moment is read afterwards", async () => {
  const store = memoryStore();
  const writing = new EspalierSaver({ store });
  await save(writing, "a", "Hello.");
  await writing.close();
  let isDown = true;
  const open: typeof store.open = async (...named) => {
    if (isDown) throw new EspalierError("unreadable", "The database does not answer.");
    return store.open(...named);
  };
  const saver = new EspalierSaver({ store: { ...store, open } });
  await expect(textsOf(saver, "a")).rejects.toThrow("The database does not answer.");
  isDown = false;
  expect(await textsOf(saver, "a")).toEqual(["Hello."]);
  await saver.close();
});

test("a thread that this or another process removed is gone, and can start again", async () => {
  const home = freshHome();
  for (const place of [{ home }, { store: memoryStore() }]) {
    const saver = new EspalierSaver({ ...place, idleMs: 0 });
    await save(saver, "gone", "Once.");
    expect(await textsOf(saver, "gone")).toEqual(["Once."]);
    await vi.waitFor(() => deleteSession("gone", place), { timeout: 30_000 });
    expect(await textsOf(saver, "gone")).toBeUndefined();
    await save(saver, "gone", "Again.");
    expect(await textsOf(saver, "gone")).toEqual(["Again."]);
    await saver.deleteThread("gone");
    await save(saver, "gone", "Anew.");
    expect(await textsOf(saver, "gone")).toEqual(["Anew."]);
    await saver.close();
  }
});

test("secrets are removed from values and messages on request, and existing messages are not written again", async () => {
  const home = freshHome();
  const saver = new EspalierSaver({ home, redact: redactText });
  const secret = `ghp_${"aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0eF3hI6"}`;
  let config = await save(saver, "secret", `My token is ${secret}, and here is more to say about it.`);
  const session = await openSession("secret", { home, mode: "read" });
  for (let step = 0; step < 3; step++) {
    const checkpoint = checkpointOf(`My token is ${secret}, and here is more to say about it.`);
    config = await saver.put(config, checkpoint, metadata, checkpoint.channel_versions);
  }
  await session.close();
  expect(readFileSync(session.file, "utf8")).not.toContain(secret);
  expect(readFileSync(session.file, "utf8").match(/here is more/g)).toHaveLength(2);
  expect((await textsOf(saver, "secret"))?.[0]).toMatch(/^My token is \[redacted .*\], and here/);
  await saver.close();
});

/** An encrypting serializer, as hosts have it: its output is no JSON. */
class Sealed extends JsonPlusSerializer {
  override async dumpsTyped(value: unknown): Promise<[string, Uint8Array]> {
    const [type, bytes] = await super.dumpsTyped(value);
    return [`${type}+sealed`, bytes.map((byte) => byte ^ 0x5a)];
  }
  // biome-ignore lint/suspicious/noExplicitAny: as the host has it.
  override async loadsTyped(type: string, data: Uint8Array): Promise<any> {
    return super.loadsTyped(
      type.replace("+sealed", ""),
      data.map((byte) => byte ^ 0x5a),
    );
  }
}

test("an encrypting serializer leaves no plain text in the session", async () => {
  const home = freshHome();
  const saver = new EspalierSaver({ home, serde: new Sealed() });
  const config = await save(saver, "sealed", "The treasure is below the pear tree.");
  await saver.putWrites(config, [["messages", "treasure"]], "task");
  expect(await textsOf(saver, "sealed")).toEqual(["The treasure is below the pear tree."]);
  expect((await saver.getTuple(config))?.pendingWrites).toEqual([["task", "messages", "treasure"]]);
  const session = await openSession("sealed", { home, mode: "read" });
  expect(readFileSync(session.file, "utf8")).not.toContain("treasure");
  await session.close();
  await saver.close();
});

test("values of any shape are restored, also those that no line can contain", async () => {
  const saver = new EspalierSaver({ store: memoryStore() });
  const odd = JSON.parse('{"__proto__": {"polluted": true}, "constructor": [1]}') as object;
  const values = {
    odd,
    list: [odd, null, [], [[]], "x", -1.5],
    bytes: new Uint8Array([0, 255, 10]),
    when: new Map([["a", new Set([1])]]),
    nothing: undefined,
    long: { text: "a".repeat(3_000), list: Array.from({ length: 300 }, (_, at) => `${at}`.repeat(40)) },
    __proto__x: "kept",
    half: ["half a pair \ud83d, in a text that is long enough to be stored by its digest", "\ud83d"],
    deep: JSON.parse(`${"[".repeat(300)}${"]".repeat(300)}`) as unknown,
    called: new AIMessage({
      content: "",
      tool_calls: [{ id: "c", name: "look", args: { deep: [{ a: 1 }] } }],
    }),
  };
  const channel_versions = Object.fromEntries(Object.keys(values).map((name) => [name, 1]));
  const checkpoint = { ...emptyCheckpoint(), id: uuid6(1), channel_values: values, channel_versions };
  const config = await saver.put(onThread("odd"), checkpoint, metadata, channel_versions);
  // As the host's own serializer gives them back: it turns an own `__proto__` into a prototype.
  const serde = new JsonPlusSerializer();
  const expected = Object.entries(values).map(async ([name, value]) => [
    name,
    await serde.loadsTyped(...(await serde.dumpsTyped(value))),
  ]);
  const stored = (await saver.get(config))?.channel_values;
  expect(stored).toEqual(Object.fromEntries(await Promise.all(expected)));
  expect(stored?.["bytes"]).toEqual(values.bytes);
  await saver.close();
});

test("a list of many thousand items is restored", async () => {
  const saver = new EspalierSaver({ store: memoryStore() });
  const list = Array.from({ length: 200_000 }, (_, at) => at);
  const checkpoint = { ...checkpointOf(), channel_values: { list }, channel_versions: { list: 1 } };
  const config = await saver.put(onThread("many"), checkpoint, metadata, { list: 1 });
  expect((await saver.get(config))?.channel_values).toEqual({ list });
  await saver.close();
});

test("a call with arguments that no line can contain is shown as text, and its message is restored", async () => {
  const saver = new EspalierSaver({ store: memoryStore() });
  const args = JSON.parse('{"__proto__": {"polluted": true}, "half": "\\ud83d"}') as object;
  const messages = [new AIMessage({ content: "", tool_calls: [{ id: "c", name: "look", args }] })];
  const checkpoint = { ...checkpointOf(), channel_values: { messages } };
  const config = await saver.put(onThread("odd"), checkpoint, metadata, checkpoint.channel_versions);
  const stored = (await saver.get(config))?.channel_values as { messages: AIMessage[] };
  expect(stored.messages[0]!.tool_calls?.[0]?.args["half"]).toBe("\ud83d");
  await saver.close();
});

test("a value whose line was lost is reported with the next command", async () => {
  const home = freshHome();
  const saver = new EspalierSaver({ home });
  await save(saver, "lost", "A message that is long enough to be stored by its digest.");
  await saver.close();
  const session = await openSession("lost", { home, mode: "read" });
  await session.close();
  const text = readFileSync(session.file, "utf8");
  writeFileSync(session.file, text.replace(/"[0-9a-f]{32}":\["json"/, `"${"0".repeat(32)}":["json"`));
  const other = new EspalierSaver({ home });
  await expect(other.get(onThread("lost"))).rejects.toThrow(
    /A value of the LangGraph state is missing in .*espalier doctor/,
  );
  await other.close();
});

test("a list that contains itself is reported as lost, and does not loop", async () => {
  const home = freshHome();
  const saver = new EspalierSaver({ home });
  await save(saver, "circle", "A message.");
  await saver.close();
  const session = await openSession("circle", { home, mode: "read" });
  await session.close();
  const text = readFileSync(session.file, "utf8");
  const [, digest] = /"([0-9a-f]{32})":\["list",null/.exec(text)!;
  writeFileSync(session.file, text.replace(`"${digest}":["list",null`, `"${digest}":["list","${digest}"`));
  const other = new EspalierSaver({ home });
  await expect(other.get(onThread("circle"))).rejects.toMatchObject({ code: "damaged" });
  await other.close();
});

test("half a line at the end of the file is not read as a checkpoint", async () => {
  const home = freshHome();
  const saver = new EspalierSaver({ home });
  await save(saver, "torn", "Whole.");
  await saver.close();
  const session = await openSession("torn", { home, mode: "read" });
  await session.close();
  appendFileSync(session.file, '{"type":"custom","id":"half","parentId":null,"customType":"langgraph.check');
  const other = new EspalierSaver({ home });
  expect(await textsOf(other, "torn")).toEqual(["Whole."]);
  await save(other, "torn", "Whole again.");
  expect(await textsOf(other, "torn")).toEqual(["Whole again."]);
  await other.close();
});

describe("a host of another version", () => {
  const HOST = "@langchain/langgraph-checkpoint";
  beforeEach(() => vi.resetModules());

  test.each(["1.1.9", "2.0.0", "10.0.0"])("%s is refused", async (other) => {
    const modules = mkdtempSync(join(folder, "modules-"));
    mkdirSync(join(modules, HOST), { recursive: true });
    writeFileSync(join(modules, HOST, "package.json"), JSON.stringify({ version: other }));
    vi.doMock("node:module", async (original) => ({
      ...(await original<typeof import("node:module")>()),
      createRequire: () => ({ resolve: { paths: () => [modules] } }),
    }));
    await expect(import("espalier/adapters/langgraph")).rejects.toMatchObject({
      code: "unsuitable",
      message: `${HOST} ${other} is not a version that this adapter was tested with; npm install "${HOST}@>=1.2.2 <2.0.0".`,
    });
    vi.doUnmock("node:module");
  });
});
