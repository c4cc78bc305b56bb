// `import`: sessions of other agents, from where those agents keep them.
import { mkdirSync, readdirSync, readFileSync, symlinkSync, utimesSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { otherAgents } from "@espalier/interop";
import { expect, test } from "vitest";
import { espalier, espalierJson, HEADER, said, sessionOf, stateOf, temporaryFolder } from "./espalier.ts";
import { Scratch } from "./terminal-scratch.ts";

const claudeLine = (uuid: string, parentUuid: string | null, cwd: string, message: object) => ({
  type: (message as { role: string }).role,
  uuid,
  parentUuid,
  sessionId: "claude-1",
  timestamp: "2026-01-01T00:00:00.000Z",
  cwd,
  message,
});

const claudeSession = (cwd: string): object[] => [
  claudeLine("u1", null, cwd, { role: "user", content: "Which way is up?" }),
  claudeLine("a1", "u1", cwd, { role: "assistant", content: [{ type: "text", text: "That one." }] }),
  claudeLine("u2", "a1", cwd, { role: "user", content: "And down?" }),
];

const codexItem = (role: string, type: string, text: string) => ({
  timestamp: "2026-01-01T00:00:01.000Z",
  type: "response_item",
  payload: { type: "message", role, content: [{ type, text }] },
});

const codexSession = (cwd: string): object[] => [
  {
    timestamp: "2026-01-01T00:00:00.000Z",
    type: "session_meta",
    payload: { id: "codex-1", timestamp: "2026-01-01T00:00:00.000Z", cwd, cli_version: "0.125.0" },
  },
  codexItem("user", "input_text", "Which way is up?"),
  codexItem("assistant", "output_text", "That one."),
];

function write(file: string, lines: readonly object[], end = "\n"): string {
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, lines.map((line) => JSON.stringify(line)).join("\n") + end);
  return file;
}

/** A home in which Claude Code and Codex worked, in two folders. */
function home() {
  const folder = temporaryFolder();
  const [here, elsewhere] = [join(folder, "here"), join(folder, "elsewhere")];
  mkdirSync(here);
  const claude = join(folder, ".claude", "projects");
  const source = write(join(claude, "here", "claude-1.jsonl"), claudeSession(here));
  const text = JSON.stringify(claudeSession(elsewhere)).replaceAll(/"([ua]\d)"/g, '"other-$1"');
  const other = JSON.parse(text).map((line: object) => ({ ...line, sessionId: "claude-2" }));
  write(join(claude, "elsewhere", "claude-2.jsonl"), other);
  const day = join(folder, ".codex", "sessions", "2026", "01", "01");
  write(join(day, "rollout-2026-01-01T00-00-00-codex-1.jsonl"), codexSession(here));
  const env = {
    HOME: folder,
    ESPALIER_HOME: join(folder, ".espalier"),
    CLAUDE_CONFIG_DIR: undefined,
    CODEX_HOME: undefined,
  };
  return { folder, here, source, options: { env, cwd: here } };
}

test("an agent's name imports its sessions of this folder; --all imports those of all folders", async () => {
  const { options, source, here: folder } = home();
  const here = await espalierJson(["import", "claude-code"], options);
  expect(here.values).toEqual([
    {
      source,
      agent: "claude-code",
      file: expect.stringMatching(/claude-1\.jsonl$/),
      sessionId: "claude-1",
      title: "Which way is up?",
      updatedAt: "2026-01-01T00:00:00.000Z",
      cwd: folder,
      parent: null,
      status: "created",
      entries: 3,
      added: 3,
      branches: 1,
      compactions: 0,
      issues: [],
    },
  ]);
  const all = await espalierJson(["import", "claude-code", "--all"], options);
  expect(all.values.map(({ sessionId, status }) => [sessionId, status]).sort()).toEqual([
    ["claude-1", "unchanged"],
    ["claude-2", "created"],
  ]);
  const codex = await espalierJson(["import", "codex"], options);
  expect(codex.values).toMatchObject([{ sessionId: "codex-1", status: "created" }]);
  const context = await espalierJson(["context", "codex-1"], options);
  expect(context.value.messages.map(({ role }: { role: string }) => role)).toEqual(["user", "assistant"]);
});

