// `export`: a session for people and for other programs.
import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import {
  DEMO,
  demoCopy,
  espalier,
  espalierJson,
  HEADER,
  linesOf,
  said,
  sessionOf,
  stateOf,
  temporaryFolder,
} from "./espalier.ts";
import { hasTmux, Tmux } from "./tmux.ts";

const KEY = `ghp_${"a1B2".repeat(9)}`;

test("without --out an export is printed", async () => {
  for (const format of ["json", "jsonl", "anthropic", "openai", "openai-responses", "ai-sdk"]) {
    const { code, stdout } = await espalier(["export", DEMO, "--format", format]);
    expect(code).toBe(0);
    for (const line of format === "jsonl" ? stdout.trimEnd().split("\n") : [stdout]) JSON.parse(line);
  }
});

test("an export for people is the same every time", async () => {
  for (const format of ["markdown", "html"]) {
    const first = await espalier(["export", DEMO, "--format", format]);
    expect(first.stdout.length).toBeGreaterThan(10_000);
    expect((await espalier(["export", DEMO, "--format", format])).stdout).toBe(first.stdout);
  }
});

test("--all is refused where it has no effect, before anything is written", async () => {
  const cwd = temporaryFolder();
  const refused = async (format: string) => {
    const { code, value } = await espalierJson(["export", DEMO, "--format", format, "--all"], { cwd });
    expect(code).toBe(2);
    return value.error.message;
  };
  for (const format of ["html", "json", "jsonl"])
    expect(await refused(format)).toBe(
      `Leave out --all, which is only for markdown: ${format} always has all branches.`,
    );
  expect(await refused("anthropic")).toBe(
    "Leave out --all, which is only for markdown: a request has one path, which --at selects.",
  );
  expect(readdirSync(cwd)).toEqual([]);
});

test("--out writes a file for its owner only, and --json describes it", async () => {
  const out = join(temporaryFolder(), "demo.json");
  const { code, value } = await espalierJson(["export", DEMO, "--format", "json", "--out", out]);
  expect([code, value]).toEqual([0, { file: out, entries: 212 }]);
  expect(statSync(out).mode & 0o777).toBe(0o600);
  expect(JSON.parse(readFileSync(out, "utf8"))).toMatchObject({ format: "espalier-session", version: 1 });
  const again = await espalier(["export", DEMO, "--format", "anthropic", "--out", out]);
  expect(again.stdout).toMatch(/^\d+ entries written to .*demo\.json\.\n$/);
  expect(JSON.parse(readFileSync(out, "utf8"))).toHaveProperty("messages");
});

test("with --json and no --out the file is named after the session, in this folder", async () => {
  const cwd = temporaryFolder();
  const { value } = await espalierJson(["export", DEMO, "--format", "markdown"], { cwd });
  expect(value.file).toBe(join(cwd, "demo-session.md"));
  expect(readFileSync(value.file, "utf8")).toMatch(/^---\ntitle: /);
});

test("a copy as JSON Lines opens as the same session, and --at exports one path", async () => {
  const out = join(temporaryFolder(), "copy.jsonl");
  await espalier(["export", DEMO, "--format", "jsonl", "--out", out]);
  const [copy, original] = await Promise.all([
    espalierJson(["context", out]),
    espalierJson(["context", DEMO]),
  ]);
  expect(copy.value).toEqual(original.value);
  const path = await espalier(["export", DEMO, "--format", "jsonl", "--at", "checkpoint"]);
  expect(path.stdout.split("\n").length).toBeLessThan(linesOf(DEMO).length);
});

test("a session of another agent is not overwritten", async () => {
  const theirs = sessionOf({
    ...{ type: "user", uuid: "u1", parentUuid: null, sessionId: "s1", timestamp: HEADER.timestamp, cwd: "/" },
    message: { role: "user", content: "Which way is up?" },
  });
  const before = stateOf(theirs);
  const { value } = await espalierJson(["export", DEMO, "--format", "markdown", "--out", theirs]);
  expect(value.error).toMatchObject({ code: "exists" });
  expect(stateOf(theirs)).toBe(before);
});

test("a session is never overwritten, nor is anything that is not a file", async () => {
  const session = demoCopy();
  // One is a session also where its beginning is damaged, or was never there.
  const torn = sessionOf('{"type":"session","versi', "", said("e1", null, "one"));
  const headless = sessionOf(said("e1", null, "one"));
  for (const file of [session, torn, headless]) {
    const before = stateOf(file);
    for (const out of [file, join(file, "..")]) {
      const { code, value } = await espalierJson(["export", file, "--format", "markdown", "--out", out]);
      expect(code).toBe(1);
      expect(value.error).toMatchObject({ code: "exists", message: expect.stringContaining("--out") });
    }
    expect(stateOf(file)).toBe(before);
  }
});

test("a failed export leaves no file", async () => {
  const empty = sessionOf(HEADER);
  const out = join(temporaryFolder(), "request.json");
  const failed = await espalierJson(["export", empty, "--format", "anthropic", "--out", out]);
  expect(failed.value.error).toMatchObject({ code: "empty-context" });
  expect(existsSync(out)).toBe(false);
  writeFileSync(out, "before");
  await espalier(["export", empty, "--format", "anthropic", "--out", out]);
  expect(readFileSync(out, "utf8")).toBe("before");
});

