import { copyFileSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
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

const folder = temporaryFolder();
const file = (name: string, content: string): string => {
  const path = join(folder, name);
  writeFileSync(path, content);
  return path;
};

const unusable: [string, string, string][] = [
  ["an empty file", file("empty.jsonl", ""), "empty-file"],
  ["a file without a usable line", file("prose.jsonl", "Dear diary,\ntoday\n"), "not-a-session"],
  ["a folder", folder, "not-a-file"],
  ["a path that leads nowhere", join(folder, "nothing.jsonl"), "not-found"],
  ["an id that no session has", "abcdef123456", "not-found"],
];

for (const [what, path, code] of unusable) {
  test(`${what} is reported in one sentence with exit code 1, by every command`, async () => {
    const before = path.startsWith("/") && /empty|prose/.test(path) ? stateOf(path) : undefined;
    const commands = [
      ["tree", path],
      ["context", path],
      ["navigate", path, "start"],
      ["delete", path, "--yes"],
    ];
    for (const parameters of commands) {
      const run = await espalierJson(parameters);
      expect(run).toMatchObject({ code: 1, stderr: "", value: { error: { code } } });
      expect(run.values).toHaveLength(1);
    }
    const people = await espalier(["tree", path]);
    expect(people).toMatchObject({ code: 1, stdout: "" });
    expect(people.stderr).toMatch(/^[^\n]+[.?]\n$/);
    if (before) expect(stateOf(path)).toBe(before);
  });
}

test("unknown ids are reported in one sentence with exit code 1, and nothing changes", async () => {
  const copy = join(folder, "demo.jsonl");
  copyFileSync(DEMO, copy);
  const before = stateOf(copy);
  const stdin = '{"role":"user","content":"x"}';
  const commands = [
    ["context", copy, "--at", "vPdDiWYGH0yb"],
    ["show", copy, "vPdDiWYGH0yb"],
    ["navigate", copy, "vPdDiWYGH0yb"],
    ["fork", copy, "vPdDiWYGH0yb"],
    ["label", copy, "vPdDiWYGH0yb", "x"],
    ["pin", copy, "vPdDiWYGH0yb"],
    ["merge", copy, "vPdDiWYGH0yb"],
    ["append", copy, "--at", "vPdDiWYGH0yb"],
    ["replay", copy, "--until", "vPdDiWYGH0yb"],
  ];
  for (const parameters of commands) {
    const { code, stderr, stdout } = await espalier(parameters, { stdin });
    expect({ code, stdout, stderr }).toEqual({
      code: 1,
      stdout: "",
      stderr: 'There is no entry "vPdDiWYGH0yb" in this session. Similar ids: vPdDiWYGH0ya.\n',
    });
  }
  expect(stateOf(copy)).toBe(before);
});

test("a session without a header, or of a newer version, is read with a warning and never written", async () => {
  const headless = sessionOf(said("e1", null, "one"));
  const newer = sessionOf({ ...HEADER, version: 4 }, said("e1", null, "one"));
  for (const [path, code, warning] of [
    [headless, "no-header", /has no session header; it is opened read-only\.\n$/],
    [
      newer,
      "version",
      /has format version 4, newer than this program writes \(3\); it is opened read-only\.\n$/,
    ],
  ] as const) {
    const before = stateOf(path);
    const { value, stderr, code: exit } = await espalierJson(["context", path]);
    expect(exit).toBe(0);
    expect(value.messages).toHaveLength(1);
    expect(stderr).toMatch(warning);
    expect((await espalierJson(["doctor", path])).value.issues).toMatchObject([{ kind: code }]);
    const commands = [
      ["name", path, "x"],
      ["label", path, "e1", "x"],
      ["navigate", path, "start"],
      ["append", path],
    ];
    const stdin = '{"role":"user","content":"x"}';
    for (const parameters of commands) {
      const run = await espalierJson(parameters, { stdin });
      expect(run).toMatchObject({ code: 1, value: { error: { code } } });
    }
    expect(stateOf(path)).toBe(before);
  }
});

test("damaged sessions open, and doctor lists each fault with line and offset", async () => {
  const path = sessionOf(
    HEADER,
    said("e1", null, "one"),
    said("e2", "e2", "its own parent"),
    said("e3", "e4", "a cycle"),
    said("e4", "e3", "a cycle"),
    said("e1", "e4", "an id that is taken"),
    "} not json {",
    said("e5", "nobody", "an orphan"),
    '{"type":"message","id":"e6","parentId":"e5","timesta',
  );
  writeFileSync(path, readFileSync(path).subarray(0, -1));
  const tree = await espalierJson(["tree", path]);
  expect(tree.code).toBe(0);
  expect(tree.value.entries).toHaveLength(6);
  const { code, value } = await espalierJson(["doctor", path]);
  expect(code).toBe(1);
  const lines = readFileSync(path, "utf8").split("\n");
  const offsetOf = (line: number) => Buffer.byteLength(`${lines.slice(0, line - 1).join("\n")}\n`);
  const found = value.issues.map(({ kind, line, offset }: { kind: string; line: number; offset: number }) => {
    expect(offset).toBe(offsetOf(line));
    return `${kind} ${line}`;
  });
  expect(found).toEqual(["orphan 3", "orphan 4", "duplicate-id 6", "corrupt 7", "orphan 8", "torn-tail 9"]);
});
