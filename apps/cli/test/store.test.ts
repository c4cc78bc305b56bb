import { once } from "node:events";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { type PrivateServer, serverPrograms, startPrivateServer } from "@espalier/store-postgres/testing";
import { startMessagesServer, textReply } from "@espalier/summarizer/testing";
import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import {
  bundled,
  DEMO,
  espalier,
  espalierJson,
  HEADER,
  said,
  sessionOf,
  start,
  stateOf,
  temporaryFolder,
} from "./espalier.ts";
import { hasTmux, Tmux } from "./tmux.ts";

const hasServer = serverPrograms() !== undefined;
if (!hasServer) console.warn("There is no PostgreSQL server here: --store is not tried.");

/** Far more than they take: dozens of commands, beside other tests. */
vi.setConfig({ testTimeout: 300_000 });

/** What a password must never be seen as. */
const PASSWORD = "sesame-0pen";

let server: PrivateServer;
/** An address of a namespace of its own. The server asks for no password; whoever prints it is caught all the same. */
const address = (namespace: string) =>
  `${server.url.replace("espalier@", `espalier:${PASSWORD}@`)}?namespace=${namespace}`;
const inStore = (namespace: string) => ({ env: { ESPALIER_STORE: address(namespace) } });

describe.skipIf(!hasServer)("with --store", () => {
  beforeAll(async () => {
    server = await startPrivateServer();
  });
  afterAll(() => server.remove());

  test("a database is set up once, by any number of concurrent calls, and a missing setup is reported", async () => {
    const early = await espalierJson(["tree", "anything", "--store", address("a")]);
    expect(early).toMatchObject({ code: 1, value: { error: { code: "not-migrated" } } });
    expect(early.value.error.message).toContain("espalier store migrate");
    const runs = await Promise.all([1, 2, 3].map(() => espalierJson(["store", "migrate"], inStore("a"))));
    expect(runs.map(({ code }) => code)).toEqual([0, 0, 0]);
    expect(runs.filter(({ value }) => value.applied.length > 0)).toHaveLength(1);
    const again = await espalier(["store", "migrate"], inStore("a"));
    expect(again).toMatchObject({ code: 0, stdout: expect.stringMatching(/ is up to date\.\n$/) });
    expect(again.stderr).toContain("fsync is off");
    for (const { stdout, stderr } of [early, ...runs, again]) expect(stdout + stderr).not.toContain(PASSWORD);
  });

  test("the demo plays every step, and does not change the session", async () => {
    const { code, stderr, values } = await espalierJson(["demo"], inStore("demo"));
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    const [tree, context, there, told, fork, compacted, end] = values;
    expect(tree).toMatchObject({ step: 1, entries: 212, branches: 6 });
    expect(context).toMatchObject({ messages: 62, tokens: 12_234 });
    expect(there).toMatchObject({ to: "vPdDiWYGH0ya", after: { messages: 12, tokens: 3_857 } });
    expect(told.summary).toContain("## Goal");
    expect(fork).toMatchObject({ steps: 16, verified: true });
    expect(compacted.after.tokens).toBeLessThan(compacted.before.tokens / 2 + 1_000);
    expect(end).toMatchObject({ file: { untouched: true } });
    // The copy can be played with in turn.
    const again = await espalierJson(["demo", fork.file], inStore("demo"));
    expect(again).toMatchObject({ code: 0, stderr: "" });
    const listed = await espalierJson(["list"], inStore("demo"));
    expect(listed.values).toHaveLength(4);
  });

  test("a session copied into the store and back has the same bytes", async () => {
    const env = inStore("copies");
    const copied = await espalierJson(["copy", DEMO, "store:"], env);
    expect(copied).toMatchObject({ code: 0, stderr: "" });
    const { file, bytes } = copied.value;
    const out = join(temporaryFolder(), "out.jsonl");
    expect((await espalierJson(["copy", `store:${file}`, out], env)).code).toBe(0);
    expect(readFileSync(out).equals(readFileSync(DEMO))).toBe(true);
    expect((await espalierJson(["copy", DEMO, "store:"], env)).value).toMatchObject({ written: 0, bytes });
    // Grown since, it is brought up to date; gone another way, it is left alone.
    const stdin = '{"role":"user","content":"And then?"}';
    expect((await espalierJson(["append", file], { ...env, stdin })).code).toBe(0);
    const more = await espalierJson(["copy", `store:${file}`, out], env);
    expect(more.value.written).toBeGreaterThan(0);
    expect(more.value.written).toBeLessThan(1_000);
    const other = await espalierJson(["copy", DEMO, "store:"], env);
    expect(other).toMatchObject({ code: 1, value: { error: { code: "exists" } } });
    // A whole store at once, by its address.
    const folder = `${temporaryFolder()}/`;
    const all = await espalierJson(["copy", address("copies"), folder]);
    expect(all.values).toHaveLength(1);
    expect(readFileSync(all.value.file).equals(readFileSync(out))).toBe(true);
  });

  test("a session of an old format is copied unchanged, and upgraded when it is written", async () => {
    const env = inStore("old");
    const without = (line: object, ...keys: string[]) =>
      Object.fromEntries(Object.entries(line).filter(([key]) => !keys.includes(key)));
    const old = sessionOf(
      without(HEADER, "version"),
      ...["one", "two"].map((text) => without(said("x", null, text), "id", "parentId")),
    );
    expect((await espalierJson(["copy", old, "store:old"], env)).code).toBe(0);
    const tree = (await espalierJson(["tree", "old"], env)).value;
    expect(tree.entries).toEqual((await espalierJson(["tree", old])).value.entries);
    const folder = temporaryFolder();
    const comesOut = async (name: string) => {
      const out = join(folder, `${name}.jsonl`);
      expect((await espalierJson(["copy", `store:${name}`, out], env)).code).toBe(0);
      expect(readFileSync(out).equals(readFileSync(old))).toBe(true);
    };
    await comesOut("old");
    expect((await espalier(["name", "old", "Named"], env)).code).toBe(0);
    await comesOut("old.v1");
    const named = (await espalierJson(["tree", "old"], env)).value;
    expect(named.session).toMatchObject({ name: "Named", version: 3 });
    expect(named.entries.slice(0, 2)).toEqual(tree.entries);
    expect((await espalierJson(["list"], env)).values.map(({ file }) => file)).toEqual(["old"]);
    const removed = await espalierJson(["delete", "old", "--yes"], env);
    expect(removed.value).toEqual({ deleted: ["old", "old.v1"] });
  });

  test("a name in the store is not a path", async () => {
    const env = inStore("names");
    await espalierJson(["copy", DEMO, "store:tides"], env);
    const out = join(temporaryFolder(), "fork.jsonl");
    const refused = await espalierJson(["fork", "tides", "kpg9JT9KkzGf", "--out", out], env);
    expect(refused).toMatchObject({ code: 1, value: { error: { code: "invalid-entry" } } });
    expect(refused.value.error.message).toContain(`espalier copy store:NAME ${out}`);
    const fork = await espalierJson(["fork", "tides", "kpg9JT9KkzGf", "--out", "mine"], env);
    expect(fork).toMatchObject({ code: 0, value: { file: "mine" } });
    expect((await espalierJson(["copy", "store:mine", out], env)).code).toBe(0);
  });

  test("a session with faults is not copied, and the suggested cure works", async () => {
    const broken = sessionOf(
      HEADER,
      said("a", null, "one"),
      '{"type":"message","id":"b',
      said("c", "a", "two"),
    );
    const refused = await espalierJson(["copy", broken, "store:"], inStore("damage"));
    expect(refused).toMatchObject({ code: 1, value: { error: { code: "damaged" } } });
    expect(refused.value.error.message).toContain("--repair");
    const repaired = join(temporaryFolder(), "repaired.jsonl");
    await espalier(["doctor", broken, "--repair", repaired]);
    expect((await espalierJson(["copy", repaired, "store:"], inStore("damage"))).code).toBe(0);
  });

  test("every command works on a session of the store as on a file", async () => {
    const env = inStore("commands");
    const stdin = '{"role":"user","content":"What grows here?"}\n{"role":"user","content":"And there?"}';
    const made = await espalierJson(["append", "garden.jsonl"], { ...env, stdin });
    expect(made).toMatchObject({ code: 0, value: { file: "garden.jsonl" } });
    const [first] = made.value.ids as string[];
    const ref = made.value.file as string;
    const foreign = sessionOf(HEADER, said("a", null, "one"));
    const out = (name: string) => join(temporaryFolder(), name);
    const commands = [
      ["append", ref],
      ["tree", ref],
      ["context", ref],
      ["context", ref, "--at", first!],
      ["show", ref, first!],
      ["list"],
      ["label", ref, first!, "beginning"],
      ["name", ref, "The garden"],
      ["pin", ref, first!],
      ["rules", ref, "--add", "answer in English"],
      ["hide", ref, first!],
      ["hide", ref, first!, "--off"],
      ["navigate", ref, "beginning"],
      ["undo", ref],
      ["redo", ref],
      ["fork", ref, "beginning"],
      ["replay", ref, "--verify"],
      ["compact", ref, "--dry-run"],
      ["policies", ref],
      ["stats", ref],
      ["cache", ref],
      ["history", ref, "grows"],
      ["search", "grows"],
      ["run", ref],
      ["doctor", ref],
      ["copy", DEMO, "store:tides"],
      ["eval", "tides", "--policy", "token-budget"],
      ["navigate", "tides", "before-cache", "--summarize"],
      ["diff", "tides", "before-cache", "leaf"],
      ["merge", "tides", "works-offline"],
      ["compact", "tides", "--keep-recent", "500", "--summarizer", "extractive"],
      ["fork", "tides", "works-offline", "--summarize"],
      ["doctor", "tides", "--repair", out("repaired.jsonl")],
      ["import", foreign],
      ...["html", "markdown", "json", "jsonl", "anthropic", "openai"].map((format) => {
        // A document of one path has a warning on what it leaves out.
        const all = format === "markdown" ? ["--all"] : [];
        return ["export", "tides", "--format", format, ...all, "--out", out(`x.${format}`)];
      }),
      ["continue", "tides", "--in", "codex", "--cwd", temporaryFolder(), "--out", out("rollout.jsonl")],
      ["delete", ref, "--yes"],
    ];
    // Those that another test here tries, and those that know nothing of sessions.
    const others = [
      "open",
      "serve",
      "chat",
      "store",
      "demo",
      "help",
      "summarize",
      "config",
      "trust",
      "completion",
      "mcp",
      "install",
      "uninstall",
    ];
    const { stdout: help } = await espalier(["--help"]);
    const named = [...help.slice(help.indexOf("Work with a session:")).matchAll(/^ {2}([a-z]+)\b/gm)].map(
      ([, name]) => name,
    );
    expect(named.length).toBeGreaterThan(25);
    expect(named.filter((name) => ![...commands.map(([each]) => each), ...others].includes(name))).toEqual(
      [],
    );
    for (const parameters of commands) {
      const run = await espalierJson(parameters, {
        ...env,
        ...(parameters[0] === "append" ? { stdin } : {}),
      });
      expect({ parameters, code: run.code, stderr: run.stderr }).toEqual({ parameters, code: 0, stderr: "" });
      expect(run.stdout).not.toContain(PASSWORD);
    }
    expect((await espalierJson(["tree", ref], env)).value.error.code).toBe("not-found");
  });

  test.skipIf(!hasTmux)("the terminal lists, opens, follows and changes its sessions", async () => {
    const env = inStore("terminal");
    const stdin = '{"role":"user","content":"What grows here?"}';
    const ref: string = (await espalierJson(["append", "garden.jsonl"], { ...env, stdin })).value.file;
    await espalierJson(["append", "meadow.jsonl"], { ...env, stdin: stdin.replace("grows", "flowers") });
    const screen = await Tmux.run([], env);
    await screen.shows(/What flowers here\?.*\n.*What grows here\?/);
    screen.write("/grows here");
    await screen.until((shown) => !shown.includes("flowers"), "only what was searched for");
    screen.keys("Down", "Enter");
    await screen.shows(/▸.*What grows here\?/);
    // What somebody else appends is there in a moment.
    await espalierJson(["append", ref], { ...env, stdin: stdin.replace("here", "there") });
    await screen.shows("What grows there?");
    screen.keys("R", "C-u");
    screen.type("The garden");
    await screen.shows("The session is named The garden.");
    screen.write("q");
    await screen.shows(`${Tmux.LEFT} 0`);
    expect((await espalierJson(["tree", ref], env)).value.session.name).toBe("The garden");
    // Named on the command line it opens at once; a word that is no session there is no command either.
    const again = await Tmux.run(["open", ref, "--store", env.env.ESPALIER_STORE]);
    await again.shows("What grows there?");
    expect(again.screen).not.toContain(PASSWORD);
    const other = await Tmux.run(["open", "orchard"], env);
    await other.shows(`${Tmux.LEFT} 1`);
  });

  test("a typed line is completed with sessions and entries of the store", async () => {
    const env = inStore("completion");
    await espalierJson(["copy", DEMO, "store:tides"], env);
    const offered = async (...words: string[]) => (await espalier(["complete", "--", ...words], env)).stdout;
    expect(await offered("tree", "ti")).toMatch(/^tides\t[^\n]*\n$/);
    expect(await offered("tree", "")).toMatch(/^tides\t[^\n]*\n$/);
    expect(await offered("navigate", "tides", "before")).toMatch(/^before-cache\t/);
    const named = await espalier(["complete", "--", "--store", address("completion"), "tree", "ti"]);
    expect(named.stdout).toMatch(/^tides\t/);
  });

  test("the MCP server searches its sessions", async () => {
    const { env } = inStore("mcp");
    await espalier(["store", "migrate"], { env });
    await espalierJson(["copy", DEMO, "store:"], { env });
    const client = new Client({ name: "test", version: "1.0.0" });
    const args = [await bundled(), "mcp", "--no-import"];
    const place = { PATH: process.env["PATH"] ?? "", HOME: temporaryFolder(), ...env };
    await client.connect(new StdioClientTransport({ command: process.execPath, args, env: place }));
    const given = { name: "search_sessions", arguments: { query: "tidepool" } };
    const [content] = (await client.callTool(given)).content as { text: string }[];
    expect(content!.text).toContain("Found in these sessions, of 1:");
    expect(content!.text).not.toContain(PASSWORD);
    await client.close();
  });

  test("a chat is stored in it, and nowhere else", async () => {
    const model = await startMessagesServer({ reply: () => textReply("Roses.") });
    try {
      const home = temporaryFolder();
      const { env } = inStore("chat");
      const around = { ANTHROPIC_API_KEY: "test", ANTHROPIC_BASE_URL: model.url, ESPALIER_HOME: home };
      const options = { env: { ...env, ...around }, cwd: home };
      const asked = await espalier(["chat", "--print", "What grows here?"], options);
      expect(asked).toEqual({ code: 0, stdout: "Roses.\n", stderr: "" });
      expect((await espalier(["chat", "-c", "--print", "And there?"], options)).stdout).toBe("Roses.\n");
      const listed = await espalierJson(["list"], options);
      expect(listed.values).toMatchObject([{ firstMessage: "What grows here?" }]);
      const { value } = await espalierJson(["context", listed.value.file], options);
      expect(value.messages.map(({ role }: { role: string }) => role)).toEqual([
        "user",
        "assistant",
        "user",
        "assistant",
      ]);
      expect(existsSync(join(home, "sessions"))).toBe(false);
    } finally {
      await model.close();
    }
  });

  test("the page shows its sessions", async () => {
    const env = inStore("page");
    await espalierJson(["copy", DEMO, "store:tides"], env);
    const child = await start(["serve", "--write"], env);
    const ended = once(child, "close");
    const [line] = await once(createInterface({ input: child.stdout }), "line");
    const get = async (path: string) => (await fetch(`${line}api/${path}`)).json();
    const [listed, ...others] = (await get("sessions")) as { key: string; file: string }[];
    expect({ file: listed!.file, others }).toEqual({ file: "tides", others: [] });
    expect(await get(`sessions/${listed!.key}/facts`)).toMatchObject({ length: 212 });
    const order = { method: "POST", headers: { "content-type": "application/json" } };
    const body = JSON.stringify({ id: "kpg9JT9KkzGf", label: "from the page" });
    const answer = await fetch(`${line}api/sessions/${listed!.key}/label`, { ...order, body });
    expect(await answer.text()).toContain('"result":{"entryId":');
    child.kill("SIGTERM");
    expect((await ended)[0]).toBe(0);
    const { value } = await espalierJson(["tree", "tides"], env);
    expect(value.entries.find(({ id }: { id: string }) => id === "kpg9JT9KkzGf").label).toBe("from the page");
  });

  test("an unreachable store is reported in one sentence, without its password", async () => {
    const wrong = [
      "postgres://user:sesame-0pen@127.0.0.1:1/none",
      "postgres://user:sesame-0pen@[broken/none",
      `${address("x").replace("/postgres?", "/nowhere?")}`,
    ];
    // At once: an address without a server is tried for seconds.
    const [{ value }, ...answers] = await Promise.all([
      espalierJson(["list", "--store", wrong[0]!]),
      ...wrong.map((store) => espalier(["list", "--store", store])),
    ]);
    for (const { code, stdout, stderr } of answers) {
      expect({ code, stdout }).toEqual({ code: 1, stdout: "" });
      expect(stderr).toMatch(/^[^\n]+\n$/);
      expect(stderr).not.toContain(PASSWORD);
    }
    expect(value.error.code).toBe("unreadable");
  });

  test("files are not changed while a store is used", async () => {
    const file = sessionOf(HEADER, said("a", null, "one"));
    const before = stateOf(file);
    await espalierJson(["copy", file, "store:"], inStore("files"));
    expect(stateOf(file)).toBe(before);
  });
});

test("an address of another kind of store is refused without its password, and nothing is created", async () => {
  const folder = temporaryFolder();
  for (const address of [
    "mysql://ada:pine@localhost/x",
    "postgre://ada:pine@localhost/x",
    "postgres:/ada:pine",
  ]) {
    for (const [parameters, env] of [
      [["list", "--store", address], {}],
      [["append", "walk"], { ESPALIER_STORE: address }],
      [["store", "migrate", "--store", address], {}],
      ...(address.includes("://") ? [[["copy", DEMO, address], {}] as const] : []),
    ] as const) {
      const stdin = '{"role":"user","content":"x"}';
      const run = await espalierJson([...parameters], { env, cwd: folder, stdin });
      expect(run, parameters.join(" ")).toMatchObject({ code: 1, value: { error: { code: "address" } } });
      const { message } = run.value.error;
      expect(message).toMatch(
        /^No store has an address that begins with (mysql|postgres?):; give postgres:\/\/user@host\/database/,
      );
      expect(message).not.toContain("pine");
    }
  }
  expect(readdirSync(folder)).toEqual([]);
});
