// Lines that are JSON and no sound entries: every command goes on without them.
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { wrongFields } from "@espalier/session-tree/testing";
import fc from "fast-check";
import { describe, expect, it, vi } from "vitest";
import { runCommandLine } from "../src/program.ts";
import { contextLines, readContext, readPathUsage, usageLines } from "../src/terminal/view/tabs.ts";
import { espalierJson, HEADER, temporaryFolder } from "./espalier.ts";
import { modelOf, Scratch } from "./terminal-scratch.ts";

const folder = temporaryFolder();
// An export names its file in the folder that it is called in.
process.chdir(folder);
process.env["ESPALIER_HOME"] = join(folder, "home");
process.env["PI_CODING_AGENT_DIR"] = join(folder, "pi");
process.env["NO_COLOR"] = "1";
delete process.env["ANTHROPIC_API_KEY"];

const TIMESTAMP = "2026-01-01T00:00:00.000Z";
const line = (id: string, parentId: string | null, message: object): object => ({
  type: "message",
  id,
  parentId,
  timestamp: TIMESTAMP,
  message: { timestamp: 1, ...message },
});
const asked = (id: string, parentId: string | null) =>
  line(id, parentId, { role: "user", content: `asked ${id}` });
const TRUNK = [
  asked("user0001", null),
  line("call0001", "user0001", {
    role: "assistant",
    content: [{ type: "toolCall", id: "call-1", name: "edit", arguments: { path: "a.ts" } }],
    provider: "anthropic",
    model: "claude-test",
    usage: { input: 1, output: 1, cacheRead: 0, cacheWrite: 0, cost: { total: 0.001 } },
    stopReason: "toolUse",
  }),
];
/** The unsound entry is the end of the trunk, or a sound one follows. */
const PLACE = { id: "wrong001", parentId: "call0001", targetId: "user0001" };
const ASIDE = asked("aside001", "user0001");

const WRONG = [...wrongFields(PLACE)];

function sessionWith(lines: readonly object[], file: string): string {
  writeFileSync(file, [HEADER, ...TRUNK, ...lines].map((one) => `${JSON.stringify(one)}\n`).join(""));
  return file;
}

interface Ran {
  code: number;
  stdout: string;
  stderr: string;
}

/** Runs a command in this process, as `main` does. */
async function run(parameters: readonly string[]): Promise<Ran> {
  const ran = { code: -1, stdout: "", stderr: "" };
  const taken = (name: "stdout" | "stderr") =>
    vi.spyOn(process[name], "write").mockImplementation(((piece: string | Uint8Array, done?: () => void) => {
      ran[name] += typeof piece === "string" ? piece : Buffer.from(piece).toString();
      done?.();
      return true;
    }) as typeof process.stdout.write);
  const spies = [taken("stdout"), taken("stderr")];
  const listeners = process.listeners("uncaughtException");
  try {
    ran.code = await runCommandLine(parameters);
  } finally {
    for (const spy of spies) spy.mockRestore();
    for (const listener of process.listeners("uncaughtException"))
      if (!listeners.includes(listener)) process.off("uncaughtException", listener);
    process.stdout.removeAllListeners("error");
  }
  return ran;
}

/** Commands that print a value a line; all others print one. */
const STREAMS: ReadonlySet<string> = new Set(["list", "search", "history", "replay", "import", "export"]);

/** Commands with the session in the place of `S` and an entry of it in that of `E`, that only read. */
const READING: readonly (readonly string[])[] = [
  ["tree", "S"],
  ["tree", "S", "--all"],
  ["tree", "S", "--ids"],
  ["context", "S"],
  ["context", "S", "--at", "E"],
  ["context", "S", "--at", "E", "--format", "anthropic"],
  ["context", "S", "--at", "E", "--format", "openai"],
  ["context", "S", "--at", "E", "--format", "openai-responses"],
  ["show", "S", "E"],
  ["list", "FOLDER"],
  ["list", "FOLDER", "--sub-agents"],
  ["search", "said", "FOLDER"],
  ["history", "S", "said"],
  ["diff", "S", "E", "aside001"],
  ["stats", "S"],
  ["cache", "S"],
  ["replay", "S"],
  ["replay", "S", "--verify"],
  ["policies", "S"],
  ["compact", "S", "--dry-run", "--keep-recent", "1"],
  ["doctor", "S"],
  ...["html", "markdown", "json", "jsonl", "anthropic", "openai"].map((format) => [
    "export",
    "S",
    "--format",
    format,
  ]),
  ["export", "S", "--format", "markdown", "--all", "--redact"],
];