test("--redact removes keys", async () => {
  const session = sessionOf(HEADER, said("e1", null, `The key is ${KEY}, do not lose it.`));
  for (const format of ["markdown", "jsonl", "anthropic"]) {
    const plain = await espalier(["export", session, "--format", format]);
    expect(plain.stdout).toContain(KEY);
    const redacted = await espalier(["export", session, "--format", format, "--redact"]);
    expect(redacted.stdout).not.toContain(KEY);
    expect(redacted.stdout).toMatch(/The key is .*github token.*, do not lose it\./);
  }
});

test("an unknown format names the choices", async () => {
  const { code, stderr } = await espalier(["export", DEMO, "--format", "pdf"]);
  expect([code, stderr]).toEqual([2, expect.stringContaining("codex, pi. See")]);
  expect(stderr).toContain("Allowed choices are html, markdown, json,");
});

test("the file's ending decides the format; an unknown ending names the choices", async () => {
  const folder = temporaryFolder();
  const beginnings: Record<string, RegExp> = {
    "a.md": /^---\ntitle: /,
    "a.HTM": /^<!doctype html>/i,
    "a.json": /^\{\n"format": "espalier-session"/,
    "a.jsonl": /^\{"type":"session"/,
    "a.openai.json": /"messages"/,
    "a.codex.jsonl": /"session_meta"/,
  };
  for (const [name, beginning] of Object.entries(beginnings)) {
    const out = join(folder, name);
    expect(await espalier(["export", DEMO, "--out", out])).toMatchObject({ code: 0 });
    expect(readFileSync(out, "utf8")).toMatch(beginning);
  }
  for (const more of [["--out", join(folder, "a.txt")], []]) {
    const { code, stderr } = await espalier(["export", DEMO, ...more]);
    expect([code, stderr]).toEqual([2, expect.stringContaining("Formats are html, markdown, json, jsonl,")]);
    expect(stderr).toContain(more.length > 0 ? "is not that of a format" : "--out session.md");
  }
  expect(existsSync(join(folder, "a.txt"))).toBe(false);
});

test("a Markdown export of one path names what it leaves out, near its title and on stderr", async () => {
  const out = join(temporaryFolder(), "path.md");
  const path = await espalier(["export", DEMO, "--out", out]);
  const [, shown] = /^(\d+) entries written to .*path\.md\.\n$/.exec(path.stdout)!;
  const [, others, silent] =
    /^Left out: (\d+) entries of other branches and (\d+) entries of bookkeeping; --all writes all branches and bookkeeping\.\n$/.exec(
      path.stderr,
    )!;
  const note = `*This is one path of the session, without ${others} entries of other branches and ${silent} entries of bookkeeping.*`;
  expect(readFileSync(out, "utf8")).toContain(`\n# tidepool works offline 🌊\n\n${note}\n\n## User\n`);
  const printed = await espalier(["export", DEMO, "--format", "markdown"]);
  expect([printed.stderr, printed.stdout]).toEqual([path.stderr, readFileSync(out, "utf8")]);
  // The counts add up to the document of all branches, which leaves nothing out.
  const all = await espalier(["export", DEMO, "--out", out, "--all"]);
  const sum = Number(shown) + Number(others) + Number(silent);
  expect([all.stdout, all.stderr]).toEqual([expect.stringMatching(`^${sum} entries written`), ""]);
  expect(readFileSync(out, "utf8")).not.toContain("This is one path");
});

test("an export of one path as JSON, JSON Lines or HTML names what it leaves out on stderr", async () => {
  for (const format of ["json", "jsonl", "html"]) {
    const whole = await espalier(["export", DEMO, "--format", format]);
    expect(whole.stderr).toBe("");
    const { stdout, stderr } = await espalier(["export", DEMO, "--format", format, "--at", "before-cache"]);
    const [, count] = /^Left out: (\d+) entries of other branches; omit --at to write all entries\.\n$/.exec(
      stderr,
    )!;
    if (format === "json") {
      const { leftOut, entries } = JSON.parse(stdout);
      expect([leftOut, entries.length]).toEqual([Number(count), 212 - Number(count)]);
      expect(JSON.parse(whole.stdout)).not.toHaveProperty("leftOut");
    }
  }
  const { stderr } = await espalier(["export", DEMO, "--format", "anthropic"]);
  expect(stderr).toBe("");
});

test("a document has the session's title and the unchanged messages; --all adds bookkeeping", async () => {
  const reminder = {
    ...{ type: "custom_message", id: "r1", parentId: "u1", timestamp: "2026-01-01T00:00:01.000Z" },
    ...{
      customType: "claude-code.date",
      content: "<system-reminder>Be brief.</system-reminder>",
      display: false,
    },
  };
  const file = sessionOf(
    HEADER,
    said("u1", null, "Which way is <up>?\n# Really"),
    reminder,
    said("u2", "r1", "Down?"),
  );
  const { stdout } = await espalier(["export", file, "--format", "markdown"]);
  expect(stdout).toContain("\n# Which way is \\<up\\>? # Really\n".replace(" # Really", " \\# Really"));
  expect(stdout).toContain("\n\nWhich way is \\<up>?\n### Really\n\n## User\n");
  expect(stdout).not.toMatch(/^>/m);
  expect(stdout).not.toContain("Be brief.");
  expect((await espalier(["export", file, "--format", "markdown", "--all"])).stdout).toContain("Be brief.");
});

describe.skipIf(!hasTmux)("on a terminal (skipped where tmux is missing)", () => {
  test("a page for browsers is not printed, and the message suggests a file", async () => {
    const screen = await Tmux.run(["export", DEMO, "--format", "html"], { columns: 120 });
    await screen.shows(`${Tmux.LEFT} 2`);
    expect(screen.screen).toContain(
      "HTML is for a browser: name a file with --out, for example --out demo-session.html.",
    );
  });
});