test("a session without a folder is not one of this folder; --all and its path import it", async () => {
  const { options, source } = home();
  write(source, claudeSession(""));
  expect(await espalier(["import", "claude-code"], options)).toMatchObject({
    code: 1,
    stdout: "",
    stderr: expect.stringContaining("No session of claude-code worked in"),
  });
  const all = await espalierJson(["import", "claude-code", "--all"], options);
  expect(all.values.map(({ sessionId, cwd }) => [sessionId, cwd]).sort()).toMatchObject([
    ["claude-1", null],
    ["claude-2", expect.stringMatching(/elsewhere$/)],
  ]);
  const named = await espalierJson(["import", source], options);
  expect(named.value).toMatchObject({ sessionId: "claude-1", status: "unchanged" });
});

test("each agent of the table is a choice of lists, imports and the terminal's filter, and in the help", async () => {
  const { options } = home();
  const help = async (command: string) =>
    (await espalier([command, "--help"], options)).stdout.replaceAll(/\s+/g, " ");
  const [list, imports, mcp] = await Promise.all(["list", "import", "mcp"].map(help));
  const dialog = new Scratch().keys("f").state.dialog!;
  expect(new Set(dialog.choices.map(({ key }) => key)).size).toBe(dialog.choices.length);
  for (const { agent, title, isConverted } of otherAgents) {
    expect(list).toMatch(new RegExp(`--agent <name> [^)]*"${agent}"`));
    expect(imports).toMatch(new RegExp(`sessions of other agents: .*\\b${agent},`));
    expect(isConverted ? imports : list).toMatch(new RegExp(`by default all of .*\\b${title}\\b`));
    expect(mcp).toMatch(
      new RegExp(isConverted ? `do not import sessions of .*${title}` : `those of .*${title} are read`),
    );
    expect(dialog.choices.map((choice) => choice.title)).toContain(`of ${title}`);
    expect(await espalierJson(["list", "--agent", agent], options)).toMatchObject({ values: [] });
  }
});

test("several files, folders and agents are imported with one call, as a shell expands *.jsonl", async () => {
  const { options, source, folder } = home();
  const elsewhere = join(folder, ".claude", "projects", "elsewhere");
  const { values } = await espalierJson(["import", source, elsewhere, "codex"], options);
  expect(values.map(({ sessionId, status }) => [sessionId, status])).toEqual([
    ["claude-1", "created"],
    ["claude-2", "created"],
    ["codex-1", "created"],
  ]);
  const again = await espalier(["import", source, elsewhere, "codex"], options);
  expect(again.stdout).toContain("3 sessions unchanged");
  const missing = await espalier(["import", source, join(folder, "none.jsonl")], options);
  expect(missing).toMatchObject({ code: 1, stderr: expect.stringContaining("none.jsonl") });
});

test("a second import adds new entries, and the source is not changed", async () => {
  const { options, source, here } = home();
  await espalier(["import", source], options);
  const lines = [...claudeSession(here), claudeLine("u3", "a1", here, { role: "user", content: "Left?" })];
  write(source, lines);
  const before = stateOf(source);
  const again = await espalierJson(["import", source], options);
  expect(again.value).toMatchObject({ status: "updated", added: 1, entries: 4, branches: 2 });
  const unchanged = await espalierJson(["import", source], options);
  expect(unchanged.value).toMatchObject({ status: "unchanged", added: 0 });
  expect(stateOf(source)).toBe(before);
});

test("the report for people has a line per session, explains the losses, and ends with totals", async () => {
  const { options, source, here } = home();
  const lines = [...claudeSession(here), claudeLine("u9", "gone", here, { role: "user", content: "Lost?" })];
  write(source, [...lines, { type: "queue-operation" }], '\n{"type":"us');
  const { code, stdout } = await espalier(["import", source], options);
  expect(code).toBe(0);
  expect(stdout.split("\n")).toEqual([
    "created    2026-01-01  here            Which way is up?  (4 entries, 2 branches)",
    "",
    "note The last line was cut off while it was written. (1 line in 1 file)",
    "note A message follows one that is not in the file; shown as a separate branch. (1 line in 1 file)",
    "1 line left out: bookkeeping of the agent, or duplicates of other lines. --json lists each.",
    "1 new session with 4 entries.",
    "`espalier open claude-1` shows it.",
    "",
  ]);
  write(source, [...lines, claudeLine("u4", "u2", here, { role: "user", content: "Left?" })]);
  const grown = (await espalier(["import", "claude-code", "--all"], options)).stdout.trimEnd().split("\n");
  // Files that were made in the same millisecond come in either order.
  expect(grown.splice(0, 2).sort()).toEqual([
    "created    2026-01-01  elsewhere       Which way is up?  (3 entries)",
    "updated    2026-01-01  here            Which way is up?  (1 new entry, 2 branches)",
  ]);
  expect(grown).toEqual([
    "",
    "note A message follows one that is not in the file; shown as a separate branch. (1 line in 1 file)",
    "1 new session with 3 entries, 1 session with 1 new entry.",
    "`espalier` lists them, newest first; `espalier search <text>` finds a message.",
  ]);
  const again = await espalier(["import", "claude-code", "--all"], options);
  expect(again.stdout).toBe(
    "note A message follows one that is not in the file; shown as a separate branch. (1 line in 1 file)\n2 sessions unchanged (8 entries).\n",
  );
});

