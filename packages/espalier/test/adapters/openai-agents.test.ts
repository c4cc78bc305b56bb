import { spawn, spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { serverPrograms, startPrivateServer } from "@espalier/store-postgres/testing";
import { type AgentInputItem, MemorySession, type SessionHistoryTransaction } from "@openai/agents";
import { buildSync } from "esbuild";
import {
  anthropicFormat,
  buildRequest,
  fileStore,
  memoryStore,
  openStore,
  type SessionStore,
} from "espalier";
import { type OpenaiSession, type OpenaiSessions, openaiSessions } from "espalier/adapters/openai-agents";
import { contextEdit, message, messageText } from "espalier/extend";
import { migratePostgres } from "espalier/postgres";
import { checkAnthropicRequest } from "espalier/testing";
import fc from "fast-check";
import { expect, onTestFinished, test } from "vitest";

/** A step of a host. `suffix` names how many of the last items a transaction replaces; -1: items that are not there. */
type Step =
  | { do: "add"; items: AgentInputItem[] }
  | { do: "pop" | "clear" | "reopen" }
  | { do: "read"; limit: number }
  | { do: "rename"; callId: string; name: string }
  | { do: "append"; operation: string; items: AgentInputItem[] }
  | { do: "replace"; operation: string; suffix: number; items: AgentInputItem[] };

const long = "A text that is long enough to be named by its place in the entry, and not to be written twice.";
const text = fc.oneof(
  fc.string({ maxLength: 12, unit: "grapheme" }),
  fc.constantFrom("", long, "half a pair \ud83d", "__proto__", "\u0000", '{"$stored":"same"}'),
);
const callId = fc.constantFrom("call-1", "call-2", "../call");
const status = fc.constantFrom("completed", "incomplete", "in_progress" as const);
const json = fc.jsonValue({ maxDepth: 2, noNegativeZero: true } as never);
const bytes = fc.uint8Array({ maxLength: 6 });
const extra = fc.oneof(
  fc.constant({}),
  fc.record({ id: text }),
  fc.record({ providerData: fc.dictionary(fc.constantFrom("model", "$stored", "long", "nested"), json) }),
);
const argumentsText = fc.oneof(
  text,
  fc.constant(JSON.stringify({ path: long, list: [long, 1, null] })),
  fc.constant('{ "white": "space" }'),
  fc.constant('{"__proto__": {"a": 1}}'),
  fc.constant(`[${JSON.stringify(long)}]`),
);
const userPart = fc.oneof(
  fc.record({ type: fc.constant("input_text" as const), text }),
  fc.record({
    type: fc.constant("input_image" as const),
    image: fc.constantFrom(`data:image/png;base64,${"iVBOR".repeat(20)}AAAA`, "https://example.com/a.png"),
  }),
  fc.record({
    type: fc.constant("input_file" as const),
    file: fc.constant("data:application/pdf;base64,AAAA"),
    filename: text,
  }),
);
const item = fc
  .tuple(
    fc.oneof(
      fc.record({ role: fc.constant("user"), content: fc.oneof(text, fc.array(userPart, { maxLength: 3 })) }),
      fc.record({ type: fc.constant("message"), role: fc.constant("system"), content: text }),
      fc.record({
        type: fc.constant("message"),
        role: fc.constant("assistant"),
        status,
        content: fc.array(fc.record({ type: fc.constant("output_text"), text }), { maxLength: 2 }),
      }),
      fc.record({
        type: fc.constant("reasoning"),
        content: fc.array(fc.record({ type: fc.constant("input_text"), text }), { maxLength: 2 }),
      }),
      fc.record({ type: fc.constant("function_call"), callId, name: text, arguments: argumentsText }),
      fc.record({
        type: fc.constant("function_call_result"),
        callId,
        name: text,
        status,
        output: fc.oneof(
          text,
          fc.record({ type: fc.constant("text"), text }),
          fc.record({
            type: fc.constant("image"),
            image: fc.record({ data: bytes, mediaType: fc.constant("image/png") }),
          }),
        ),
      }),
      fc.record({ type: fc.constant("hosted_tool_call"), name: text, arguments: text, output: text }),
      fc.record({
        type: fc.constant("shell_call"),
        callId,
        action: fc.record({ commands: fc.array(text, { maxLength: 2 }) }),
      }),
      fc.record({
        type: fc.constant("shell_call_output"),
        callId,
        output: fc.array(
          fc.record({ stdout: text, stderr: text, outcome: fc.constant({ type: "exit", exitCode: 0 }) }),
          { maxLength: 2 },
        ),
      }),
      fc.record({ type: fc.constant("compaction"), encrypted_content: text }),
      fc.record({ type: fc.constant("unknown"), providerData: fc.constant({ type: "new_thing", long }) }),
    ),
    extra,
  )
  .map(([fields, more]) => ({ ...more, ...fields }) as unknown as AgentInputItem);
const items = fc.array(item, { maxLength: 3 });
const operation = fc.constantFrom("first", "second", "third");
const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 4, arbitrary: fc.record({ do: fc.constant("add" as const), items }) },
  {
    weight: 3,
    arbitrary: fc.record({
      do: fc.constantFrom("pop" as const, "pop" as const, "clear" as const, "reopen" as const),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({ do: fc.constant("read" as const), limit: fc.integer({ min: -1, max: 4 }) }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("rename" as const), callId, name: text }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant("append" as const), operation, items }) },
  {
    weight: 3,
    arbitrary: fc.record({
      do: fc.constant("replace" as const),
      operation,
      suffix: fc.integer({ min: -1, max: 3 }),
      items,
    }),
  },
);

