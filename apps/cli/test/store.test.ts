import { readFileSync } from "node:fs";
import { join } from "node:path";
import { type PrivateServer, serverPrograms, startPrivateServer } from "@espalier/store-postgres/testing";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import {
  DEMO,
  espalier,
  espalierJson,
  HEADER,
  said,
  sessionOf,
  stateOf,
  temporaryFolder,
} from "./espalier.ts";

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

  test("a database is set up once, by however many at once, and says so before it is used", async () => {
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

  test("the demo plays every step, and leaves the session as it was", async () => {
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

  test("a session goes into the store and out again, and is the same bytes", async () => {
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

  test("what doctor finds fault with is not copied, and the cure works", async () => {
    const broken = sessionOf(
      HEADER,
      said("a", null, "one"),
      '{"type":"message","id":"b',
      said("c", "a", "two"),
    );
    const refused = await espalierJson(["copy", broken, "store:"], inStore("damage"));
    expect(refused).toMatchObject({ code: 1, value: { error: { code: "damaged" } } });
    expect(refused.value.error.message).toContain("--repair");
    const healed = join(temporaryFolder(), "healed.jsonl");
    await espalier(["doctor", broken, "--repair", healed]);
    expect((await espalierJson(["copy", healed, "store:"], inStore("damage"))).code).toBe(0);
  });

  test("every command works on a session of the store as on a file", async () => {
    const env = inStore("commands");
    const stdin = '{"role":"user","content":"What grows here?"}\n{"role":"user","content":"And there?"}';
    const made = await espalierJson(["append", "garden.jsonl"], { ...env, stdin });
    expect(made).toMatchObject({ code: 0, value: { file: "garden.jsonl" } });
    const [first] = made.value.ids as string[];
    const ref = made.value.file as string;
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
      ["navigate", ref, "beginning"],
      ["undo", ref],
      ["fork", ref, "beginning"],
      ["replay", ref, "--verify"],
      ["compact", ref, "--dry-run"],
      ["policies", ref],
      ["stats", ref],
      ["history", ref, "grows"],
      ["search", "grows"],
      ["doctor", ref],
      ["export", ref, "--format", "jsonl", "--out", join(temporaryFolder(), "x.jsonl")],
      ["delete", ref, "--yes"],
    ];
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

  test("a store that cannot be had is one sentence, and nothing of its password", async () => {
    const wrong = [
      "postgres://user:sesame-0pen@127.0.0.1:1/none",
      "postgres://user:sesame-0pen@[broken/none",
      `${address("x").replace("/postgres?", "/nowhere?")}`,
    ];
    for (const store of wrong) {
      const { code, stdout, stderr } = await espalier(["list", "--store", store]);
      expect({ code, stdout }).toEqual({ code: 1, stdout: "" });
      expect(stderr).toMatch(/^[^\n]+\n$/);
      expect(stderr).not.toContain(PASSWORD);
    }
    const { value } = await espalierJson(["list", "--store", wrong[0]!]);
    expect(value.error.code).toBe("unreadable");
  });

  test("files stay as they are while a store is in use", async () => {
    const file = sessionOf(HEADER, said("a", null, "one"));
    const before = stateOf(file);
    await espalierJson(["copy", file, "store:"], inStore("files"));
    expect(stateOf(file)).toBe(before);
  });
});