test("a second import of a thread in several files reports no line that is left out", async () => {
  const { options, folder, here } = home();
  const id = "01a1ffe6-7b96-7352-9763-ae66a9453f24";
  const [header, ...items] = codexSession(here) as { payload: object }[];
  const lines = [{ ...header, payload: { ...header!.payload, id } }, ...items];
  const event = { type: "event_msg", payload: { type: "agent_message", message: "That one." } };
  const day = join(folder, ".codex/sessions/2026/01/01");
  for (const [name, added] of ["", "_01a1ffe6-7e63-7003-b4a1-a8a0b5aa897f"].entries())
    write(join(day, `rollout-2026-01-01T00-00-0${name + 1}-${id}${added}.jsonl`), [
      ...lines,
      event,
      ...items,
    ]);
  expect((await espalier(["import", day], options)).stdout).toContain("left out: bookkeeping");
  const again = await espalier(["import", day], options);
  expect(again.stdout).toBe("3 files: 2 sessions unchanged (8 entries).\n");
});

test("a session in several files has a line for each file that adds to it, with the branches of all", async () => {
  const { options, source, here } = home();
  const more = join(dirname(source), "claude-1-more.jsonl");
  const question = (id: string) => claudeLine(id, "a1", here, { role: "user", content: "Left?" });
  write(more, [...claudeSession(here), question("u3")]);
  utimesSync(source, 1, 1);
  const { stdout } = await espalier(["import", dirname(source)], options);
  expect(stdout.split("\n").slice(0, 2)).toEqual([
    "created    2026-01-01  here            Which way is up?  (3 entries)",
    "updated    2026-01-01  here            Which way is up?  (1 new entry, 2 branches)",
  ]);
  expect(stdout).toContain("\n2 files: 1 new session with 4 entries.\n");
});

test("a fork is linked to its original in an import and in lists", async () => {
  const { options, folder, here } = home();
  const [original, fork] = ["1111", "9999"].map((end) => `00000000-2222-4333-8444-55555555${end}`);
  const lines = claudeSession(here).map((line) => ({ ...line, sessionId: original }));
  const project = join(folder, ".claude", "projects", "forks");
  write(join(project, `${original}.jsonl`), lines);
  const last = { ...claudeLine("u3", "a1", here, { role: "user", content: "Left?" }), sessionId: fork };
  write(join(project, `${fork}.jsonl`), [...lines.slice(0, 2), last]);
  const { stdout } = await espalier(["import", project], options);
  expect(stdout).toContain("  fork of 00000000: Which way is up?  (3 entries)");
  const { values } = await espalierJson(["list"], options);
  expect(values.find(({ id }) => id === fork)).toMatchObject({
    parent: { sessionId: original, entryId: "a1", kind: "fork" },
  });
  expect(values.find(({ id }) => id === original)).not.toHaveProperty("parent");
  expect((await espalier(["list"], options)).stdout).toMatch(/ fork of 00000000-[-\d]+: Which way is up\?$/m);
  const ofParent = await espalierJson(["list", "--parent", original!], options);
  expect(ofParent.values.map(({ id }) => id)).toEqual([fork]);
  const stats = await espalier(["stats", fork!], options);
  expect(stats.stdout).toContain(`A fork of ${original}, with the same first 2 entries.`);
});

test("an import names the original of a fork by its whole id when the id is short", async () => {
  const { options, folder, here } = home();
  const project = join(folder, ".claude", "projects", "forks");
  const turn = {
    ...claudeLine("u1", null, here, { role: "user", content: "Left?" }),
    sessionId: "other-plan",
  };
  const forkedFrom = { sessionId: "harbour-plan", messageUuid: "u1" };
  write(join(project, "other-plan.jsonl"), [{ ...turn, forkedFrom }]);
  const { stdout } = await espalier(["import", project], options);
  expect(stdout).toContain("  fork of harbour-plan: Left?");
});