/** The result of a step: what it returned, or that it was refused. */
async function outcome(
  session: OpenaiSession | MemorySession,
  act: Step,
  last: AgentInputItem[],
): Promise<unknown> {
  try {
    if (act.do === "add") await session.addItems(act.items);
    if (act.do === "pop") return { popped: await session.popItem() };
    if (act.do === "clear") await session.clearSession();
    if (act.do === "read") return await session.getItems(act.limit);
    if (act.do === "rename") {
      const { callId, name } = act;
      const replacement = { type: "function_call", callId, name, arguments: "{}" } as const;
      await session.applyHistoryMutations({
        mutations: [{ type: "replace_function_call", callId, replacement }],
      });
    }
    const transaction = transactionOf(act, last);
    if (transaction && "operation" in act)
      await session.applyHistoryTransaction({ operationId: act.operation, transaction });
  } catch (error) {
    if (process.env["SHOW"]) console.log(error);
    return "refused";
  }
  return "done";
}

function transactionOf(act: Step, last: AgentInputItem[]): SessionHistoryTransaction | undefined {
  if (act.do === "append") return { type: "append_items", items: act.items };
  if (act.do !== "replace") return undefined;
  const missing: AgentInputItem[] = [{ role: "user", content: "never said" }];
  const expectedSuffix = act.suffix < 0 ? missing : act.suffix === 0 ? [] : last.slice(-act.suffix);
  return { type: "replace_suffix", expectedSuffix, replacement: act.items };
}

/** Runs steps on both and compares what each returns, and the items after each. */
async function sameAsMemory(store: SessionStore, steps: readonly Step[], id: string): Promise<void> {
  let sessions = openaiSessions({ store });
  const memory = new MemorySession({ sessionId: id });
  const refused: number[] = [];
  try {
    for (const [at, act] of steps.entries()) {
      if (act.do === "reopen") {
        await sessions.close();
        sessions = openaiSessions({ store });
        continue;
      }
      const last = await memory.getItems();
      const expected = await outcome(memory, act, last);
      expect(await outcome(sessions.session(id), act, last), `step ${at}`).toStrictEqual(expected);
      if (expected === "refused") refused.push(at);
      expect(await sessions.session(id).getItems(), `items after step ${at}`).toStrictEqual(
        await memory.getItems(),
      );
    }
  } finally {
    await sessions.close();
  }
}

