import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { DEMO, temporaryFolder } from "./espalier.ts";
import { hasTmux, Tmux } from "./tmux.ts";

const lines = (...values: object[]): string => values.map((value) => `${JSON.stringify(value)}\n`).join("");

describe.skipIf(!hasTmux)("reports on a terminal of 80 columns", () => {
  test("an import has a line per session with title and date, and a total", async () => {
    const home = temporaryFolder();
    const folder = join(home, ".claude/projects/-garden");
    mkdirSync(folder, { recursive: true });
    const common = {
      sessionId: "33333333-3333-4333-8333-333333333333",
      cwd: "/garden",
      version: "2.1.330",
      isSidechain: false,
      userType: "external",
      gitBranch: "main",
      timestamp: "2026-01-01T00:00:00.000Z",
    };
    const prompt = { role: "user", content: "Which tree is oldest?" };
    const answer = { id: "m1", model: "claude-opus-4-5", role: "assistant", type: "message" };
    const content = [{ type: "text", text: "The one at the wall." }];
    writeFileSync(
      join(folder, `${common.sessionId}.jsonl`),
      lines(
        { ...common, type: "user", uuid: "u1", parentUuid: null, message: prompt },
        { ...common, type: "assistant", uuid: "u2", parentUuid: "u1", message: { ...answer, content } },
      ),
    );
    const env = { HOME: home, ESPALIER_HOME: join(home, ".espalier"), CLAUDE_CONFIG_DIR: "" };
    const first = await Tmux.run(["import"], { env });
    const screen = await first.shows(`${Tmux.LEFT} 0`);
    expect(screen).toMatch(/created {4}2026-01-01 {2}garden +Which tree is oldest\? {2}\(2 entries\)/);
    expect(screen).toMatch(/1 new session with 2 entries\.\n`espalier open \S+` shows it\./);
    const second = await Tmux.run(["import"], { env });
    expect(await second.shows(`${Tmux.LEFT} 0`)).toContain("1 session unchanged (2 entries).");
  });

  test("the first change of an old file names the new format and the place of the old file", async () => {
    const folder = temporaryFolder();
    const header = { type: "session", id: "old", timestamp: "2025-01-01T00:00:00.000Z", cwd: "/garden" };
    const message = { role: "user", content: "Which pear tree?" };
    writeFileSync(
      join(folder, "old.jsonl"),
      lines(header, { type: "message", timestamp: header.timestamp, message }),
    );
    const terminal = await Tmux.run(["name", "old.jsonl", "Pears"], { cwd: folder, columns: 160 });
    await terminal.shows(`${Tmux.LEFT} 0`);
    expect(terminal.history).toContain("was upgraded to format version 3; the old file is ");
    expect(existsSync(join(folder, "old.jsonl.v1"))).toBe(true);
  });

  test("the table of policies has each policy on one line", async () => {
    const terminal = await Tmux.run(["policies", DEMO], { columns: 80 });
    const screen = await terminal.shows(`${Tmux.LEFT} 0`);
    expect(screen).toMatch(/^policy +messages +tokens +summarized +calls +written +pays back$/m);
    expect(screen).toMatch(/^message-cou\S+ .* \d+ calls?$/m);
  });

  test("an evaluation has two tables, each row on one line", async () => {
    const terminal = await Tmux.run(["eval", DEMO], { columns: 80, rows: 60 });
    const screen = await terminal.shows(`${Tmux.LEFT} 0`);
    expect(screen).toMatch(/^policy +summarizer +tokens +reach +user +found +state +dump +prec\nat once /m);
    expect(screen).toMatch(/^policy +summarizer +rules +current .* +price\nat once /m);
    expect(screen.match(/^message-count +extractive .*\d$/gm)).toHaveLength(2);
  });

  test("the settings are grouped by policy, each with its meaning", async () => {
    const home = temporaryFolder();
    const terminal = await Tmux.run(["config"], { rows: 80, env: { HOME: home, ESPALIER_HOME: home } });
    const screen = await terminal.shows(`${Tmux.LEFT} 0`);
    expect(screen).toMatch(
      /^token-budget \(the current policy\)\n {2}keepRecentTokens +20000 +newest tokens/m,
    );
    expect(screen).toMatch(/^sliding-window\n {2}contextSize/m);
  });
});

describe.skipIf(!hasTmux)("on a terminal of 60 columns", () => {
  test("a found message is broken between words, below its indent", async () => {
    const terminal = await Tmux.run(["history", DEMO, "etag", "--limit", "2"], { columns: 60, rows: 60 });
    const screen = await terminal.shows(`${Tmux.LEFT} 0`);
    expect(screen).toMatch(/^ {2}Nothing to work with: .*\n {2}`no-store` on top\. .*\n {2}\S/m);
  });

  test("the help breaks the meaning of an option between words, in its column", async () => {
    const terminal = await Tmux.run(["undo", "--help"], { columns: 60, rows: 60 });
    const screen = await terminal.shows(`${Tmux.LEFT} 0`);
    expect(screen).toMatch(/^ {2}--expect <id> {2}undo nothing but .*\n {17}\S/m);
  });
});

describe.skipIf(!hasTmux)("on a terminal that cannot move its cursor", () => {
  test("the interface is not opened, and the cure is named", async () => {
    // tmux names itself in TERM; the shell changes the name before its prompt.
    const terminal = await Tmux.run(["open", DEMO], { env: { PROMPT_COMMAND: "TERM=dumb" }, columns: 200 });
    await terminal.shows(`${Tmux.LEFT} 2`);
    expect(terminal.history).toMatch(
      /needs a terminal that moves its cursor, and TERM is dumb; `espalier tree \S+` prints it\./,
    );
  });
});
