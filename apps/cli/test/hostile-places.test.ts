// Places that are made to hurt, or cannot be read: what the commands say of them.
import { execFileSync, spawnSync } from "node:child_process";
import { copyFileSync, existsSync, mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { bundled, DEMO, demoCopy, espalier, espalierJson, temporaryFolder } from "./espalier.ts";

test("one unreadable folder is reported and stops neither list, search nor import", async () => {
  const folder = temporaryFolder();
  copyFileSync(DEMO, join(folder, "session.jsonl"));
  // Its path is longer than the system takes, so nobody can read it, the superuser included.
  const script = `process.chdir(process.argv[1]);
    for (let n = 0; n < 20; n++) { require("fs").mkdirSync("d".repeat(250)); process.chdir("d".repeat(250)); }`;
  execFileSync(process.execPath, ["-e", script, folder]);
  try {
    for (const command of [
      ["list", folder],
      ["search", "e", folder],
    ]) {
      const { code, values, stderr } = await espalierJson(command);
      expect(code, command[0]).toBe(0);
      expect(values.length).toBeGreaterThan(0);
      expect(stderr).toMatch(/^\/[^\n]*cannot be [^\n]* \(ENAMETOOLONG\)[^\n]*\n$/);
    }
    const home = temporaryFolder();
    const { code, values } = await espalierJson(["import", folder], { env: { ESPALIER_HOME: home } });
    expect(code).toBe(0);
    expect(values).toMatchObject([
      { status: "created" },
      { status: "skipped", issues: [{ message: expect.stringContaining("ENAMETOOLONG") }] },
    ]);
  } finally {
    execFileSync("rm", ["-rf", join(folder, "d".repeat(250))]);
  }
});

test("an unreadable home is reported in one sentence, and the sessions of Pi are listed and searched", async () => {
  const [home, pi] = [temporaryFolder(), temporaryFolder()];
  writeFileSync(join(home, "sessions"), "");
  const options = { env: { ESPALIER_HOME: home, PI_CODING_AGENT_DIR: pi } };
  const reported = `${join(home, "sessions")} is not a folder; name the folder it is in.\n`;
  // It is not known whether there are sessions.
  for (const command of [["list"], ["list", "--cost"]])
    expect(await espalier(command, options)).toEqual({ code: 1, stdout: "", stderr: reported });
  mkdirSync(join(pi, "sessions"));
  copyFileSync(DEMO, join(pi, "sessions", "session.jsonl"));
  for (const command of [["list"], ["list", "--cost"], ["search", "the"]]) {
    const { code, stdout, stderr } = await espalier(command, options);
    expect({ code, stderr }, command.join(" ")).toEqual({ code: 0, stderr: reported });
    expect(stdout).toContain("LTfrBGnUynOG".slice(0, 4));
  }
});

test("no command follows a link to a folder below the home, by id or by path", async () => {
  const [home, elsewhere] = [temporaryFolder(), temporaryFolder()];
  const [name, id] = ["2026-01-01T00-00-00-000Z_theirs.jsonl", "theirs"];
  const theirs = join(elsewhere, name);
  copyFileSync(DEMO, theirs);
  mkdirSync(join(home, "sessions"));
  symlinkSync(elsewhere, join(home, "sessions", "linked"));
  const env = { ESPALIER_HOME: home };
  expect((await espalierJson(["list"], { env })).values).toEqual([]);
  for (const ref of [id, join(home, "sessions", "linked", name)])
    for (const command of [["delete", "--yes"], ["name", "mine"], ["tree"]]) {
      const [verb, ...rest] = command as [string, ...string[]];
      const { code, value } = await espalierJson([verb, ref, ...rest], { env });
      expect(code, `${verb} ${ref}`).toBe(1);
      expect(value.error.code).toBe(ref === id ? "not-found" : "not-a-file");
    }
  expect(existsSync(theirs)).toBe(true);
});

test("serve refuses a place that is neither a folder nor a session's file", async () => {
  const folder = temporaryFolder();
  const [fifo, link] = [join(folder, "fifo.jsonl"), join(folder, "link.jsonl")];
  execFileSync("mkfifo", [fifo]);
  symlinkSync(DEMO, link);
  expect(await espalier(["serve", fifo])).toMatchObject({
    code: 2,
    stderr: expect.stringContaining("neither a folder nor a session's file"),
  });
  expect(await espalier(["serve", link])).toMatchObject({
    code: 2,
    stderr: expect.stringContaining("is a symbolic link"),
  });
});

test("console output of an extension goes to stderr, never into the answer", async () => {
  const folder = temporaryFolder();
  const extension = join(folder, "talks.ts");
  writeFileSync(
    extension,
    `import { log } from "node:console";
export default (api: any) => {
  console.log("from setup"); console.info("info"); console.table([1]); log("bound");
  api.on("entry_appended", () => console.log("from a handler"));
};`,
  );
  const file = demoCopy();
  for (const parameters of [
    ["name", file, "new"],
    ["tree", file],
    ["context", file],
  ]) {
    const { code, stdout, stderr } = await espalier([...parameters, "--extension", extension, "--json"]);
    expect(code).toBe(0);
    expect(() => JSON.parse(stdout)).not.toThrow();
    for (const said of ["from setup", "info"]) expect(stderr).toContain(said);
  }
  const { stdout } = await espalier(["name", file, "newer", "--extension", extension]);
  expect(stdout).not.toContain("from");
});

test("the error for an empty file suggests a solution", async () => {
  const file = join(temporaryFolder(), "empty.jsonl");
  writeFileSync(file, "");
  for (const verb of ["tree", "context", "doctor", "delete"]) {
    const { code, value } = await espalierJson([verb, file, ...(verb === "delete" ? ["--yes"] : [])]);
    expect(code).toBe(1);
    expect(value.error).toEqual({
      code: "empty-file",
      message: `${file} is empty, but a session begins with a header line; replace it with a copy of the session, or remove it.`,
    });
  }
});

test("an error of the system that a command did not expect names its place and what to check", async () => {
  const missing = join(temporaryFolder(), "missing");
  const { code, stdout, stderr } = await espalier(["demo"], { env: { TMPDIR: missing } });
  expect({ code, stdout }).toEqual({ code: 1, stdout: "" });
  expect(stderr).toMatch(
    /^\/[^\n]*\/missing\/[^\n]* cannot be used \(ENOENT, mkdtemp\); check that its folder exists, its permissions and the free space on the disk\.\n$/,
  );
});

test("a command in a folder that was removed says so, or needs no folder", async () => {
  const folder = temporaryFolder();
  const main = await bundled();
  const run = (name: string, ...parameters: string[]) => {
    mkdirSync(join(folder, name));
    const script = 'cd "$1" && rmdir "$1" && shift && exec "$@"';
    const words = [join(folder, name), process.execPath, main, ...parameters];
    return spawnSync("sh", ["-c", script, "sh", ...words], {
      encoding: "utf8",
      env: { ...process.env, ESPALIER_HOME: folder, ANTHROPIC_API_KEY: "none" },
    });
  };
  for (const parameters of [["trust"], ["chat", "--print", "x"], ["tree", "x.jsonl"]])
    expect(run(parameters[0]!, ...parameters), parameters[0]).toMatchObject({
      status: 1,
      stdout: "",
      stderr: "The current folder does not exist any more; change to another folder.\n",
    });
  expect(run("list", "list")).toMatchObject({ status: 0, stderr: "" });
  expect(run("absolute", "tree", DEMO)).toMatchObject({ status: 0, stderr: "" });
});