test("2,000 random sequences of calls by a host have the results and items of MemorySession", async () => {
  const store = memoryStore();
  let run = 0;
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 14 }), (steps) =>
      sameAsMemory(store, steps, `run-${run++}`),
    ),
    { numRuns: 2_000, seed: 23 },
  );
}, 600_000);

test("sequences over files have the same results, across openings", async () => {
  const store = fileStore({ home: temporaryFolder() });
  let run = 0;
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 10 }), (steps) =>
      sameAsMemory(store, steps, `run-${run++}`),
    ),
    { numRuns: 60, seed: 24 },
  );
});

test.skipIf(serverPrograms() === undefined)("sequences over PostgreSQL have the same results", async () => {
  const server = await startPrivateServer();
  onTestFinished(() => server.remove());
  await migratePostgres(server.url);
  const store = await openStore(server.url);
  onTestFinished(() => store.close());
  let run = 0;
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 8 }), (steps) => sameAsMemory(store, steps, `run-${run++}`)),
    { numRuns: 40, seed: 25 },
  );
});

const said = (content: string): AgentInputItem => ({ role: "user", content });
const answered = (content: string): AgentInputItem => ({
  type: "message",
  role: "assistant",
  status: "completed",
  content: [{ type: "output_text", text: content }],
});

function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "espalier-agents-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

function open(options: Parameters<typeof openaiSessions>[0] = { store: memoryStore() }): OpenaiSessions {
  const sessions = openaiSessions(options);
  onTestFinished(() => sessions.close());
  return sessions;
}

test("items that are popped, cleared, replaced or compacted stay in the session", async () => {
  const sessions = open();
  const session = sessions.session("garden");
  const words = ["one", "two", "three", "four", "five", "six"];
  await session.addItems(words.slice(0, 3).map(said));
  await session.popItem();
  await session.applyHistoryTransaction({
    operationId: "first",
    transaction: { type: "replace_suffix", expectedSuffix: [said("two")], replacement: [said("four")] },
  });
  await session.replaceHistoryWithCompaction([
    { type: "compaction", encrypted_content: "sealed" },
    said("four"),
  ]);
  await session.clearSession();
  await session.addItems(words.slice(4).map(said));

  expect(await session.getItems()).toEqual(words.slice(4).map(said));
  const kept = await sessions.use("garden", ({ tree }) =>
    [...tree.entries()].flatMap((entry) => (message.is(entry) ? messageText(entry.message) : [])),
  );
  expect(kept).toEqual(words);
  // And undo leads back.
  await sessions.use("garden", (open) => open.undo());
  await sessions.use("garden", (open) => open.undo());
  await sessions.use("garden", (open) => open.undo());
});

test("a compaction of the SDK is a compaction of the session, with the same kept items", async () => {
  const sessions = open();
  const session = sessions.session("garden");
  await session.addItems([said("one"), answered("two"), said("three")]);
  const sealed: AgentInputItem = { type: "compaction", encrypted_content: "sealed" };
  await session.replaceHistoryWithCompaction([sealed, said("three")]);
  expect(await session.getItems()).toEqual([sealed, said("three")]);
  const { types, sources } = await sessions.use("garden", ({ tree, context }) => ({
    types: [...tree.entries()].map(({ type }) => type),
    sources: context.sources.length,
  }));
  expect(types).toEqual(["message", "message", "message", "compaction"]);
  expect(sources).toBe(2);

  // What it keeps can be popped, and the compaction itself too.
  expect(await session.popItem()).toEqual(said("three"));
  expect(await session.getItems()).toEqual([sealed]);
  expect(await session.popItem()).toEqual(sealed);
  expect(await session.popItem()).toBeUndefined();

  // A suffix that is not in the history is appended with the compaction.
  await session.addItems([said("four")]);
  await session.replaceHistoryWithCompaction([sealed, answered("another")]);
  expect(await session.getItems()).toEqual([sealed, answered("another")]);
  const rule: AgentInputItem = { type: "message", role: "system", content: "Be short." };
  await session.addItems([rule, said("five")]);
  await session.replaceHistoryWithCompaction([sealed, rule, said("five")]);
  expect(await session.getItems()).toEqual([sealed, rule, said("five")]);
  await expect(session.replaceHistoryWithCompaction([said("four")])).rejects.toThrow(
    "The first item of the compacted history is not a compaction item; pass the items of the compaction unchanged.",
  );
});