/** Commands that change the session, or make another one. */
const CHANGING: readonly (readonly string[])[] = [
  ["navigate", "S", "E"],
  ["navigate", "S", "aside001", "--summarize"],
  ["undo", "S"],
  ["fork", "S", "E", "--out", "OUT"],
  ["fork", "S", "user0001", "--summarize", "--out", "OUT"],
  ["compact", "S", "--keep-recent", "1"],
  ...["sliding-window", "message-count", "offload", "pressure"].map((policy) => [
    "compact",
    "S",
    "--policy",
    policy,
  ]),
  ["merge", "S", "E", "--into", "aside001"],
  ["merge", "S", "aside001"],
  ["label", "S", "E", "a label"],
  ["name", "S", "a name"],
  ["pin", "S", "E"],
  ["rules", "S", "--add", "answer in English"],
  ["hide", "S", "E"],
  ["copy", "S", "OUT"],
  ["import", "pi", "--all"],
];

/** What no command may say: a trace of an expectation that a line did not meet. */
const UNWORDED = /\bundefined\b|\[object Object\]|\bNaN\b|is not a function|Cannot read|"code":"internal"/;

let count = 0;

function filled(command: readonly string[], session: string): string[] {
  const replaced: Readonly<Record<string, string>> = {
    S: session,
    E: PLACE.id,
    FOLDER: join(session, ".."),
    OUT: join(folder, `out-${count++}.jsonl`),
  };
  return command.map((part) => replaced[part] ?? part);
}

/** A command answers, or refuses with a reason; its JSON is whole. */
function judge(command: readonly string[], { code, stdout, stderr }: Ran): void {
  const told = `${stdout}${stderr}`;
  expect(told, command.join(" ")).not.toMatch(UNWORDED);
  expect([0, 1], command.join(" ")).toContain(code);
  if (!command.includes("--json")) return;
  const values = stdout
    .split("\n")
    .slice(0, -1)
    .map((text) => JSON.parse(text));
  expect(stdout, command.join(" ")).toMatch(/^$|\n$/);
  if (!STREAMS.has(command[0]!)) expect(values, command.join(" ")).toHaveLength(1);
}