test("keys are removed, and kept with --no-redact", async () => {
  for (const [flags, isKept] of [
    [[], false],
    [["--no-redact"], true],
  ] as const) {
    const { options, source, here } = home();
    const key = `ghp_${"a1B2".repeat(9)}`;
    write(source, [claudeLine("u1", null, here, { role: "user", content: `Use ${key}.` })]);
    const { value } = await espalierJson(["import", source, ...flags], options);
    expect(readFileSync(value.file, "utf8").includes(key)).toBe(isKept);
    expect(readFileSync(source, "utf8")).toContain(key);
  }
});

test("without a result, the message suggests the next step", async () => {
  const { options, folder } = home();
  const elsewhere = { ...options, cwd: folder };
  const here = await espalierJson(["import", "claude-code"], elsewhere);
  expect(here.code).toBe(1);
  expect(here.value.error).toMatchObject({ code: "not-found", message: expect.stringContaining("--all") });
  const pi = await espalierJson(["import", "pi"], options);
  expect(pi.value.error).toMatchObject({
    code: "not-found",
    message: expect.stringContaining("pi/sessions"),
  });
  const nowhere = await espalierJson(["import", join(folder, "none.jsonl")], options);
  expect(nowhere.value.error).toMatchObject({ code: "not-found" });
  const notes = join(folder, "notes.jsonl");
  writeFileSync(notes, '{"a":1}\n');
  const skipped = await espalierJson(["import", notes], options);
  expect(skipped.code).toBe(1);
  expect(skipped.value).toMatchObject({ status: "skipped", issues: [{ kind: "not-a-session" }] });
});

test.each([
  ["Claude Code", claudeSession("/garden")],
  ["Codex", codexSession("/garden")],
])("every command refuses a session of %s and suggests an import", async (agent, lines) => {
  const file = write(join(temporaryFolder(), "theirs.jsonl"), lines);
  const before = stateOf(file);
  for (const command of [["tree"], ["context"], ["doctor"], ["compact"], ["undo"], ["open"]]) {
    const { code, value } = await espalierJson([...command, file]);
    expect(code, command[0]).toBe(1);
    expect(value.error.code).toBe("foreign");
    expect(value.error.message).toContain(`is a session of ${agent}; \`espalier import ${file}\``);
    expect(value.error.message).toContain(`\`espalier demo ${file}\``);
  }
  expect(stateOf(file)).toBe(before);
});

test("the demo plays on an import of another agent's session, and does not change the original", async () => {
  const file = write(join(temporaryFolder(), "theirs.jsonl"), claudeSession("/garden"));
  const before = stateOf(file);
  const TMPDIR = temporaryFolder();
  const { code, stdout } = await espalier(["demo", file], { env: { TMPDIR } });
  expect(code).toBe(0);
  expect(stdout).toContain("a session of Claude Code");
  const sha256 = before.split(" ")[0]!;
  expect(stdout).toContain(`untouched   ${file} (SHA-256 ${sha256.slice(0, 16)}…, as before)`);
  // The copies are left to be played with, and nothing else is.
  expect(readdirSync(TMPDIR)).toEqual([expect.stringMatching(/^espalier-demo-\w+$/)]);
  expect(stdout).toContain("Which way is up?");
  expect(stateOf(file)).toBe(before);
});

test("a circular link does not stop the import of the rest of its folder", async () => {
  const folder = temporaryFolder();
  write(join(folder, "claude-1.jsonl"), claudeSession("/work"));
  symlinkSync("circle.jsonl", join(folder, "circle.jsonl"));
  const env = { ESPALIER_HOME: temporaryFolder() };
  const { code, values } = await espalierJson(["import", folder], { env });
  expect(code).toBe(0);
  expect(values).toMatchObject([{ sessionId: "claude-1", status: "created" }]);
  const circle = await espalierJson(["import", join(folder, "circle.jsonl")], { env });
  expect(circle).toMatchObject({ code: 1, value: { error: { code: "not-found" } } });
});