test("the SDK reads changes by other programs: messages, hidden entries, edits, compactions, undo", async () => {
  const sessions = open();
  const session = sessions.session("garden");
  await session.addItems([said("one"), answered("two")]);
  await sessions.use("garden", async (open) => {
    await open.appendMessages([
      { role: "user", content: "from a terminal" },
      {
        role: "assistant",
        content: [{ type: "toolCall", id: "c1", name: "look", arguments: { bed: "east" } }],
      },
      { role: "toolResult", toolCallId: "c1", toolName: "look", content: [{ type: "text", text: "Pears." }] },
    ] as never);
    await open.hide(open.getEntries()[1]!.id);
  });
  const look = { callId: "c1", name: "look", status: "completed" } as const;
  const items: AgentInputItem[] = [
    said("one"),
    { type: "message", ...said("from a terminal") } as AgentInputItem,
    { type: "function_call", ...look, arguments: '{"bed":"east"}' },
    { type: "function_call_result", ...look, output: { type: "text", text: "Pears." } },
  ];
  expect(await session.getItems()).toEqual(items);
  expect(await session.popItem()).toEqual(items.pop());
  expect(await session.getItems()).toEqual(items);

  await sessions.use("garden", (open) =>
    open.appendCompaction("They talked about pears.", open.getBranch()[0]!.id, 100),
  );
  const [summary, ...rest] = await session.getItems();
  expect(JSON.stringify(summary)).toContain("They talked about pears.");
  expect(rest).toEqual(items);
});

test("an item that another program edited stays edited when a later item is popped", async () => {
  const sessions = open();
  const session = sessions.session("garden");
  await session.addItems([said("one"), said("two")]);
  await sessions.use("garden", async (open) => {
    const targetId = open.getBranch()[0]!.id;
    await open.append(contextEdit.of({ targetId, replacement: { content: "changed" } }));
  });
  const items = await session.getItems();
  expect(JSON.stringify(items[0])).toContain("changed");
  expect(await session.popItem()).toEqual(said("two"));
  expect(await session.getItems()).toEqual(items.slice(0, 1));
});

test("another agent continues after the SDK, with paired calls and results in its request", async () => {
  const sessions = open();
  await sessions.session("garden").addItems([
    said("What grows here?"),
    { type: "reasoning", content: [{ type: "input_text", text: "I look." }] },
    { type: "function_call", callId: "c1", name: "look", arguments: '{"bed":"east"}' },
    { type: "function_call", callId: "c2", name: "look", arguments: '{"bed":"west"}' },
    { type: "function_call_result", callId: "c1", name: "look", status: "completed", output: "Pears." },
    {
      type: "function_call_result",
      callId: "c2",
      name: "look",
      status: "completed",
      output: { type: "text", text: "Plums." },
    },
    said("And there?"),
  ]);
  const request = await sessions.use("garden", ({ context }) =>
    buildRequest(context, { format: anthropicFormat }),
  );
  expect(checkAnthropicRequest({ model: "m", max_tokens: 1, ...request })).toEqual([]);
  expect(JSON.stringify(request)).toContain("Plums.");
});

test("a write cut by a crash is in the file as a whole or not at all, and its operation is applied once", async () => {
  const home = temporaryFolder();
  const store = fileStore({ home });
  const before = [said("one"), answered("two")];
  const added = [said(`three ${long}`), answered("four"), said("five")];
  const transaction: SessionHistoryTransaction = {
    type: "replace_suffix",
    expectedSuffix: before.slice(1),
    replacement: added,
  };
  const first = open({ store });
  await first.session("garden").addItems(before);
  await first.close();
  let ref = "";
  for await (const listing of store.list()) ({ ref } = listing);
  const start = readFileSync(ref).length;
  const second = open({ store });
  await second.session("garden").applyHistoryTransaction({ operationId: "op", transaction });
  await second.close();
  const whole = readFileSync(ref);

  const seen = new Set<number>();
  for (let end = whole.length; end >= start; end -= 5) {
    writeFileSync(ref, whole.subarray(0, end));
    const sessions = openaiSessions({ store });
    const session = sessions.session("garden");
    const items = await session.getItems();
    seen.add(items.length);
    expect(items, `cut at ${end}`).toEqual(items.length === 2 ? before : [before[0], ...added]);
    await session.applyHistoryTransaction({ operationId: "op", transaction });
    await session.applyHistoryTransaction({ operationId: "op", transaction });
    expect(await session.getItems(), `retried after ${end}`).toEqual([before[0], ...added]);
    await sessions.close();
  }
  expect([...seen].sort()).toEqual([2, 4]);
});

