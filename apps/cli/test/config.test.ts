import { execFileSync } from "node:child_process";
import { once } from "node:events";
import {
  appendFileSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { POLICY_NAMES, SETTINGS_KEYS } from "@espalier/engine";
import { hangingReply, startMessagesServer } from "@espalier/summarizer/testing";
import { expect, test } from "vitest";
import {
  DEMO,
  demoCopy,
  espalier,
  espalierJson,
  HEADER,
  linesOf,
  said,
  sessionOf,
  start,
  stateOf,
  temporaryFolder,
} from "./espalier.ts";
import { hasTmux, Tmux } from "./tmux.ts";

interface Place {
  cwd: string;
  home: string;
  env: Record<string, string>;
}

/** A home and a project of their own, with these settings. */
function placeWith({ user, project }: { user?: object | string; project?: object }): Place {
  const home = temporaryFolder();
  const cwd = temporaryFolder();
  if (typeof user === "string") writeFileSync(join(home, "settings.toml"), user);
  else if (user) writeFileSync(join(home, "settings.json"), JSON.stringify(user));
  if (project) {
    mkdirSync(join(cwd, ".espalier"));
    writeFileSync(join(cwd, ".espalier", "settings.json"), JSON.stringify(project));
  }
  return { home, cwd, env: { ESPALIER_HOME: home } };
}

interface Row {
  key: string;
  value: unknown;
  origin: string;
  file: string | null;
}

const rowOf = (rows: Row[], key: string) => rows.find((row) => row.key === key);

test("config --json lists every setting with its source and file", async () => {
  const { home, ...place } = placeWith({ user: { keep_last: 12 }, project: { maxMessages: 60 } });
  await espalier(["trust"], place);
  const { code, value } = await espalierJson(["config", "--summarizer", "extractive"], {
    ...place,
    env: { ...place.env, ESPALIER_COMPACT_RETRY_COUNT: "5" },
  });
  expect(code).toBe(0);
  expect(value.map(({ key }: Row) => key)).toEqual(SETTINGS_KEYS);
  for (const row of value) expect(Object.keys(row)).toEqual(["key", "value", "origin", "file"]);
  expect(rowOf(value, "keepLast")).toMatchObject({
    value: 12,
    origin: "user",
    file: join(home, "settings.json"),
  });
  expect(rowOf(value, "maxMessages")).toMatchObject({
    value: 60,
    origin: "project",
    file: join(place.cwd, ".espalier", "settings.json"),
  });
  expect(rowOf(value, "retryCount")).toMatchObject({ value: 5, origin: "environment", file: null });
  expect(rowOf(value, "summarizer")).toMatchObject({ value: "extractive", origin: "flag", file: null });
  expect(rowOf(value, "reserveTokens")).toMatchObject({ value: 16_384, origin: "default", file: null });
});

test("config prints a table for people", async () => {
  const { home, ...place } = placeWith({ user: "[behavior]\nmax_context_tokens = 9000\n" });
  const { code, stdout } = await espalier(["config"], place);
  expect(code).toBe(0);
  expect(stdout).toMatch(/^every policy\n {2}policy +[\w-]+ +when to compact/);
  expect(stdout).toContain(`(user: ${join(home, "settings.toml")})`);
  expect(stdout).toMatch(/^ {2}maxContextTokens +9000 +tokens that count as full \(user: /m);
  expect(stdout).toMatch(/^ {2}summarizer +- +writer of summaries$/m);
  // Each setting is in one group, under its policy.
  const { value } = await espalierJson(["config"], place);
  for (const { key } of value) expect(stdout.match(new RegExp(`^ {2}${key} `, "gm")), key).toHaveLength(1);
  for (const policy of POLICY_NAMES)
    expect(stdout).toMatch(new RegExp(`^${policy}( \\(the current policy\\))?$`, "m"));
  expect(stdout.match(/the current policy/g)).toHaveLength(1);
});

test("config --model includes the settings for this model", async () => {
  const { home: _, ...place } = placeWith({
    user: { models: { "claude-large": { contextWindow: 1_000_000 } } },
  });
  const { value } = await espalierJson(["config", "--model", "anthropic/claude-large"], place);
  expect(rowOf(value, "contextWindow")).toMatchObject({ value: 1_000_000, origin: "user" });
});

test("config --schema prints the JSON Schema of a settings file", async () => {
  const { value } = await espalierJson(["config", "--schema"]);
  expect(Object.keys(value.properties)).toEqual(expect.arrayContaining([...SETTINGS_KEYS]));
});

test("a bad setting stops only commands that need it, and the message names the file, the key and the allowed values", async () => {
  const { home, ...place } = placeWith({ user: { retryCount: 50 } });
  const file = demoCopy();
  const before = stateOf(file);
  for (const parameters of [
    ["config"],
    ["policies", file],
    ["compact", file],
    ["compact", file, "--dry-run"],
  ]) {
    const { code, value } = await espalierJson(parameters, place);
    expect(code).toBe(1);
    expect(value.error).toMatchObject({ code: "settings" });
    expect(value.error.message).toContain(join(home, "settings.json"));
    expect(value.error.message).toContain("retryCount is 50; give it a whole number from 1 to 10");
  }
  expect(stateOf(file)).toBe(before);
  expect((await espalierJson(["tree", file], place)).code).toBe(0);
});

test("config lists the ignored settings of an untrusted project with the reasons", async () => {
  const { home: _, ...place } = placeWith({ project: { maxMessages: 60, summarizer: "anthropic" } });
  const file = join(place.cwd, ".espalier", "settings.json");
  const { value, stderr } = await espalierJson(["config"], place);
  expect(rowOf(value, "maxMessages")).toEqual({
    key: "maxMessages",
    value: 50,
    origin: "default",
    file: null,
    leftOut: { file, effect: "spends" },
  });
  expect(rowOf(value, "summarizer")).toMatchObject({ value: null, leftOut: { file, effect: "sends" } });
  expect(stderr).toBe(
    `${file}: its settings (summarizer, maxMessages) apply only after \`espalier trust\` in ${place.cwd}.\n`,
  );
  const { stdout } = await espalier(["config"], place);
  expect(stdout).toContain("ignored, because the project is not trusted in its current state:\n");
  expect(stdout).toMatch(/^summarizer +chooses the receiver of messages +/m);
  expect(stdout).toMatch(/^maxMessages +decides how often and how much is sent +/m);
});

test("no command hangs on project settings that are a FIFO or a device", async () => {
  for (const make of [
    (file: string) => void execFileSync("mkfifo", [file]),
    (file: string) => symlinkSync("/dev/zero", file),
  ]) {
    const { home: _, ...place } = placeWith({});
    mkdirSync(join(place.cwd, ".espalier"));
    make(join(place.cwd, ".espalier", "settings.json"));
    const file = demoCopy();
    for (const command of [["config"], ["name", file, "one"], ["compact", file, "--dry-run"]])
      expect((await espalier(command, place)).code, command[0]).toBe(0);
    expect(await espalier(["trust"], place)).toMatchObject({ code: 1, stdout: "" });
  }
});

test("projects that are trusted at the same time are all trusted", async () => {
  const { home: _, ...place } = placeWith({});
  const projects = Array.from({ length: 8 }, temporaryFolder);
  const runs = await Promise.all(projects.map((project) => espalier(["trust", project], place)));
  expect(runs.map(({ code }) => code)).toEqual(projects.map(() => 0));
  const { value } = await espalierJson(["trust", "--list"], place);
  expect(value.folders).toEqual(projects.map((project) => realpathSync(project)).sort());
});

test("a project that changed since it was trusted is ignored without a terminal, with one message", async () => {
  const { home: _, ...place } = placeWith({ project: { extensions: ["./mark.ts"] } });
  const ran = join(place.cwd, "ran");
  const mark = (text: string) =>
    `import { appendFileSync } from "node:fs";\nexport default () => appendFileSync(${JSON.stringify(ran)}, "${text} ");`;
  const extensions = join(place.cwd, ".espalier", "extensions");
  mkdirSync(extensions);
  writeFileSync(join(extensions, "found.ts"), mark("found"));
  writeFileSync(join(place.cwd, ".espalier", "mark.ts"), mark("named"));
  const file = sessionOf({ ...HEADER, cwd: place.cwd }, said("u1", null, "hello"));
  await espalier(["trust"], place);
  expect(await espalier(["name", file, "first"], place)).toMatchObject({ code: 0, stderr: "" });
  expect(readFileSync(ran, "utf8")).toBe("found named ");
  writeFileSync(join(place.cwd, ".espalier", "mark.ts"), mark("changed"));
  const { code, stderr } = await espalier(["name", file, "second"], place);
  expect(code).toBe(0);
  expect(stderr).toBe(
    `${place.cwd} has changed since it was trusted (.espalier/mark.ts): its settings and extensions do not apply until \`espalier trust ${place.cwd}\`.\n`,
  );
  expect(readFileSync(ran, "utf8")).toBe("found named ");
  await espalier(["trust"], place);
  expect(await espalier(["name", file, "third"], place)).toMatchObject({ code: 0, stderr: "" });
  expect(readFileSync(ran, "utf8")).toBe("found named found changed ");
});

test.skipIf(!hasTmux)(
  "a terminal asks once about a project that changed since it was trusted",
  async () => {
    const { home: _, ...place } = placeWith({ project: { keepLast: 12, extensions: ["./mark.ts"] } });
    const ran = join(place.cwd, "ran");
    const marking = `import { appendFileSync } from "node:fs";\nexport default () => appendFileSync(${JSON.stringify(ran)}, "ran");`;
    mkdirSync(join(place.cwd, ".espalier", "extensions"));
    const found = join(place.cwd, ".espalier", "extensions", "found.ts");
    writeFileSync(found, "export default () => {};");
    writeFileSync(join(place.cwd, ".espalier", "mark.ts"), "export default () => {};");
    const file = sessionOf({ ...HEADER, cwd: place.cwd }, said("u1", null, "hello"));
    await espalier(["trust"], place);
    writeFileSync(found, marking);
    for (const [answer, times] of [
      ["n", 0],
      ["y", 1],
    ] as const) {
      const tmux = await Tmux.run(["name", file, answer], { ...place, columns: 160 });
      await tmux.shows("Trust it as it is now? [y/N]");
      expect(tmux.screen).toContain(".espalier/extensions/found.ts");
      tmux.type(answer);
      await tmux.shows(/the command left with 0/);
      expect(tmux.history.match(/Trust it as it is now/g)).toHaveLength(1);
      expect(existsSync(ran) ? readFileSync(ran, "utf8") : "").toBe("ran".repeat(times));
    }
    expect(await espalier(["name", file, "later"], place)).toMatchObject({ code: 0, stderr: "" });
  },
  60_000,
);

test.skipIf(!hasTmux)(
  "the interface asks nothing about a project that changes while it is open",
  async () => {
    const { home: _, ...place } = placeWith({ project: { keepLast: 12 } });
    const file = sessionOf({ ...HEADER, cwd: place.cwd }, said("u1", null, "hello"));
    await espalier(["trust"], place);
    const tmux = await Tmux.run([file], place);
    await tmux.shows("1 entry");
    writeFileSync(join(place.cwd, ".espalier", "settings.json"), '{"keepLast": 13}');
    // A session is opened again when its file was replaced.
    const copy = join(place.cwd, "copy.jsonl");
    copyFileSync(file, copy);
    appendFileSync(copy, `${JSON.stringify(said("u2", "u1", "goodbye"))}\n`);
    renameSync(copy, file);
    await tmux.shows("2 entries");
    tmux.keys("l");
    await tmux.shows("Label of this entry");
    expect(tmux.screen).not.toContain("since you trusted it");
    tmux.type("kept");
    await tmux.shows("[kept]");
  },
);

test("modules that a project names are used only after the project is trusted", async () => {
  const { home: _, ...place } = placeWith({ project: { extensions: ["./mark.ts"] } });
  const mark = `import { writeFileSync } from "node:fs";
export default () => writeFileSync(${JSON.stringify(join(place.cwd, "loaded"))}, "");`;
  writeFileSync(join(place.cwd, ".espalier", "mark.ts"), mark);
  const file = demoCopy();
  const before = await espalier(["name", file, "first"], place);
  expect(before).toMatchObject({ code: 0, stderr: expect.stringContaining("espalier trust") });
  expect(existsSync(join(place.cwd, "loaded"))).toBe(false);
  await espalier(["trust"], place);
  expect(await espalier(["name", file, "second"], place)).toMatchObject({ code: 0, stderr: "" });
  expect(existsSync(join(place.cwd, "loaded"))).toBe(true);
});

test("policies --json has a row for each policy and changes nothing", async () => {
  const file = demoCopy();
  const before = stateOf(file);
  const { code, value } = await espalierJson(["policies", file]);
  expect(code).toBe(0);
  expect(value.map(({ policy }: { policy: string }) => policy)).toEqual(POLICY_NAMES);
  for (const row of value) {
    expect(Object.keys(row).sort()).toEqual(
      [
        "policy",
        "eligible",
        "reason",
        "messagesBefore",
        "messagesAfter",
        "tokensBefore",
        "tokensAfter",
        "summarised",
        "calls",
        "cache",
      ].sort(),
    );
    if (row.eligible) {
      expect(row.reason).toBeNull();
      expect(row.tokensAfter).toBeLessThan(row.tokensBefore);
      expect(row.summarised).toBeGreaterThan(0);
      expect(row.calls).toBeGreaterThan(0);
      expect(row.cache).toMatchObject({ anew: expect.any(Number), cost: expect.any(Number) });
      expect(row.cache.paysBackAfter).toBeGreaterThan(0);
    } else expect(row).toMatchObject({ reason: expect.any(String), calls: 0, summarised: 0 });
  }
  expect(value.some(({ eligible }: { eligible: boolean }) => eligible)).toBe(true);
  expect(stateOf(file)).toBe(before);
});

test("policies prints a table for people", async () => {
  const { stdout } = await espalier(["policies", DEMO]);
  expect(stdout).toMatch(/^policy +messages +tokens +summarized +kept +calls +written +pays back\n/);
  for (const policy of POLICY_NAMES) expect(stdout).toContain(`\n${policy} `);
});

test("policies uses the current settings", async () => {
  const { home: _, ...place } = placeWith({ user: { keepRecentTokens: 1_000 } });
  const ofBudget = async (options: Partial<Place>) =>
    (await espalierJson(["policies", DEMO], options)).value[0];
  expect(await ofBudget({})).toMatchObject({ eligible: false });
  expect(await ofBudget(place)).toMatchObject({ policy: "token-budget", eligible: true });
});

test.each(POLICY_NAMES)(
  "compact --policy %s does what its dry run predicts, and the context gets smaller",
  async (policy) => {
    const { home: _, ...place } = placeWith({
      user: {
        keepRecentTokens: 3_000,
        tailKeepSize: 5,
        contextSize: 20,
        keepLast: 5,
        maxContextTokens: 3_000,
      },
    });
    const file = demoCopy();
    const { value: plan } = await espalierJson(["compact", file, "--policy", policy, "--dry-run"], place);
    expect(plan).toMatchObject({ eligible: true, policy });
    const { code, value } = await espalierJson(["compact", file, "--policy", policy], place);
    expect(code).toBe(0);
    expect(value.tokensAfter).toBeLessThan(value.tokensBefore);
    expect(linesOf(file).some(({ id, type }) => id === value.entryId && type === "compaction")).toBe(true);
  },
);

test("compact uses the policy of the settings, unless one is named", async () => {
  const { home: _, ...place } = placeWith({ user: { policy: "message-count", keepLast: 5 } });
  const policyOf = async (...named: string[]) =>
    (await espalierJson(["compact", DEMO, "--dry-run", "--keep-recent", "1000", ...named], place)).value
      .policy;
  expect(await policyOf()).toBe("message-count");
  expect(await policyOf("--policy", "token-budget")).toBe("token-budget");
});

test("the model of the session has its own settings", async () => {
  const file = sessionOf(
    HEADER,
    {
      type: "model_change",
      id: "m1",
      parentId: null,
      timestamp: HEADER.timestamp,
      provider: "anthropic",
      modelId: "claude-tiny",
    },
    ...Array.from({ length: 20 }, (_, index) =>
      said(`e${index}`, index === 0 ? "m1" : `e${index - 1}`, "word ".repeat(400)),
    ),
  );
  const { home: _, ...place } = placeWith({
    user: { models: { "claude-tiny": { keepRecentTokens: 1_000 } } },
  });
  expect((await espalierJson(["compact", file, "--dry-run"])).value).toMatchObject({ eligible: false });
  expect((await espalierJson(["compact", file, "--dry-run"], place)).value).toMatchObject({ eligible: true });
});

test("rules lists only those that a compaction keeps: found ones only with the setting rules", async () => {
  const file = sessionOf(HEADER, said("e1", null, "Never push without asking me."));
  const { home: _, ...place } = placeWith({ user: { rules: false } });
  expect((await espalierJson(["rules", file])).value.rules).toHaveLength(1);
  expect((await espalierJson(["rules", file], place)).value.rules).toEqual([]);
});

test("a policy that is judged after each append compacts the entries that append wrote", async () => {
  const { home: _, ...place } = placeWith({
    user: { policy: "message-count", maxMessages: 12, keepLast: 5 },
  });
  const file = join(temporaryFolder(), "new.jsonl");
  const lines = Array.from({ length: 14 }, (_, index) =>
    JSON.stringify({ role: "user", content: `Message ${index}: ${"word ".repeat(200)}` }),
  );
  expect((await espalier(["append", file], { ...place, stdin: `${lines.join("\n")}\n` })).code).toBe(0);
  expect(linesOf(file).filter(({ type }) => type === "compaction")).toHaveLength(1);
  const quiet = join(temporaryFolder(), "quiet.jsonl");
  const env = { ...place.env, ESPALIER_COMPACT_AUTO_COMPACT: "false" };
  expect((await espalier(["append", quiet], { ...place, env, stdin: `${lines.join("\n")}\n` })).code).toBe(0);
  expect(linesOf(quiet).filter(({ type }) => type === "compaction")).toHaveLength(0);
});

test("the ids of appended messages are printed before their compaction ends", async () => {
  const server = await startMessagesServer({ reply: hangingReply() });
  const { home: _, ...place } = placeWith({
    user: { policy: "message-count", maxMessages: 10, keepLast: 4 },
  });
  const env = { ...place.env, ANTHROPIC_API_KEY: "key", ANTHROPIC_BASE_URL: server.url };
  const run = await start(["append", demoCopy(), "--summarizer", "anthropic", "--json"], { ...place, env });
  try {
    run.stdin.end('{"role":"user","content":"And now?"}');
    const [printed] = await once(run.stdout, "data", { signal: AbortSignal.timeout(30_000) });
    expect(JSON.parse(String(printed)).ids).toHaveLength(1);
  } finally {
    run.kill("SIGKILL");
    await server.close();
  }
}, 60_000);
