import { execFileSync } from "node:child_process";
import {
  chmodSync,
  copyFileSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { buildSync } from "esbuild";
import { afterAll, describe, expect, test } from "vitest";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const GUIDES = join(ROOT, "docs/guides");
const DEMO = join(ROOT, "apps/cli/assets/demo-session.jsonl");

/** Guides whose programs have tests of their own, and the table of contents, whose commands belong to a clone. */
const ELSEWHERE: ReadonlySet<string> = new Set(["README.md", "put-it-under-your-agent.md", "import.md"]);
const guides = readdirSync(GUIDES).filter((name) => name.endsWith(".md") && !ELSEWHERE.has(name));

const folders: string[] = [];
afterAll(() => {
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
});

interface Fence {
  language: string;
  text: string;
}

/** The fences of a guide in their order. */
function fencesOf(guide: string): Fence[] {
  const markdown = readFileSync(join(GUIDES, guide), "utf8");
  return [...markdown.matchAll(/^```(\w+)\n(.*?)^```/gms)].map(([, language = "", text = ""]) => ({
    language,
    text,
  }));
}

/** The command as the sources stand, bundled by its own start script where that was not done yet. */
async function bundledCommand(): Promise<string> {
  execFileSync(process.execPath, [join(ROOT, "scripts/espalier.mjs"), "--version"], { stdio: "ignore" });
  const { sourceKey } = await import(pathToFileURL(join(ROOT, "scripts/command/sources.mjs")).href);
  return join(ROOT, "apps/cli/node_modules/.cache/espalier", sourceKey(ROOT), "main.js");
}

/** A reader's folder: a session, the command on the PATH, and the packages where Node finds them. */
async function desk() {
  const folder = mkdtempSync(join(tmpdir(), "espalier-guide-"));
  folders.push(folder);
  copyFileSync(DEMO, join(folder, "session.jsonl"));
  const program = join(folder, "espalier");
  writeFileSync(program, `#!/bin/sh\nexec "${process.execPath}" "${await bundledCommand()}" "$@"\n`);
  chmodSync(program, 0o755);
  const { ANTHROPIC_API_KEY: _key, ...rest } = process.env;
  const env = {
    ...rest,
    NO_COLOR: "1",
    ESPALIER_HOME: join(folder, "home"),
    PATH: `${folder}:${rest["PATH"]}`,
  };
  return { folder, env };
}

describe.each(guides)("%s", (guide) => {
  test("does what it says, from its first line to its last", async () => {
    const { folder, env } = await desk();
    const inFolder = { cwd: folder, env, encoding: "utf8", stdio: "pipe" } as const;
    for (const { language, text } of fencesOf(guide)) {
      if (language === "sh") execFileSync("bash", ["-euo", "pipefail", "-c", text], inFolder);
      if (language === "json") JSON.parse(text);
      if (language !== "ts") continue;
      const name = /^\/\/ ([\w-]+\.ts)\n/.exec(text)?.[1];
      expect(name, "an example begins with the name of its file").toBeDefined();
      writeFileSync(join(folder, name!), text);
      if (!text.includes("export default")) runProgram(text, inFolder);
    }
  }, 240_000);
});

/** Runs an example as a project would that has the packages installed. */
function runProgram(text: string, options: Parameters<typeof execFileSync>[2]): void {
  const outfile = join(String(options?.cwd), "example.mjs");
  buildSync({
    stdin: { contents: text, resolveDir: join(ROOT, "docs"), loader: "ts" },
    bundle: true,
    platform: "node",
    format: "esm",
    banner: {
      js: "import { createRequire as requireHere } from 'node:module'; const require = requireHere(import.meta.url);",
    },
    logLevel: "error",
    outfile,
  });
  execFileSync(process.execPath, [outfile], options);
}

test("the table of contents has every guide", () => {
  const contents = readFileSync(join(GUIDES, "README.md"), "utf8");
  const names = readdirSync(GUIDES).filter((name) => name !== "README.md");
  for (const name of names) expect(contents).toContain(`](${name})`);
});