test("a first start lists the sessions of other agents that can be imported", async () => {
  const { options } = home();
  const hint = [
    "Found on this machine: 2 Claude Code sessions, 1 Codex.",
    "To list and search them here, run `espalier import`.",
  ].join("\n");
  const list = await espalier(["list"], options);
  expect(list.stdout).toBe(`There are no sessions here.\n\n${hint}\n`);
  const search = await espalier(["search", "up"], options);
  expect(search).toMatchObject({ code: 1, stdout: `Nothing was found.\n\n${hint}\n` });
  expect((await espalier(["list", "--agent", "codex"], options)).stdout).toContain(hint);
  // Programs get sessions alone.
  expect((await espalier(["list", "--json"], options)).stdout).toBe("");
  const all = await espalierJson(["import"], options);
  expect(all.values.map((report) => (report as { agent: string }).agent).sort()).toEqual([
    "claude-code",
    "claude-code",
    "codex",
  ]);
  expect((await espalier(["list"], options)).stdout).not.toContain("Found");
  const none = await espalier(["list", "--agent", "pi"], options);
  expect(none.stdout).toBe("No session matches; `espalier list` lists all.\n");
});

test("an import without a name suggests a path if no other agent has sessions", async () => {
  const env = {
    HOME: temporaryFolder(),
    ESPALIER_HOME: temporaryFolder(),
    CLAUDE_CONFIG_DIR: "",
    CODEX_HOME: "",
  };
  expect(await espalierJson(["import"], { env })).toMatchObject({
    code: 1,
    value: { error: { code: "not-found", message: expect.stringContaining("name a file or folder") } },
  });
});

test("an agent's folder that cannot be read is named with the reason, and the other agents are imported", async () => {
  const { options } = home();
  // Its name is longer than the system takes, so nobody can read it, the superuser included.
  const folder = join(temporaryFolder(), "d".repeat(300));
  const reason = `${join(folder, "projects")} cannot be accessed (ENAMETOOLONG); check the rights of its folder.`;
  const noClaude = { ...options, env: { ...options.env, CLAUDE_CONFIG_DIR: folder } };
  const all = await espalier(["import"], noClaude);
  expect(all).toMatchObject({ code: 0, stderr: "" });
  expect(all.stdout).toMatch(/^created /m);
  expect(all.stdout).toContain(reason);
  for (const flags of [[], ["--all"]]) {
    const { code, stdout, stderr } = await espalier(["import", "claude-code", ...flags], noClaude);
    expect({ code, stderr }).toEqual({ code: 1, stderr: "" });
    expect(stdout).toContain(reason);
  }
  const env = { ...options.env, CODEX_HOME: folder, PI_CODING_AGENT_DIR: folder };
  for (const agent of ["codex", "pi"])
    expect(await espalierJson(["import", agent], { ...options, env })).toMatchObject({
      code: 1,
      value: { issues: [{ kind: "unreadable", message: expect.stringContaining("ENAMETOOLONG") }] },
    });
});