test("a killed process leaves whole operations, and every acknowledged one", async () => {
  const folder = temporaryFolder();
  const home = join(folder, "home");
  const program = bundled(new URL("openai-agents-killed.ts", import.meta.url), folder);
  for (const acknowledged of [1, 4, 9]) {
    const child = spawn(process.execPath, [program, home], { stdio: ["ignore", "pipe", "inherit"] });
    let last = -1;
    for await (const line of createInterface(child.stdout)) {
      last = Number(line);
      if (last % 10 === acknowledged) child.kill("SIGKILL");
    }
    const sessions = openaiSessions({ home });
    const items = await sessions.session("killed").getItems();
    expect(items.length % 3).toBe(0);
    const applied = items.length / 3;
    expect(applied).toBeGreaterThan(last);
    const words = Array.from({ length: applied }, (_, at) => [
      said(`${at} a`),
      answered(`${at} b`),
      said(`${at} c`),
    ]);
    expect(items).toEqual(words.flat());
    await sessions.session("killed").applyHistoryTransaction({
      operationId: `${applied - 1}`,
      transaction: { type: "append_items", items: words.at(-1)! },
    });
    expect(await sessions.session("killed").getItems()).toEqual(items);
    await sessions.close();
  }
});

test("a call has the items of its beginning, even if the caller changes or reuses its list", async () => {
  for (const session of [new MemorySession(), open().session("garden")]) {
    const added = [said("one")];
    const items = [said("two")];
    const calls = [
      session.addItems(added),
      session.applyHistoryTransaction({ operationId: "a", transaction: { type: "append_items", items } }),
    ];
    Object.assign(added[0]!, said("changed"));
    added.length = 0;
    items.push(said("three"));
    await Promise.all(calls);
    expect(await session.getItems()).toEqual([said("one"), said("two")]);
  }
});

test("an item with -0, which JSON has not, can be replaced by the item that was given", async () => {
  const given = { ...said("one"), providerData: { offset: -0 } } as AgentInputItem;
  const home = temporaryFolder();
  await open({ home, idleMs: 0 }).session("garden").addItems([given]);
  for (const session of [
    new MemorySession({ initialItems: [given] }),
    open({ home, idleMs: 0 }).session("garden"),
  ]) {
    const transaction: SessionHistoryTransaction = {
      type: "replace_suffix",
      expectedSuffix: [given],
      replacement: [said("two")],
    };
    await session.applyHistoryTransaction({ operationId: "a", transaction });
    expect(await session.getItems()).toEqual([said("two")]);
  }
});

test("a value that JSON cannot represent is refused in one sentence, and nothing of it is written", async () => {
  const session = open().session("garden");
  const circle: Record<string, unknown> = { role: "user", content: "x" };
  circle["providerData"] = { circle };
  const refused: [unknown, string][] = [
    [
      { role: "user", content: "x", providerData: { at: new Date(0) } },
      "the value.providerData.at cannot be written as JSON",
    ],
    [
      { role: "user", content: "x", providerData: { size: Number.NaN } },
      "the value.providerData.size cannot be written as JSON",
    ],
    [
      { role: "user", content: "x", providerData: { run: () => 1 } },
      "the value.providerData.run cannot be written as JSON",
    ],
    [circle, "the value.providerData.circle cannot be written as JSON"],
  ];
  for (const [item, words] of refused) {
    await expect(session.addItems([said("before"), item as AgentInputItem])).rejects.toThrow(words);
    expect(await session.getItems()).toEqual([]);
  }
});