describe("an unsound line", () => {
  // All there are: 2,400 fields, times the commands, times four. More of them are drawn with this variable.
  const sampled = Number(process.env["ESPALIER_UNSOUND_RUNS"] ?? 600);
  const wrong = fc.constantFrom(...WRONG);

  it("stops no command and causes no crash, whatever field is wrong", {
    timeout: 1_200_000,
  }, async () => {
    const command = fc.constantFrom(...READING, ...CHANGING);
    await fc.assert(
      fc.asyncProperty(wrong, command, fc.boolean(), fc.boolean(), async (unsound, given, json, isLeaf) => {
        const { name, entry } = unsound;
        const own = join(folder, `one-${count++}`);
        mkdirSync(own);
        const file = sessionWith(
          isLeaf ? [ASIDE, entry] : [ASIDE, entry, asked("after001", PLACE.id)],
          join(own, "session.jsonl"),
        );
        const parameters = [...filled(given, file), ...(json ? ["--json"] : [])];
        try {
          judge(parameters, await run(parameters));
        } catch (cause) {
          throw new Error(`${name}: ${parameters.join(" ")}`, { cause });
        }
      }),
      { numRuns: sampled, endOnFailure: true },
    );
  });

  it("does not stop commands on a session with all of them", { timeout: 600_000 }, async () => {
    const lines = WRONG.flatMap(({ entry }, at) => [
      { ...entry, id: `wrong-${at}` },
      asked(`after-${at}`, `wrong-${at}`),
    ]);
    const own = join(folder, "all");
    mkdirSync(own);
    const file = sessionWith([ASIDE, ...lines], join(own, "session.jsonl"));
    for (const given of READING.filter((parts) => !parts.includes("E"))) {
      const parameters = filled(given, file);
      judge(parameters, await run(parameters));
      judge([...parameters, "--json"], await run([...parameters, "--json"]));
    }
    const { stdout } = await run(["tree", file, "--json"]);
    expect(JSON.parse(stdout).entries).toHaveLength(TRUNK.length + 1 + lines.length);
  });

  it("makes a list use the time of the file when its last timestamp is invalid", async () => {
    const own = join(folder, `time-${count++}`);
    mkdirSync(own);
    sessionWith([{ ...asked("wrong001", "call0001"), timestamp: "constructor" }], join(own, "session.jsonl"));
    judge(["list", own], await run(["list", own]));
    expect((await run(["list", own])).stdout).toMatch(/ (now|\d+ (min|h)) /);
  });

  it.each([
    ["an edit without content", { type: "context_edit", targetId: "user0001" }],
    ["a branch summary without the branch", { type: "branch_summary", summary: "learnt" }],
    [
      "a price that is no number",
      {
        type: "message",
        message: {
          role: "assistant",
          content: [],
          provider: "p",
          model: "m",
          usage: { input: 1, output: 1, cost: { total: {} } },
          stopReason: "stop",
        },
      },
    ],
  ])("that is %s does not stop the real commands", async (_what, fields) => {
    const own = join(folder, `real-${count++}`);
    mkdirSync(own);
    const entry = { id: PLACE.id, parentId: PLACE.parentId, timestamp: TIMESTAMP, ...fields };
    const file = sessionWith([ASIDE, entry], join(own, "session.jsonl"));
    const commands = [
      ["tree", file],
      ["context", file],
      ["show", file, PLACE.id],
      ["stats", file],
      ["replay", file],
      ["diff", file, PLACE.id, "aside001"],
    ];
    for (const parameters of commands)
      expect(await espalierJson(parameters)).toMatchObject({ code: 0, value: expect.anything() });
  });

  it("is a normal row of the terminal, and can be read there", { timeout: 600_000 }, async () => {
    await fc.assert(
      fc.asyncProperty(wrong, fc.boolean(), async ({ entry }, isLeaf) => {
        const model = modelOf([...TRUNK, entry, ...(isLeaf ? [] : [asked("after001", PLACE.id)])]);
        const { tree } = model;
        const row = tree.row(PLACE.id);
        const scratch = new Scratch(120, 40).open(model, { entryId: PLACE.id });
        const screens = [scratch.screen, scratch.keys("f", "f", "f", "f").screen, scratch.keys("z").screen];
        const context = readContext(tree, PLACE.id);
        const shown = (columns: number) => contextLines(context, columns);
        scratch.keys("tab").happen({ type: "tab", tab: "context", row, lines: shown });
        screens.push(scratch.screen);
        const usage = await readPathUsage(model, row, async () => undefined);
        const lines = (columns: number) => usageLines(usage, columns);
        screens.push(scratch.keys("tab").happen({ type: "tab", tab: "usage", row, lines }).screen);
        screens.push(scratch.keys("enter").screen, scratch.keys("y").screen);
        for (const screen of screens) expect(screen).not.toMatch(UNWORDED);
      }),
      { numRuns: sampled, endOnFailure: true },
    );
  });
});

