// The desk of somebody who follows a page: a folder with a session in it, and the command.
import { execFileSync } from "node:child_process";
import { chmodSync, copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { buildSync } from "esbuild";
import { afterAll } from "vitest";

export const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const DEMO = join(ROOT, "apps/cli/assets/demo-session.jsonl");

export interface Fence {
  language: string;
  text: string;
}

/** The fences of a page in their order. */
export function fencesOf(page: string): Fence[] {
  const markdown = readFileSync(page, "utf8");
  return [...markdown.matchAll(/^```(\w+)\n(.*?)^```/gms)].map(([, language = "", text = ""]) => ({
    language,
    text,
  }));
}

const folders: string[] = [];
afterAll(() => {
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
});

export interface Desk {
  /** Writes a file beside the session. */
  put(name: string, text: string): void;
  /** Types lines into a shell, in which `espalier` is the command. Returns what it prints; throws at the first failure. */
  type(lines: string): string;
  /** Runs a program as a project does that has the packages installed. */
  run(program: string): string;
}

export async function desk(): Promise<Desk> {
  const folder = mkdtempSync(join(tmpdir(), "espalier-desk-"));
  folders.push(folder);
  copyFileSync(DEMO, join(folder, "session.jsonl"));
  const command = join(folder, "espalier");
  writeFileSync(command, `#!/bin/sh\nexec "${process.execPath}" "${await bundledCommand()}" "$@"\n`);
  chmodSync(command, 0o755);
  const { ANTHROPIC_API_KEY: _key, ...rest } = process.env;
  const own = { NO_COLOR: "1", ESPALIER_HOME: join(folder, "home"), PATH: `${folder}:${rest["PATH"]}` };
  const options = { cwd: folder, env: { ...rest, ...own }, encoding: "utf8", stdio: "pipe" } as const;
  return {
    put: (name, text) => writeFileSync(join(folder, name), text),
    type: (lines) => execFileSync("bash", ["-euo", "pipefail", "-c", lines], options),
    run: (program) => {
      const outfile = join(folder, "program.mjs");
      bundle(program, outfile);
      return execFileSync(process.execPath, [outfile], options);
    },
  };
}

/** The command as the sources stand, bundled by its own start script where that was not done yet. */
async function bundledCommand(): Promise<string> {
  execFileSync(process.execPath, [join(ROOT, "scripts/espalier.mjs"), "--version"], { stdio: "ignore" });
  const { sourceKey } = await import(pathToFileURL(join(ROOT, "scripts/command/sources.mjs")).href);
  return join(ROOT, "apps/cli/node_modules/.cache/espalier", sourceKey(ROOT), "main.js");
}

/** Node runs no TypeScript of the workspace by itself, so the program comes with the packages in it. */
function bundle(program: string, outfile: string): void {
  const require = "import { createRequire as requireHere } from 'node:module'";
  buildSync({
    stdin: { contents: program, resolveDir: join(ROOT, "docs"), loader: "ts" },
    bundle: true,
    platform: "node",
    format: "esm",
    banner: { js: `${require}; const require = requireHere(import.meta.url);` },
    logLevel: "error",
    outfile,
  });
}
