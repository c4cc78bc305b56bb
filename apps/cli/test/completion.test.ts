import { execFileSync, spawnSync } from "node:child_process";
import { chmodSync, copyFileSync, existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { bundled, DEMO, demoCopy, espalier, linesOf, temporaryFolder } from "./espalier.ts";
import { hasTmux, Tmux } from "./tmux.ts";

/** What is offered for the last of these words. */
const offered = async (...words: string[]) => {
  const { code, stdout } = await espalier(["complete", "--", ...words]);
  expect(code).toBe(0);
  return stdout
    .trimEnd()
    .split("\n")
    .map((line) => line.split("\t")[0]!);
};

describe("a completion at the end of a line", () => {
  test("is first a command, with its description", async () => {
    const { stdout } = await espalier(["complete", "--", "na"]);
    expect(stdout).toMatch(/^name\t\S.*\nnavigate\t\S/);
    expect(await offered("")).not.toContain("complete");
  });

  test("is an option of the command, or a global option", async () => {
    expect(await offered("compact", DEMO, "--")).toEqual(
      expect.arrayContaining(["--dry-run", "--policy", "--json"]),
    );
    expect(await offered("tree", DEMO, "--on")).toEqual(["--on-busy"]);
  });

  test("is one of the values of an option", async () => {
    expect(await offered("tree", "--on-busy", "")).toEqual(["error", "read-only", "fork", "share"]);
    expect(await offered("fork", DEMO, "leaf", "--position", "b")).toEqual(["before"]);
  });

  test("is a file where the command takes a session or a file", async () => {
    expect(await offered("tree", "")).toEqual([":files"]);
    expect(await offered("--extension", "./")).toEqual([":files"]);
  });

  test("is a file where the command takes a place, or sessions to copy or import", async () => {
    for (const words of [
      ["copy", ""],
      ["copy", DEMO, ""],
      ["import", "./"],
      ["serve", ""],
      ["list", ""],
    ])
      expect(await offered(...words)).toEqual([":files"]);
    expect(await offered("merge", DEMO, "before")).toEqual(["before-cache"]);
    expect(await offered("undo", DEMO, "--expect", "before")).toEqual(["before-cache"]);
  });

  test("is an entry of the named session: by label, by word, by the beginning of its id", async () => {
    const file = demoCopy();
    await espalier(["label", file, "leaf", "tests-pass"]);
    const id = String(linesOf(file)[40]!["id"]);
    expect(await offered("navigate", file, "")).toEqual(
      expect.arrayContaining(["tests-pass", "leaf", "start"]),
    );
    expect(await offered("show", file, id.slice(0, 5))).toEqual([id]);
    expect(await offered("label", file, "tests")).toEqual(["tests-pass"]);
  });

  test("is the id of a session in the home folder", async () => {
    const env = { ESPALIER_HOME: temporaryFolder() };
    const folder = join(env.ESPALIER_HOME, "sessions", "garden-0123456789");
    mkdirSync(folder, { recursive: true });
    const header = { ...linesOf(DEMO)[0], id: "gardenOfMine" };
    writeFileSync(join(folder, "2026-01-01_gardenOfMine.jsonl"), `${JSON.stringify(header)}\n`);
    const { stdout } = await espalier(["complete", "--", "tree", "gard"], { env });
    expect(stdout).toMatch(/^gardenOfMine\t/);
    // A copy for another agent has the same id, and is offered once with it.
    copyFileSync(join(folder, "2026-01-01_gardenOfMine.jsonl"), join(folder, "copy.jsonl"));
    const again = await espalier(["complete", "--", "tree", "gard"], { env });
    expect(again.stdout).toBe(stdout);
  });
});

describe("bash", () => {
  let command = "";
  beforeAll(async () => {
    const folder = temporaryFolder();
    const program = join(folder, "espalier");
    writeFileSync(program, `#!/bin/sh\nexec "${process.execPath}" "${await bundled()}" "$@"\n`);
    chmodSync(program, 0o755);
    command = `PATH="${folder}:$PATH"; eval "$(espalier completion bash)"`;
  });

  /** What Tab offers behind `words`; the last is the one that is being typed. */
  const tab = (cwd: string, ...words: string[]) => {
    const quoted = ["espalier", ...words].map((word) => `'${word}'`).join(" ");
    const script = `${command}; COMP_WORDS=(${quoted}); COMP_CWORD=${words.length}; _espalier; printf '%s\\n' "\${COMPREPLY[@]}"`;
    return execFileSync("bash", ["--norc", "-c", script], { cwd, encoding: "utf8", stdio: "pipe" })
      .trimEnd()
      .split("\n");
  };

  test("completes commands, values and files", () => {
    const folder = temporaryFolder();
    writeFileSync(join(folder, "two words.jsonl"), "");
    expect(tab(folder, "repl")).toEqual(["replay"]);
    expect(tab(folder, "tree", "--on-busy", "re")).toEqual(["read-only"]);
    expect(tab(folder, "tree", "two")).toEqual(["two words.jsonl"]);
  });

  test("inserts a label as one word, of which nothing is executed", async () => {
    const folder = temporaryFolder();
    const file = demoCopy();
    const label = "done $(touch ran); `touch ran`";
    await espalier(["label", file, "leaf", label]);
    const [word = "", ...others] = tab(folder, "navigate", file, "done");
    expect(others).toEqual([]);
    const said = execFileSync("bash", ["-c", `printf %s ${word}`], { cwd: folder, encoding: "utf8" });
    expect(said).toBe(label);
    expect(existsSync(join(folder, "ran"))).toBe(false);
  });

  test("executes nothing of the typed text", () => {
    const folder = temporaryFolder();
    tab(folder, "tree", `$(touch ${join(folder, "ran")})`, "`touch ran`", "");
    expect(existsSync(join(folder, "ran"))).toBe(false);
  });
});

const SHELLS = {
  bash: { start: "bash --norc -i", load: 'eval "$(espalier completion bash)"' },
  zsh: {
    start: "zsh -f -i",
    load: 'autoload -Uz compinit; compinit -u -D; eval "$(espalier completion zsh)"',
  },
  fish: { start: "fish --no-config -i", load: "espalier completion fish | source" },
};

describe.each(Object.entries(SHELLS))("%s, typed into", (shell, { start, load }) => {
  const isThere = hasTmux && spawnSync(shell, ["-c", "exit"]).status === 0;
  const whySkipped = isThere ? "" : ` (skipped: ${hasTmux ? shell : "tmux"} is not installed)`;

  /** A terminal in which the shell runs in a folder, with our completion. */
  async function typedInto(cwd: string): Promise<Tmux> {
    const programs = temporaryFolder();
    const program = join(programs, "espalier");
    writeFileSync(program, `#!/bin/sh\nexec "${process.execPath}" "${await bundled()}" "$@"\n`);
    chmodSync(program, 0o755);
    const PATH = `${programs}:${process.env["PATH"]}`;
    const screen = await Tmux.run(["--version"], {
      cwd,
      columns: 160,
      env: { PATH, TERM: "screen", HOME: cwd },
    });
    await screen.shows(`${Tmux.LEFT} 0`);
    screen.type(`exec ${start}`);
    screen.type("printf 'begun in %s\\n' here");
    await screen.shows("begun in here");
    screen.type(`${load}; clear; printf 'loaded %s\\n' here`);
    await screen.shows("loaded here");
    return screen;
  }

  /** Types a line, presses Tab, and waits for the line as it is then. */
  async function completes(screen: Tmux, typed: string, line: string): Promise<void> {
    screen.write(typed);
    screen.keys("Tab");
    await screen.shows(line);
    // Read in its turn; the signal of Ctrl-C could come before the end of the completion, or behind what is typed next.
    screen.keys("C-u");
  }

  test.skipIf(!isThere)(`completes commands, values, sessions and files${whySkipped}`, async () => {
    const folder = temporaryFolder();
    writeFileSync(join(folder, "two words.jsonl"), "");
    const screen = await typedInto(folder);
    await completes(screen, "espalier repl", "espalier replay");
    await completes(screen, "espalier tree --on-busy re", "--on-busy read-only");
    await completes(screen, "espalier tree two", "two\\ words.jsonl");
    copyFileSync(DEMO, join(folder, "two words.jsonl"));
    for (const name of ["two\\ words.jsonl", "'two words.jsonl'", '"two words.jsonl"', "~/two\\ words.jsonl"])
      await completes(screen, `espalier show ${name} check`, `${name} checkpoint`);
    expect(screen.screen).not.toMatch(/unrecognized|not found|error|unknown/i);
  });

  test.skipIf(!isThere)(`executes nothing of the typed text or of a label${whySkipped}`, async () => {
    const folder = temporaryFolder();
    const file = join(folder, "s.jsonl");
    copyFileSync(DEMO, file);
    await espalier(["label", file, "leaf", "done $(touch ran); `touch ran`"]);
    const screen = await typedInto(folder);
    screen.write("espalier show s.jsonl done");
    screen.keys("Tab");
    await screen.shows(/done.*touch.*ran.*touch.*ran/);
    screen.type(" > shown; printf 'shown %s\\n' here");
    await screen.shows("shown here");
    expect(readFileSync(join(folder, "shown"), "utf8")).toContain("done $(touch ran); `touch ran`");
    screen.write("espalier tree $(touch ran) re");
    screen.keys("Tab");
    await completes(screen, "", "espalier tree");
    expect(existsSync(join(folder, "ran"))).toBe(false);
  });
});

test("an unknown shell is refused with a list of the known ones", async () => {
  const { code, stderr } = await espalier(["completion", "tcsh"]);
  expect(code).toBe(2);
  expect(stderr).toMatch(/bash, zsh, fish/);
});