test("ids that are paths, names of JavaScript or too long are refused in one sentence", () => {
  const sessions = open();
  for (const id of [
    "../other",
    "/etc/passwd",
    "a/b",
    "__proto__",
    "",
    ".",
    "x".repeat(10_000),
    "tenant:1",
    null,
    7,
  ])
    expect(() => sessions.session(id as string)).toThrow(
      /^.{1,100} cannot name a session; give 1 to 128 letters/,
    );
  expect(() => sessions.session("constructor")).not.toThrow();
});

test("two pools that close idle sessions take turns, and a call is one write", async () => {
  const home = temporaryFolder();
  const [one, two] = [open({ home, idleMs: 0 }), open({ home, idleMs: 0 })];
  const adding = Array.from({ length: 12 }, (_, at) =>
    (at % 2 ? one : two).session("shared").addItems([said(`${at} a`), answered(`${at} b`)]),
  );
  await Promise.all(adding);
  const items = await one.session("shared").getItems();
  expect(items).toHaveLength(24);
  for (let at = 0; at < items.length; at += 2) {
    const number = String((items[at] as { content: string }).content).split(" ")[0];
    expect(items[at + 1]).toEqual(answered(`${number} b`));
  }
});

test("sessions of two tenants with the same id are independent", async () => {
  const [one, two] = [open({ store: memoryStore() }), open({ store: memoryStore() })];
  await one.session("garden").addItems([said("secret")]);
  expect(await two.session("garden").getItems()).toEqual([]);
});

test("another version of the SDK is refused in one sentence", () => {
  const folder = temporaryFolder();
  const host = join(folder, "node_modules/@openai/agents");
  mkdirSync(host, { recursive: true });
  const program = bundled(new URL("openai-agents-killed.ts", import.meta.url), folder);
  const start = (version: string) => {
    writeFileSync(join(host, "package.json"), JSON.stringify({ name: "@openai/agents", version }));
    return spawnSync(process.execPath, [program, join(folder, "home"), "once"], { encoding: "utf8" });
  };
  for (const version of ["0.19.9", "0.21.0", "1.0.0"])
    expect(start(version).stderr).toContain(
      `@openai/agents ${version} is not a version that this adapter was tested with; npm install "@openai/agents@>=0.20.0 <0.21.0".`,
    );
  expect(start("0.20.3")).toMatchObject({ status: 0, stdout: "0\n" });
});

/** A program beside this test as one file, with no package around it. */
function bundled(source: URL, folder: string): string {
  const program = join(folder, "program.mjs");
  buildSync({
    entryPoints: [fileURLToPath(source)],
    bundle: true,
    platform: "node",
    format: "esm",
    outfile: program,
    banner: { js: "import{createRequire as r}from'node:module';const require=r(import.meta.url);" },
  });
  return program;
}

test("an image, the arguments of a call and a long text are written once", async () => {
  const home = temporaryFolder();
  const sessions = open({ home });
  const data = "iVBORw0KGgo".repeat(30);
  const bytes = Uint8Array.from({ length: 300 }, (_, at) => at % 251);
  const items: AgentInputItem[] = [
    { role: "user", content: [{ type: "input_image", image: `data:image/png;base64,${data}` }] },
    { type: "function_call", callId: "c1", name: "write", arguments: JSON.stringify({ text: long }) },
    {
      type: "function_call_result",
      callId: "c1",
      name: "write",
      status: "completed",
      output: { type: "image", image: { data: bytes, mediaType: "image/png" } },
    },
  ];
  await sessions.session("garden").addItems(items);
  await sessions.close();
  expect(await open({ home }).session("garden").getItems()).toStrictEqual(items);
  let ref = "";
  for await (const listing of fileStore({ home }).list()) ({ ref } = listing);
  const written = readFileSync(ref, "utf8");
  for (const once of [data, long, Buffer.from(bytes).toString("base64")])
    expect(written.split(once)).toHaveLength(2);
});
