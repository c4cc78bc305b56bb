import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import {
  DEMO,
  demoCopy,
  espalier,
  espalierJson,
  HEADER,
  said,
  sessionOf,
  start,
  temporaryFolder,
} from "./espalier.ts";

test("wrong usage is reported in one sentence on stderr with exit code 2, with --json as an error object", async () => {
  const wrong = [
    ["nothing"],
    ["tree"],
    ["tree", DEMO, "more"],
    ["tree", DEMO, "--jso"],
    ["context", DEMO, "--format", "cobol"],
    ["replay", DEMO, "--speed", "-1"],
    ["compact", DEMO, "--keep-recent", "many"],
  ];
  await Promise.all(
    wrong.map(async (parameters) => {
      const people = await espalier(parameters);
      expect(people).toMatchObject({ code: 2, stdout: "" });
      const help = parameters[0] === "nothing" ? "--help" : `${parameters[0]} --help`;
      expect(people.stderr).toMatch(new RegExp(`^[^\\n]+See \`espalier ${help}\`\\.\\n$`));
      const program = await espalierJson(parameters);
      expect(program).toMatchObject({ code: 2, stderr: "", value: { error: { code: "usage" } } });
    }),
  );
});

test("a value that is not allowed is answered with sentences that name the allowed ones", async () => {
  const wrong = [
    [
      ["search", "x", "--limit", "0"],
      "Option '--limit <count>' argument '0' is invalid. Expected a whole number above 0",
    ],
    [
      ["list", "--since", "soon"],
      "Option '--since <time>' argument 'soon' is invalid. Expected a time span or a day",
    ],
    [
      ["eval", "--policy", "x"],
      "Option '--policy <policy>' argument 'x' is invalid. Choose one of token-budget",
    ],
    [["store", "upgrade"], "'upgrade' is invalid for argument 'action'. Allowed choices are migrate. See"],
    [
      ["completion", "bsh"],
      "'bsh' is invalid for argument 'shell'. Allowed choices are bash, zsh, fish. See",
    ],
  ] as const;
  for (const [words, sentence] of wrong) {
    const { code, stderr } = await espalier([...words]);
    expect(code).toBe(2);
    expect(stderr).toContain(sentence);
  }
});

test("an unknown command is named, whatever follows it", async () => {
  for (const behind of [[DEMO], [DEMO, "more"], ["--flag"], [DEMO, "--flag"]]) {
    const { code, stderr } = await espalier(["tre", ...behind]);
    expect({ code, stderr }).toEqual({
      code: 2,
      stderr: "Unknown command 'tre'. (Did you mean tree?) See `espalier --help`.\n",
    });
  }
  expect((await espalier(["help", "tre"])).stderr).toBe(
    "Unknown command 'tre'. (Did you mean tree?) See `espalier --help`.\n",
  );
});

test("an error in a timer of an extension ends the command with one sentence that names its place", async () => {
  const extension = join(temporaryFolder(), "late.mjs");
  writeFileSync(
    extension,
    `export default (api) => api.on("session_before_compact", () => {
      setTimeout(() => { throw new Error("too late"); }, 1);
      return new Promise(() => {});
    });`,
  );
  const compact = ["compact", demoCopy(), "--keep-recent", "1000", "--extension", extension];
  const people = await espalier(compact);
  expect(people).toMatchObject({ code: 1, stdout: "" });
  expect(people.stderr).toMatch(/^[^\n]+ too late \([^\n]*late\.mjs:2:[^\n]+\n$/);
  const program = await espalierJson(compact);
  expect(program).toMatchObject({ code: 1, value: { error: { code: "internal" } } });
});

test("impossible places are wrong usage, and the message names a possible one", async () => {
  const folder = temporaryFolder();
  const places = [
    [["list", DEMO], "espalier tree"],
    [["copy", folder, `${folder}/`], "another place"],
    [["copy", "postgres://localhost/x#%zz", folder], "%25"],
  ] as const;
  for (const [parameters, cure] of places) {
    const { code, value } = await espalierJson(parameters);
    expect({ code, usage: value.error.code }).toEqual({ code: 2, usage: "usage" });
    expect(value.error.message).toContain(cure);
  }
});

test("--json is accepted before and after the command", async () => {
  const [before, behind] = await Promise.all([
    espalier(["--json", "tree", DEMO]),
    espalier(["tree", DEMO, "--json"]),
  ]);
  expect(before.stdout).toBe(behind.stdout);
  expect(before.code).toBe(0);
});

test("without a command, and with --help, the commands are listed; each explains itself with an example", async () => {
  const [none, help, version] = await Promise.all([
    espalier([]),
    espalier(["--help"]),
    espalier(["--version"]),
  ]);
  expect(none).toMatchObject({ code: 0, stdout: help.stdout });
  const widest = (text: string) => Math.max(...text.split("\n").map((line) => line.length));
  expect(widest(help.stdout)).toBeLessThanOrEqual(130);
  expect(version).toMatchObject({ code: 0, stdout: "0.1.0\n" });
  const commands = [...help.stdout.matchAll(/^ {2}([a-z]+)(?: \[| <)/gm)].map(([, name]) => name!);
  expect(commands).toEqual(
    expect.arrayContaining(["tree", "context", "show", "append", "navigate", "fork", "compact", "demo"]),
  );
  await Promise.all(
    commands
      .filter((name) => name !== "help")
      .map(async (name) => {
        const { code, stdout } = await espalier([name, "--help"]);
        expect(code).toBe(0);
        expect(stdout).toMatch(new RegExp(`\\n {2}.*espalier ${name}`));
        expect(stdout).toMatch(/^Options of all commands \(see `espalier --help`\): --json, .*--store\.$/m);
        expect(widest(stdout), name).toBeLessThanOrEqual(130);
      }),
  );
});

test("a reader that closes early ends the command silently", async () => {
  const lines = Array.from({ length: 5_000 }, (_, at) =>
    said(`e${at}`, at === 0 ? null : `e${at - 1}`, "x".repeat(200)),
  );
  const file = sessionOf(HEADER, ...lines);
  for (const parameters of [
    ["tree", file, "--json"],
    ["replay", file],
    ["context", file],
  ]) {
    const child = await start(parameters);
    let stderr = "";
    child.stderr.on("data", (piece) => {
      stderr += piece;
    });
    child.stdin.end();
    await once(child.stdout, "data");
    child.stdout.destroy();
    const [code] = await once(child, "close");
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
  }
});

test("a slow reader gets everything", async () => {
  const file = sessionOf(
    HEADER,
    ...Array.from({ length: 3_000 }, (_, at) =>
      said(`e${at}`, at === 0 ? null : `e${at - 1}`, "y".repeat(300)),
    ),
  );
  const child = await start(["tree", file, "--json"]);
  child.stdin.end();
  let stdout = "";
  for await (const piece of child.stdout) {
    stdout += piece;
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
  expect(JSON.parse(stdout).entries).toHaveLength(3_000);
});
