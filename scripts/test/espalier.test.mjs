import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { setTimeout as wait } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";

const here = fileURLToPath(new URL("../..", import.meta.url));
/** A clone in small: the real start script, a program of a few lines, and an installer that only counts its runs. */
const clone = mkdtempSync(join(tmpdir(), "espalier-clone-"));
const program = join(clone, "apps/cli/src/main.ts");
const bundles = join(clone, "apps/cli/node_modules/.cache/espalier");

function write(path, content) {
  mkdirSync(join(clone, path, ".."), { recursive: true });
  writeFileSync(join(clone, path), content);
}

beforeAll(() => {
  write(
    "package.json",
    JSON.stringify({ type: "module", scripts: { espalier: "node scripts/espalier.mjs" } }),
  );
  write("pnpm-lock.yaml", "");
  write("packages/README.md", "");
  write("packages/espalier/package.json", JSON.stringify({ version: "1.2.3" }));
  write("apps/cli/package.json", JSON.stringify({ dependencies: {} }));
  write("apps/cli/assets/greeting.txt", "hello from the assets");
  write("apps/cli/src/agents/pi-extension.ts", "export default () => {};");
  write("apps/viewer/package.json", JSON.stringify({ type: "module" }));
  write("apps/viewer/vite.config.ts", "export default {};");
  write("apps/viewer/index.html", "<!doctype html><title>The page of a clone in small</title>");
  symlinkSync(join(here, "apps/viewer/node_modules"), join(clone, "apps/viewer/node_modules"));
  for (const path of ["scripts/espalier.mjs", "scripts/tools.mjs", "scripts/command"]) {
    cpSync(join(here, path), join(clone, path), { recursive: true });
  }
  write(
    "scripts/setup.mjs",
    `import { appendFileSync } from "node:fs"; appendFileSync(new URL("../installs", import.meta.url), "x"); console.log("installed");`,
  );
  symlinkSync(join(here, "node_modules"), join(clone, "node_modules"));
});

beforeEach(() => {
  rmSync(bundles, { recursive: true, force: true });
  rmSync(join(clone, "installs"), { force: true });
  write(
    "apps/cli/src/main.ts",
    `import { readFileSync } from "node:fs";
const { answer } = await import("./answer.ts");
const asset = (name) => readFileSync(new URL(\`assets/\${name}\`, import.meta.url), "utf8");
console.log(JSON.stringify(process.argv.slice(2)), asset("greeting.txt"), /<title>(.*)</.exec(asset("viewer.html"))[1]);
process.exitCode = answer;`,
  );
  write("apps/cli/src/answer.ts", "export const answer: number = 42;");
});

afterAll(() => rmSync(clone, { recursive: true }));

async function start(...args) {
  const child = spawn(process.execPath, [join(clone, "scripts/espalier.mjs"), ...args], { cwd: tmpdir() });
  const [stdout, stderr, [code]] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    once(child, "close"),
  ]);
  return { stdout, stderr, code };
}

const installs = () =>
  existsSync(join(clone, "installs")) ? readFileSync(join(clone, "installs"), "utf8").length : 0;

test("stdout has only the program's bytes, and the exit code is the program's", async () => {
  const expected = {
    stdout: `["show","a b"] hello from the assets The page of a clone in small\n`,
    code: 42,
  };
  expect(await start("show", "a b")).toMatchObject({ ...expected, stderr: "installed\n" });
  expect(await start("show", "a b")).toEqual({ ...expected, stderr: "" });
  expect(installs()).toBe(1);
});

test("a changed source is bundled again, an unchanged one is not", async () => {
  await start();
  await start();
  expect(readdirSync(bundles)).toHaveLength(1);
  write("apps/cli/src/answer.ts", "export const answer: number = 7;");
  expect((await start()).code).toBe(7);
  expect(readdirSync(bundles)).toHaveLength(2);
});

test("old bundles are removed", async () => {
  for (let answer = 1; answer <= 6; answer += 1) {
    write("apps/cli/src/answer.ts", `export const answer = ${answer};`);
    expect((await start()).code).toBe(answer);
  }
  expect(readdirSync(bundles).length).toBeLessThanOrEqual(4);
});

test("the path of an installation survives edits, and the next installation updates it", async () => {
  const answering = (answer) =>
    write("apps/cli/src/main.ts", `console.log(process.argv[1]); process.exitCode = ${answer};`);
  const run = (main) => spawnSync(process.execPath, [main]).status;
  answering(1);
  const main = (await start("install", "codex")).stdout.trim();
  expect(run(main)).toBe(1);
  for (let answer = 2; answer <= 8; answer += 1) {
    answering(answer);
    expect((await start("show")).code).toBe(answer);
  }
  expect(run(main)).toBe(1);
  expect((await start("install", "codex", "--dry-run")).stdout.trim()).toBe(main);
  expect(run(main)).toBe(1);
  expect((await start("install", "codex")).stdout.trim()).toBe(main);
  expect(run(main)).toBe(8);
});

test("concurrent first starts all work and leave one bundle", async () => {
  const runs = await Promise.all([1, 2, 3, 4].map((number) => start(String(number))));
  expect(runs.map(({ code }) => code)).toEqual([42, 42, 42, 42]);
  expect(runs.map(({ stdout }) => stdout.slice(0, 5))).toEqual(['["1"]', '["2"]', '["3"]', '["4"]']);
  expect(readdirSync(bundles)).toHaveLength(1);
});

test("a source that does not compile is reported on stderr, and leaves no files", async () => {
  write("apps/cli/src/answer.ts", "export const answer = ;");
  const { stdout, stderr, code } = await start();
  expect({ stdout, code }).toEqual({ stdout: "", code: 1 });
  expect(stderr).toContain("apps/cli/src/answer.ts:1:22");
  expect(readdirSync(bundles)).toEqual([]);
});

test("Ctrl-C reaches the program once, and the shell waits for its last output", async () => {
  writeFileSync(
    program,
    `let count = 0;
process.on("SIGINT", () => { count += 1; setTimeout(() => { console.log("interrupted", count); process.exit(3); }, 300); });
setInterval(() => {}, 1000);
console.log("ready");`,
  );
  // A terminal sends the signal to every process of the foreground group, npm and its shell included.
  const child = spawn("npm", ["run", "-s", "espalier"], {
    cwd: clone,
    detached: true,
    stdio: ["ignore", "pipe", "ignore"],
  });
  const output = text(child.stdout);
  await once(child.stdout, "data");
  await wait(50);
  process.kill(-child.pid, "SIGINT");
  await once(child, "close");
  expect(await output).toBe("ready\ninterrupted 1\n");
});