test("the cost of an imported session is the agent's figure, or an estimate that is marked, and never free", async () => {
  const { options, source, here, folder } = home();
  const usage = { input_tokens: 3_000, output_tokens: 12 };
  const answer = (uuid: string, parent: string, id: string, text: string) =>
    claudeLine(uuid, parent, here, {
      id,
      role: "assistant",
      model: "claude-sonnet-4-5",
      content: [{ type: "text", text }],
      usage,
    });
  const costState = (totalCostUSD: number) => ({ type: "cost-state", sessionId: "claude-1", totalCostUSD });
  const [first, , second] = claudeSession(here);
  const run = [
    {
      ...claudeLine("s1", "a1", here, { role: "user", content: "Look down." }),
      isSidechain: true,
      agentId: "x",
    },
    { ...answer("s2", "s1", "msg-3", "Down."), isSidechain: true, agentId: "x" },
  ];
  write(source, [
    first!,
    answer("a1", "u1", "msg-1", "That one."),
    costState(0.02),
    ...run,
    second!,
    costState(0.05),
  ]);
  const { stdout } = await espalier(["import", source], options);
  expect(stdout).toMatch(/^1 new session and 1 run of a sub-agent with \d+ entries\.$/m);
  expect((await espalier(["list"], options)).stdout).toMatch(
    /\nand 1 run of a sub-agent: --sub-agents lists it\n$/,
  );
  expect((await espalier(["import", source], options)).stdout).toMatch(
    /^1 session and 1 run of a sub-agent unchanged \(\d+ entries\)\.$/m,
  );
  const stats = async (session: string) => (await espalier(["stats", session], options)).stdout;
  const ofClaude = await espalierJson(["stats", "claude-1"], options);
  expect(ofClaude.value).toMatchObject({ cost: 0.05, estimated: false, recordedCost: 0.05, calls: 1 });
  expect(ofClaude.value.models).toMatchObject([{ cost: 0.00918, estimated: true }]);
  expect(ofClaude.value.subAgents).toMatchObject([{ cost: 0.00918, estimated: true }]);
  expect(ofClaude.value.withSubAgents).toMatchObject({ calls: 2, cost: 0.05, estimated: false });
  expect(await stats("claude-1")).toContain(
    "$0.0500 for 1 call\nThis cost is recorded by Claude Code and includes sub-agents. Prices of single calls are not recorded: ≈ is an estimate by the list of 2026-11-22.\n1 sub-agent: 1 call, 3,012 tokens, ≈ $0.0092; included\n",
  );

  const answered = (model: string) => (id: string) => ({
    ...claudeLine(id, null, here, {}),
    type: "message",
    id,
    parentId: null,
    message: {
      role: "assistant",
      content: [{ type: "text", text: "That one." }],
      provider: "somewhere",
      model,
      stopReason: "stop",
      usage: { input: 400_000, output: 10_000, cacheRead: 0, cacheWrite: 0, cost: { total: 0 } },
      timestamp: 1,
    },
  });
  const header = { type: "session", version: 3, timestamp: "2026-01-01T00:00:00.000Z", cwd: here };
  const priced = write(join(folder, "codex.jsonl"), [{ ...header, id: "c" }, answered("gpt-5.2")("a1")]);
  expect((await espalierJson(["stats", priced], options)).value).toMatchObject({
    cost: 0.84,
    estimated: true,
    unpriced: 0,
    recordedCost: null,
  });
  expect(await stats(priced)).toMatch(
    /^≈ \$0\.8400 for 1 call\n≈ is an estimate: no price is recorded, .*\.\n/,
  );
  expect((await espalierJson(["cache", priced], options)).value.cost).toMatchObject({
    total: 0.84,
    estimated: true,
  });
  const unknown = write(join(folder, "own.jsonl"), [{ ...header, id: "o" }, answered("my-model")("a1")]);
  expect((await espalierJson(["stats", unknown], options)).value).toMatchObject({ cost: null, unpriced: 1 });
  expect((await espalierJson(["cache", unknown], options)).value.cost).toMatchObject({
    total: null,
    lost: null,
  });
  const diff = await espalierJson(["diff", unknown, "start", "leaf"], options);
  expect(diff.value.b.cost).toBeNull();
  for (const command of [
    ["stats", unknown],
    ["cache", unknown],
    ["diff", unknown, "start", "leaf"],
  ])
    expect((await espalier(command, options)).stdout).not.toContain("$");
  const listed = async (place: string[]) =>
    (await espalierJson(["list", ...place, "--cost"], options)).values;
  expect(await listed([])).toMatchObject([{ id: "claude-1", cost: 0.05, estimated: false }]);
  const [own, codex] = (await listed([folder]))
    .filter(({ id }) => id !== "claude-1")
    .sort((a, b) => (a.id > b.id ? -1 : 1));
  expect(own).toMatchObject({ id: "o", cost: null });
  expect(codex).toMatchObject({ id: "c", cost: 0.84, estimated: true });
  const table = (await espalier(["list", folder, "--cost"], options)).stdout;
  expect(table).toMatch(/^o .* unknown /m);
  expect(table).toMatch(/^c .* ≈ \$0\.8400 /m);
  expect(await stats(unknown)).toMatch(/^1 call; its cost is unknown\nThe price of 1 call is unknown; .*\n/);
});

test("a mistyped id is answered with a suggestion", async () => {
  const { options, source } = home();
  await espalier(["import", source], options);
  const tree = await espalierJson(["tree", "claude-2"], options);
  expect(tree.value.error.message).toBe("There is no session with the id claude-2. Did you mean claude-1?");
  const begun = await espalierJson(["tree", "clqude"], options);
  expect(begun.value.error.message).toContain("Did you mean claude?");
  const file = sessionOf(HEADER, said("8f3a0b1c2d3e", null, "one"));
  const entry = await espalierJson(["show", file, "8f3a0b1d"]);
  expect(entry.value.error).toMatchObject({
    code: "unknown-entry",
    message: 'There is no entry "8f3a0b1d" in this session. Did you mean "8f3a0b1c"?',
  });
});