describe("a value nested deeper than a stack", () => {
  const DEEP = `${"[".repeat(20_000)}${'{"a":'.repeat(20_000)}1${"}".repeat(20_000)}${"]".repeat(20_000)}`;
  const LINES: readonly object[] = [
    line("call0002", "call0001", {
      role: "assistant",
      content: [{ type: "toolCall", id: "call-2", name: "edit", arguments: { path: "DEEP" } }],
      provider: "anthropic",
      model: "claude-test",
      usage: { input: "DEEP", cost: { total: "DEEP" } },
      stopReason: "toolUse",
    }),
    line("result02", "call0002", {
      role: "toolResult",
      toolCallId: "call-2",
      toolName: "edit",
      content: [{ type: "text", text: "DEEP" }],
      details: "DEEP",
    }),
    {
      type: "custom",
      id: "custom01",
      parentId: "result02",
      timestamp: TIMESTAMP,
      customType: "t",
      data: "DEEP",
    },
    { type: "unheard_of", id: "unknown1", parentId: "custom01", timestamp: TIMESTAMP, says: "DEEP" },
    {
      type: "label",
      id: "label001",
      parentId: "unknown1",
      timestamp: TIMESTAMP,
      targetId: "user0001",
      label: "DEEP",
    },
    asked(PLACE.id, "unknown1"),
    ASIDE,
  ];
  const deepLine = (entry: object) => JSON.stringify(entry).replaceAll('"DEEP"', DEEP);
  const write = (): string => {
    const own = join(folder, `deep-${count++}`);
    mkdirSync(own);
    const file = join(own, "session.jsonl");
    writeFileSync(file, [HEADER, ...TRUNK, ...LINES].map((one) => `${deepLine(one)}\n`).join(""));
    return file;
  };

  it("is printed, or refused by its id, by every command", { timeout: 600_000 }, async () => {
    for (const given of [...READING, ...CHANGING])
      for (const json of [false, true]) {
        const parameters = [...filled(given, write()), ...(json ? ["--json"] : [])];
        const ran = await run(parameters);
        judge(parameters, ran);
        expect(`${ran.stdout}${ran.stderr}`, parameters.join(" ")).not.toContain("call stack");
      }
  });

  it("is complete in the JSON of its session and of its entry", async () => {
    const file = write();
    const { entries } = JSON.parse((await run(["tree", file, "--all", "--json"])).stdout);
    expect(entries).toHaveLength(TRUNK.length + LINES.length);
    for (const id of ["call0002", "result02", "custom01", "unknown1"])
      expect((await run(["show", file, id, "--json"])).stdout).toContain(DEEP);
  });

  it("is a row of the terminal, and can be read there", () => {
    const lines = [...TRUNK, ...LINES].map((entry) => JSON.parse(deepLine(entry)) as { id: string });
    for (const { id } of lines) {
      const scratch = new Scratch(120, 40).open(modelOf(lines), { entryId: id });
      for (const key of ["f", "f", "f", "f", "z", "tab", "tab", "y", "Y"])
        expect(scratch.keys(key).screen).not.toMatch(UNWORDED);
    }
  });
});

describe("an id with control characters", () => {
  const ESCAPE = "\u001b[8m\u001b]0;owned\u0007";
  const hostile = (id: string) => `${ESCAPE}${id}\u202e\u001b[0m`;
  const lines = [...TRUNK, ASIDE, asked("leaf0001", "call0001")].map((entry) => {
    const { id, parentId } = entry as { id: string; parentId: string | null };
    return { ...entry, id: hostile(id), parentId: parentId && hostile(parentId) };
  });
  const write = (name: string): string => {
    const own = join(folder, name);
    mkdirSync(own);
    const file = join(own, "session.jsonl");
    const header = { ...HEADER, id: hostile("s1"), cwd: hostile("/project") };
    const compaction = {
      type: "compaction",
      id: hostile("comp0001"),
      parentId: hostile("leaf0001"),
      timestamp: TIMESTAMP,
      summary: "said",
      firstKeptEntryId: hostile("leaf0001"),
      tokensBefore: 1,
      usage: { input: 1, output: 1, cost: { total: 1 } },
    };
    writeFileSync(file, [header, ...lines, compaction].map((one) => `${JSON.stringify(one)}\n`).join(""));
    return file;
  };

  it("is cleaned before any command prints it", async () => {
    const commands = [...READING, ...CHANGING].filter(
      (parts) => !["jsonl", "html", "json", "anthropic", "openai"].some((format) => parts.includes(format)),
    );
    for (const given of commands) {
      const file = write(`hostile-${count++}`);
      const named = (part: string) =>
        part === "E" || /^\w+0001$/.test(part) ? hostile(part === "E" ? "leaf0001" : part) : part;
      const { stdout, stderr } = await run(filled(given.map(named), file));
      expect(`${stdout}${stderr}`, given.join(" ")).not.toMatch(/[\u001b\u0007\u202e]/);
    }
  });

  it("is cleaned on every screen of the terminal", async () => {
    const scratch = new Scratch(120, 40).open(modelOf(lines));
    for (const key of [
      "f",
      "z",
      "f",
      "enter",
      "escape",
      "F",
      "escape",
      "l",
      "escape",
      "g",
      "escape",
      "m",
      "Y",
    ])
      expect(scratch.keys(key).screen, key).not.toMatch(/[\u001b\u0007\u202e]/);
  });
});
