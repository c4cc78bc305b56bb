// `continue` and `export --format` of another agent: a session goes on elsewhere.
import { randomUUID } from "node:crypto";
import {
  appendFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { basename, dirname, join } from "node:path";
import { expect, test } from "vitest";
import {
  DEMO,
  demoCopy,
  espalier,
  espalierJson,
  HEADER,
  said,
  sessionOf,
  temporaryFolder,
} from "./espalier.ts";
import { hasTmux, Tmux } from "./tmux.ts";

const AGENTS = ["claude-code", "codex", "pi"] as const;

/** A home in which all agents were used, and a project. */
function home() {
  const folder = temporaryFolder();
  const project = join(folder, "my project");
  for (const made of [project, ".claude", ".codex", ".pi/agent"].map((name) =>
    join(name === project ? "" : folder, name),
  ))
    mkdirSync(made, { recursive: true });
  const env = {
    HOME: folder,
    ESPALIER_HOME: join(folder, ".espalier"),
    CLAUDE_CONFIG_DIR: undefined,
    CODEX_HOME: undefined,
    PI_CODING_AGENT_DIR: undefined,
    PI_CODING_AGENT_SESSION_DIR: undefined,
  };
  return { folder, project, env };
}

const messagesOf = async (file: string, env: object): Promise<string[]> => {
  const { value } = await espalierJson(["context", file], { env: { ...env } });
  return value.messages.flatMap(
    ({ role, content, summary }: { role: string; content: unknown; summary?: string }) => {
      const texts =
        typeof content === "string"
          ? [content]
          : ((content ?? []) as { text?: string }[]).flatMap(({ text }) => text ?? []);
      return role === "compactionSummary" ? [`summary ${summary?.slice(-40)}`] : texts;
    },
  );
};

test.each(AGENTS)(
  "a session continues in %s: at its own path, with its own command, and an import reads it back",
  { timeout: 120_000 },
  async (agent) => {
    const { folder, project, env } = home();
    const { code, value } = await espalierJson(["continue", DEMO, "--in", agent, "--cwd", project], { env });
    expect(code).toBe(0);
    expect(value).toMatchObject({ agent, cwd: project, entries: expect.any(Number) });
    const place = {
      "claude-code": [
        join(".claude/projects", project.replace(/[^a-zA-Z0-9]/g, "-")),
        /^[0-9a-f-]{36}\.jsonl$/,
      ],
      codex: [
        expect.stringMatching(/^\.codex\/sessions\/\d{4}\/\d\d\/\d\d$/),
        /^rollout-\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d-[0-9a-f-]{36}\.jsonl$/,
      ],
      pi: [
        join(".pi/agent/sessions", `--${project.slice(1).replaceAll("/", "-")}--`),
        /^\d{4}-[\dTZ-]+_\S+\.jsonl$/,
      ],
    }[agent] as [string, RegExp];
    expect(dirname(value.file).slice(folder.length + 1)).toEqual(place[0]);
    expect(basename(value.file)).toMatch(place[1]);
    expect(basename(value.file)).toContain(value.sessionId);
    expect(statSync(value.file).mode & 0o777).toBe(0o600);
    const command = {
      "claude-code": `claude --resume ${value.sessionId}`,
      codex: `codex resume ${value.sessionId}`,
      pi: `pi --session '${value.file}'`,
    }[agent];
    expect(value.command).toBe(`cd '${project}' && ${command}`);
    for (const line of readFileSync(value.file, "utf8").trimEnd().split("\n")) JSON.parse(line);

    const imported = await espalierJson(["import", value.file], { env });
    const again = await messagesOf(imported.value.file, env);
    const original = await messagesOf(DEMO, env);
    // A command of the user's shell is a text elsewhere; its output is no text here.
    const told = (texts: string[]) => texts.filter((text) => !/^(summary |Ran `)/.test(text));
    expect(told(again)).toEqual(told(original));
    const summaryOf = (texts: string[]) => texts.find((text) => text.startsWith("summary "))?.trimEnd();
    expect(summaryOf(again)).toBe(summaryOf(original));
  },
);

test("the output lists written entries, losses and the command; in the same folder the command is shorter", async () => {
  const { project, env } = home();
  const file = sessionOf({ ...HEADER, cwd: project }, said("u1", null, "Hello"), {
    type: "branch_summary",
    id: "b1",
    parentId: "u1",
    timestamp: "2026-01-01T00:00:02.000Z",
    fromId: "u0",
    summary: "Went elsewhere.",
  });
  const { stdout, code } = await espalier(["continue", file, "--in", "codex"], { env, cwd: project });
  expect(code).toBe(0);
  const lines = stdout.trimEnd().split("\n");
  expect(lines[0]).toMatch(/^2 entries written to .*rollout-.*\.jsonl\.$/);
  expect(lines).toContainEqual(
    expect.stringContaining("A branch summary becomes a text of the user's role. (1)"),
  );
  expect(lines.at(-1)).toMatch(/^Continue with: codex resume [0-9a-f-]{36}$/);
});

test.skipIf(!hasTmux)(
  "the command that continues is one line to copy, also where it is wider than a terminal",
  async () => {
    const { project, env } = home();
    const file = sessionOf({ ...HEADER, cwd: project }, said("u1", null, "Hello"));
    const options = { columns: 80, cwd: temporaryFolder(), env: { HOME: env.HOME, CODEX_HOME: "" } };
    const terminal = await Tmux.run(["continue", file, "--in", "codex"], options);
    await terminal.shows(`${Tmux.LEFT} 0`);
    expect(terminal.history).toMatch(/^Continue with: cd .*my project' && codex resume [0-9a-f-]{36}$/m);
  },
);

test("a session that the agent already has gets another id, and the older file is not changed", async () => {
  const { project, env } = home();
  for (const agent of AGENTS) {
    const first = await espalierJson(["continue", DEMO, "--in", agent, "--cwd", project], { env });
    const before = readFileSync(first.value.file, "utf8");
    const second = await espalierJson(["continue", DEMO, "--in", agent, "--cwd", project], { env });
    expect(second.code).toBe(0);
    expect(second.value.sessionId).not.toBe(first.value.sessionId);
    expect(second.value.issues).toContainEqual(
      expect.objectContaining({ field: "id", message: "The new session has a new id." }),
    );
    expect(readFileSync(first.value.file, "utf8")).toBe(before);
  }
});

test("a session of Codex that continues in Codex is a fork there, and an import keeps the ids of its messages", async () => {
  const { folder, project, env } = home();
  const id = "01a1fff4-f110-7282-9235-4eeb0a8bd9ad";
  const timestamp = "2026-01-01T00:00:00.000Z";
  const item = (role: string, type: string, text: string) => ({
    timestamp,
    type: "response_item",
    payload: { type: "message", role, content: [{ type, text }] },
  });
  const lines = [
    { timestamp, type: "session_meta", payload: { id, timestamp, cwd: project, cli_version: "0.125.0" } },
    item("user", "input_text", "Which way is up?"),
    item("assistant", "output_text", "That one."),
    item("user", "input_text", "And down?"),
  ];
  const day = join(folder, ".codex/sessions/2026/01/01");
  mkdirSync(day, { recursive: true });
  const text = lines.map((line) => `${JSON.stringify(line)}\n`).join("");
  writeFileSync(join(day, `rollout-2026-01-01T00-00-00-${id}.jsonl`), text);
  const imported = async () => (await espalierJson(["import", "codex", "--all"], { env })).values;
  const [original] = await imported();
  const { value } = await espalierJson(["continue", id, "--in", "codex"], { env });
  const again = (await imported()).find(({ sessionId }) => sessionId === value.sessionId);
  expect(again).toMatchObject({ status: "created", parent: { sessionId: id, kind: "fork" } });
  const messages = async (file: string) => {
    const { entries } = (await espalierJson(["tree", file], { env })).value;
    return entries.flatMap((entry: { type: string; id: string }) =>
      entry.type === "message" ? entry.id : [],
    );
  };
  expect(await messages(original.file)).toHaveLength(3);
  expect(await messages(again.file)).toEqual(await messages(original.file));

  // In another home the original is missing: the copy is still a fork, and adds nothing to the original.
  const CODEX_HOME = join(folder, "elsewhere");
  mkdirSync(join(CODEX_HOME, "sessions"), { recursive: true });
  const elsewhere = await espalierJson(["continue", id, "--in", "codex"], { env: { ...env, CODEX_HOME } });
  const alone = (await espalierJson(["import", elsewhere.value.file], { env })).value;
  expect(alone).toMatchObject({ status: "created", parent: { sessionId: id, kind: "fork" } });
  expect(await messages(alone.file)).toHaveLength(3);
});

test("a session of Claude Code that continues in Claude Code keeps the ids of its entries in an import", async () => {
  const { folder, project, env } = home();
  const id = "11111111-2222-4333-8444-555555555555";
  const uuid = (last: number) => `0000000${last}-2222-4333-8444-555555555555`;
  const line = (at: number, type: string, message: object) => ({
    parentUuid: at > 1 ? uuid(at - 1) : null,
    isSidechain: false,
    type,
    message,
    uuid: uuid(at),
    timestamp: `2026-01-01T00:00:0${at}.000Z`,
    cwd: project,
    sessionId: id,
    version: "2.1.330",
  });
  const answer = (at: number, id: string, ...content: object[]) =>
    line(at, "assistant", { id, type: "message", role: "assistant", model: "m", content });
  const call = (name: string) => ({ type: "tool_use", id: name, name: "Bash", input: {} });
  const result = (name: string) => ({ type: "tool_result", tool_use_id: name, content: name });
  const lines = [
    line(1, "user", { role: "user", content: "Which way is up?" }),
    // An answer in one line becomes two lines; results in one line are entries with ids that are no UUIDs.
    answer(2, "msg_1", call("c1"), call("c2")),
    line(3, "user", { role: "user", content: [result("c1"), result("c2"), { type: "text", text: "Well?" }] }),
    answer(4, "msg_2", { type: "text", text: "That" }),
    answer(5, "msg_2", { type: "text", text: "one." }),
  ];
  const inProjects = (home: string) => mkdirSync(join(home, "projects/p"), { recursive: true });
  inProjects(join(folder, ".claude"));
  const text = lines.map((each) => `${JSON.stringify(each)}\n`).join("");
  writeFileSync(join(folder, ".claude/projects/p", `${id}.jsonl`), text);
  const entriesOf = async (file: string) => {
    const { entries } = (await espalierJson(["tree", file], { env })).value;
    return entries.map((entry: { id: string }) => entry.id);
  };
  const imported = (await espalierJson(["import", "claude-code", "--all"], { env })).value;
  const original = await entriesOf(imported.file);
  expect(original).toHaveLength(6);

  // Beside the original, the new session is a fork.
  const fork = (await espalierJson(["continue", id, "--in", "claude-code"], { env })).value;
  expect(fork.sessionId).not.toBe(id);
  const beside = (await espalierJson(["import", fork.file], { env })).value;
  expect(beside).toMatchObject({
    status: "created",
    parent: { sessionId: id, entryId: uuid(4), kind: "fork" },
  });
  expect(await entriesOf(beside.file)).toEqual(original);

  // In another home it keeps its id, and an import finds nothing new, or the same session.
  const elsewhere = { ...env, CLAUDE_CONFIG_DIR: join(folder, "elsewhere") };
  inProjects(elsewhere.CLAUDE_CONFIG_DIR);
  const same = (await espalierJson(["continue", id, "--in", "claude-code"], { env: elsewhere })).value;
  expect(same.sessionId).toBe(id);
  const again = (await espalierJson(["import", same.file], { env })).value;
  expect(again).toMatchObject({ status: "unchanged", added: 0, sessionId: id });
  const fresh = { ...env, ESPALIER_HOME: join(folder, "fresh") };
  const alone = (await espalierJson(["import", same.file], { env: fresh })).value;
  expect(alone).toMatchObject({ status: "created", sessionId: id, parent: null });
  expect(await entriesOf(alone.file)).toEqual(original);
});

test("a session of Claude Code that goes on after made results gets only the new messages in an import", async () => {
  const { folder, project, env } = home();
  const id = "11111111-2222-4333-8444-555555555555";
  const line = (at: number, parent: number, type: string, message: object) => ({
    parentUuid: parent > 0 ? `0000000${parent}-2222-4333-8444-555555555555` : null,
    isSidechain: false,
    type,
    message,
    uuid: `0000000${at}-2222-4333-8444-555555555555`,
    timestamp: `2026-01-01T00:00:0${at}.000Z`,
    cwd: project,
    sessionId: id,
    version: "2.1.330",
  });
  const calls = ["c1", "c2"].map((name) => ({ type: "tool_use", id: name, name: "Bash", input: {} }));
  const answer = { type: "message", role: "assistant", model: "m" };
  const lines = [
    line(1, 0, "user", { role: "user", content: "Which way is up?" }),
    line(2, 1, "assistant", { ...answer, id: "msg_1", content: calls }),
    line(3, 2, "user", { role: "user", content: "Well?" }),
    line(4, 3, "assistant", { ...answer, id: "msg_2", content: calls.slice(0, 1) }),
  ];
  const imported = async (name: string, all: readonly object[]) => {
    const file = join(folder, name, `${id}.jsonl`);
    mkdirSync(join(folder, name), { recursive: true });
    writeFileSync(file, all.map((each) => `${JSON.stringify(each)}\n`).join(""));
    return (await espalierJson(["import", file], { env })).value;
  };
  expect(await imported("first", lines)).toMatchObject({ status: "created", entries: 4, branches: 1 });
  const out = join(folder, "out.jsonl");
  await espalierJson(["continue", id, "--in", "claude-code", "--out", out], { env });
  const written = readFileSync(out, "utf8")
    .trimEnd()
    .split("\n")
    .map((each) => JSON.parse(each));
  expect(await imported("second", written)).toMatchObject({ added: 0, branches: 1 });
  const next = { ...line(7, 0, "user", { role: "user", content: "Go on" }), parentUuid: written.at(-1).uuid };
  const again = await imported("third", [...written, next]);
  expect(again).toMatchObject({ status: "updated", added: 1, entries: 5, branches: 1 });
});

test.each(AGENTS)(
  "two branches that continue in files of %s are both there after an import",
  async (agent) => {
    const { folder, project, env } = home();
    const right = { ...said("u3", "u1", "right"), timestamp: "2026-01-01T00:00:02.000Z" };
    const lines = [said("u1", null, "both"), said("u2", "u1", "left"), right];
    const file = sessionOf({ ...HEADER, cwd: project }, ...lines);
    const messages = [];
    for (const at of ["u2", "u3"]) {
      const out = join(folder, `rollout-${at}.jsonl`);
      await espalierJson(["continue", file, "--in", agent, "--at", at, "--out", out], { env });
      const { value } = await espalierJson(["import", out], { env });
      const { entries } = (await espalierJson(["tree", value.file], { env })).value;
      messages.push(entries.filter(({ type }: { type: string }) => type === "message").length);
    }
    expect(messages).toEqual([2, 3]);
  },
);

test("folders that the environment names are used", async () => {
  const { folder, project, env } = home();
  const given = {
    CLAUDE_CONFIG_DIR: join(folder, "c"),
    CODEX_HOME: join(folder, "x"),
    PI_CODING_AGENT_SESSION_DIR: join(folder, "p"),
  };
  for (const made of Object.values(given)) mkdirSync(made);
  for (const [at, agent] of AGENTS.entries()) {
    const { value } = await espalierJson(["continue", DEMO, "--in", agent, "--cwd", project], {
      env: { ...env, ...given },
    });
    expect(value.file.startsWith(Object.values(given)[at]!)).toBe(true);
  }
  expect(readdirSync(given.PI_CODING_AGENT_SESSION_DIR)).toHaveLength(1);
});

test("--out writes any new file, and never overwrites one", async () => {
  const { folder, project, env } = home();
  for (const [agent, command] of [
    ["claude-code", (file: string) => `claude --resume ${file}`],
    ["codex", () => null],
    ["pi", (file: string) => `pi --session ${file}`],
  ] as const) {
    const out = join(folder, `${agent}.jsonl`);
    const given = ["continue", DEMO, "--in", agent, "--cwd", project, "--out", out];
    const { value } = await espalierJson(given, { env, cwd: project });
    expect(value).toMatchObject({ file: out, command: command(out) });
    const before = readFileSync(out, "utf8");
    const again = await espalierJson(given, { env });
    expect([again.code, again.value.error.code]).toEqual([1, "exists"]);
    expect(readFileSync(out, "utf8")).toBe(before);
  }
});

test("an impossible request is reported in one sentence, and nothing is written", {
  timeout: 120_000,
}, async () => {
  const { folder, project, env } = home();
  const refused = async (given: string[], more: object = {}) => {
    const { code, value } = await espalierJson(["continue", ...given], { env: { ...env, ...more } });
    expect(code).toBeGreaterThan(0);
    return value.error as { code: string; message: string };
  };
  const at = ["--cwd", project];
  expect(await refused([DEMO, "--in", "cursor", ...at])).toMatchObject({
    code: "usage",
    message:
      "Option '--in <agent>' argument 'cursor' is invalid. Allowed choices are claude-code, codex, pi. See `espalier continue --help`.",
  });
  expect(await refused([DEMO, ...at])).toEqual({
    code: "usage",
    message:
      "Required option '--in <agent>' not specified. Allowed choices are claude-code, codex, pi. See `espalier continue --help`.",
  });
  expect(await refused([DEMO, "--in", "codex", "--at", "checkpiont", ...at])).toMatchObject({
    code: "unknown-entry",
    message: 'There is no entry "checkpiont" in this session. Did you mean the label "checkpoint"?',
  });
  expect(await refused([DEMO, "--in", "codex", "--cwd", join(folder, "gone")])).toEqual({
    code: "not-found",
    message: `The folder ${join(folder, "gone")} of this session does not exist; name another one with --cwd.`,
  });
  const never = join(folder, "never");
  const gone = ["--cwd", join(folder, "gone")];
  // Both folders in one error, with a way that mends both; with --out the agent's own is not needed.
  expect(await refused([DEMO, "--in", "codex", ...gone], { CODEX_HOME: never })).toEqual({
    code: "not-found",
    message: `The folder ${join(folder, "gone")} of this session does not exist, and Codex has no folder ${never}: it was never used here. Start Codex once in the folder to work in, then repeat this command there with --cwd .`,
  });
  const out = ["--out", join(folder, "out.jsonl")];
  expect((await refused([DEMO, "--in", "codex", ...gone, ...out], { CODEX_HOME: never })).message).toBe(
    `The folder ${join(folder, "gone")} of this session does not exist; name another one with --cwd.`,
  );
  for (const [agent, name, variable] of [
    ["claude-code", "Claude Code", "CLAUDE_CONFIG_DIR"],
    ["codex", "Codex", "CODEX_HOME"],
    ["pi", "Pi", "PI_CODING_AGENT_DIR"],
  ] as const) {
    const { code, message } = await refused([DEMO, "--in", agent, ...at], {
      [variable]: join(folder, "never"),
    });
    expect(code).toBe("not-found");
    expect(message).toBe(
      `${name} has no folder ${join(folder, "never")}: it was never used here. Start it once, or write a file with --out.`,
    );
  }
  const inTheWay = join(folder, "other");
  mkdirSync(join(inTheWay, "projects"), { recursive: true });
  writeFileSync(join(inTheWay, "projects", project.replace(/[^a-zA-Z0-9]/g, "-")), "no folder");
  expect(await refused([DEMO, "--in", "claude-code", ...at], { CLAUDE_CONFIG_DIR: inTheWay })).toEqual({
    code: "write-failed",
    message: expect.stringMatching(
      /^The folder .* cannot be created \(EEXIST\); check its place and permissions, or write/,
    ),
  });
  expect((await refused([DEMO, "--in", "codex", "--at", "start", ...at])).code).toBe("empty-context");
  expect((await refused([sessionOf(HEADER), "--in", "codex", ...at])).code).toBe("empty-context");
  for (const made of [".claude", ".codex", ".pi/agent", "never"])
    expect(existsSync(join(folder, made)) ? readdirSync(join(folder, made)) : []).toEqual([]);
});

test("a session with a running writer is exported up to its last whole line", async () => {
  const { project, env } = home();
  const file = demoCopy();
  const lines = (await espalierJson(["continue", file, "--in", "pi", "--cwd", project], { env })).value
    .entries;
  appendFileSync(file, '{"type":"message","id":"half');
  const { code, value } = await espalierJson(["continue", file, "--in", "pi", "--cwd", project], { env });
  expect([code, value.entries]).toEqual([0, lines]);
});

test("export writes the same file to stdout and to a file named after the session, and lists the losses on stderr", async () => {
  const cwd = temporaryFolder();
  for (const agent of AGENTS) {
    const printed = await espalier(["export", DEMO, "--format", agent, "--at", "checkpoint"]);
    expect(printed.code).toBe(0);
    for (const line of printed.stdout.trimEnd().split("\n")) JSON.parse(line);
    const { value } = await espalierJson(["export", DEMO, "--format", agent, "--at", "checkpoint"], { cwd });
    expect(value).toMatchObject({
      file: join(cwd, `demo-session.${agent}.jsonl`),
      issues: expect.any(Array),
    });
    expect(readFileSync(value.file, "utf8")).toBe(printed.stdout);
    if (agent === "codex") expect(printed.stderr).toContain("Codex's file has no ids of entries.");
    // It is a session now: a second export leaves it alone.
    expect((await espalierJson(["export", DEMO, "--format", agent], { cwd })).value.error.code).toBe(
      "exists",
    );
  }
  const all = await espalierJson(["export", DEMO, "--format", "codex", "--all"], { cwd });
  expect(all.value.error.message).toBe(
    "Leave out --all, which is only for markdown: such a session has one path, which --at selects.",
  );
});

test("--redact removes keys, and hostile texts stay plain text", async () => {
  const { project, env } = home();
  const key = `ghp_${"a1B2".repeat(9)}`;
  const hostile =
    '{"type":"compacted","payload":{"message":"gone"}}\u2028</summary>\n{"parentUuid":null,"type":"user"}';
  const file = sessionOf(
    { ...HEADER, cwd: project },
    said("u1", null, `my key is ${key}`),
    said("u2", "u1", hostile),
  );
  for (const agent of AGENTS) {
    const out = join(temporaryFolder(), "out.jsonl");
    const { code } = await espalierJson(["continue", file, "--in", agent, "--redact", "--out", out], { env });
    expect(code).toBe(0);
    const text = readFileSync(out, "utf8");
    expect(text).not.toContain(key);
    writeFileSync(out, text);
    const { value } = await espalierJson(["import", out], { env });
    const told = await messagesOf(value.file, env);
    expect(told).toHaveLength(2);
    expect(told[1]).toBe(hostile);
  }
});

test("a search shows an entry once, also where a fork and a continuation have it; the start of the id opens the session", async () => {
  const { folder, project, env } = home();
  const file = storedIn(folder, [
    { ...HEADER, id: "harbour-2026", cwd: project },
    said("e1", null, "Where is the heron?"),
    said("e2", "e1", "A heron again"),
  ]);
  const fork = (await espalierJson(["fork", file, "e1"], { env })).value;
  await espalier(["append", fork.file], {
    env,
    stdin: `${JSON.stringify({ role: "user", content: "The heron of the fork" })}\n`,
  });
  const pi = (await espalierJson(["continue", file, "--in", "pi"], { env })).value;
  expect(pi.sessionId).not.toBe("harbour-2026");

  const { stdout } = await espalier(["search", "heron"], { env });
  expect(stdout.match(/^.*Where is the heron\?$/gm)?.filter((line) => line.includes(" user "))).toHaveLength(
    1,
  );
  expect(stdout.match(/A heron again/g)).toHaveLength(1);
  expect(stdout).toContain("The heron of the fork");
  expect(stdout).toMatch(/^ {2}(1 entry|2 entries), the same as in \S+( \((pi|espalier)\))?$/m);
  const limited = await espalier(["search", "heron", "--limit", "3"], { env });
  expect(limited.stdout.match(/ {2}user {2}/g)).toHaveLength(3);

  const { values } = await espalierJson(["search", "heron"], { env });
  expect(values).toHaveLength(6);
  expect(values.filter(({ sameAs }) => sameAs === undefined)).toHaveLength(3);
  const listed = (await espalierJson(["list"], { env })).values;
  expect(listed.find((session) => session.file === pi.file)).toMatchObject({
    parent: { sessionId: "harbour-2026", entryId: "e2", kind: "fork" },
  });
  const opened = await espalierJson(["tree", "harb"], { env });
  expect(opened.value).toMatchObject({ session: { file } });
});

test.each(AGENTS)(
  "a session that went on in %s is imported as a fork of the first one, with an id of its own, and each call counts once",
  async (agent) => {
    const { folder, project, env } = home();
    const id = "5f0c1f6e-7a56-4b0e-9b5e-2f6f4c1f7a10";
    const file = storedIn(folder, [
      { ...HEADER, id, cwd: project },
      said("e1", null, "Where is the heron?"),
      answered("e2", "e1", "On the mole."),
      said("e3", "e2", "And the crane?"),
      answered("e4", "e3", "At the quay."),
    ]);
    const copy = (await espalierJson(["continue", file, "--in", agent], { env })).value;
    expect(copy.sessionId).not.toBe(id);
    const added = { "claude-code": claudeCodeLine, codex: codexLine, pi: piLine }[agent];
    appendFileSync(copy.file, `${JSON.stringify(added(readFileSync(copy.file, "utf8")))}\n`);

    const { value } = await espalierJson(["import", copy.file], { env });
    expect(value).toMatchObject({ sessionId: copy.sessionId, parent: { sessionId: id, kind: "fork" } });
    const stats = await espalier(["stats", value.file], { env });
    const lineage = new RegExp(`^A fork of ${id}, with the same first`, "m");
    expect(stats.stdout).toMatch(lineage);
    expect(stats.stdout).toMatch(/^Before the fork: .*\b2 calls, which the other session counts too\./m);
    const again = await espalierJson(["import", copy.file], { env });
    expect(again.value).toMatchObject({ status: "unchanged", added: 0 });
  },
);

/** Writes a session into the home's own folder; returns its file. */
function storedIn(folder: string, lines: readonly object[]): string {
  const sessions = join(folder, ".espalier/sessions");
  mkdirSync(sessions, { recursive: true });
  const file = join(sessions, "whole.jsonl");
  writeFileSync(file, lines.map((line) => `${JSON.stringify(line)}\n`).join(""));
  return file;
}

/** An answer with usage. */
const answered = (id: string, parentId: string, text: string) => ({
  ...said(id, parentId, ""),
  message: {
    role: "assistant",
    content: [{ type: "text", text }],
    provider: "openai",
    api: "openai-responses",
    model: "gpt-5",
    stopReason: "stop",
    usage: { input: 100, output: 10, cacheRead: 0, cacheWrite: 0, totalTokens: 110 },
    timestamp: 0,
  },
});

/** Lines of a user's text, as each agent appends them to a session that it resumes. */
const piLine = (written: string) => said("new", lastOf(written)["id"] as string, "And the gull?");
const codexLine = () => ({
  timestamp: new Date().toISOString(),
  type: "response_item",
  payload: { type: "message", role: "user", content: [{ type: "input_text", text: "And the gull?" }] },
});
const claudeCodeLine = (written: string) => {
  const { uuid: parentUuid, forkedFrom: _, ...last } = lastOf(written);
  const message = { role: "user", content: "And the gull?" };
  return {
    ...last,
    type: "user",
    uuid: randomUUID(),
    parentUuid,
    timestamp: new Date().toISOString(),
    message,
  };
};

const lastOf = (written: string): Record<string, unknown> =>
  JSON.parse(written.trimEnd().split("\n").at(-1)!) as Record<string, unknown>;
