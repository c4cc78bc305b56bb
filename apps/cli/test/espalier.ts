// Runs the real command, as a person would: a process of its own, with a home of its own.
import { execFileSync, spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { copyFileSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { fileURLToPath, pathToFileURL } from "node:url";
import { afterAll } from "vitest";

const ROOT = fileURLToPath(new URL("../../..", import.meta.url));
const START = join(ROOT, "scripts/espalier.mjs");

/** The session that travels with the command: 212 entries, 6 branches. */
export const DEMO = join(ROOT, "apps/cli/assets/demo-session.jsonl");

export interface Run {
  code: number | null;
  stdout: string;
  stderr: string;
}

export interface RunOptions {
  stdin?: string;
  env?: Record<string, string | undefined>;
  cwd?: string;
}

const folders: string[] = [];
afterAll(() => {
  // A process in the background may still write to it.
  for (const folder of folders)
    rmSync(folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 });
});

/** A folder that is gone after the tests of this file. */
export function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "espalier-cli-"));
  folders.push(folder);
  return folder;
}

/** A copy of the demo session, to be changed at will. */
export function demoCopy(): string {
  const file = join(temporaryFolder(), "session.jsonl");
  copyFileSync(DEMO, file);
  return file;
}

/** A session file with these lines; an object becomes a line of JSON. */
export function sessionOf(...lines: (string | object)[]): string {
  const file = join(temporaryFolder(), "session.jsonl");
  const texts = lines.map((line) => (typeof line === "string" ? line : JSON.stringify(line)));
  writeFileSync(file, texts.map((line) => `${line}\n`).join(""));
  return file;
}

export const HEADER = {
  type: "session",
  version: 3,
  id: "s1",
  timestamp: "2026-01-01T00:00:00.000Z",
  cwd: "/project",
};

/** A line with a user message. */
export const said = (id: string, parentId: string | null, content: string): object => ({
  type: "message",
  id,
  parentId,
  timestamp: "2026-01-01T00:00:01.000Z",
  message: { role: "user", content, timestamp: 1 },
});

const home = temporaryFolder();

/** The environment of a run: a home of its own, no key, no colours. */
const environment = (env: RunOptions["env"] = {}): NodeJS.ProcessEnv => {
  const { ANTHROPIC_API_KEY: _key, ANTHROPIC_BASE_URL: _url, FORCE_COLOR: _force, ...rest } = process.env;
  return {
    ...rest,
    NO_COLOR: "1",
    ESPALIER_HOME: home,
    PI_CODING_AGENT_DIR: join(home, "pi"),
    PI_CODING_AGENT_SESSION_DIR: "",
    ...env,
  };
};

let bundle: Promise<string> | undefined;

/** The bundle of the present sources; the start script makes it where there is none yet. */
export function bundled(): Promise<string> {
  bundle ??= (async () => {
    execFileSync(process.execPath, [START, "--version"], { stdio: ["ignore", "ignore", "inherit"] });
    const { sourceKey } = await import(pathToFileURL(join(ROOT, "scripts/command/sources.mjs")).href);
    return join(ROOT, "apps/cli/node_modules/.cache/espalier", sourceKey(ROOT), "main.js");
  })();
  return bundle;
}

/** Starts the command; its output is for the caller to read. */
export async function start(parameters: readonly string[], { env, cwd }: RunOptions = {}) {
  return spawn(process.execPath, [await bundled(), ...parameters], {
    cwd: cwd ?? ROOT,
    env: environment(env),
    stdio: ["pipe", "pipe", "pipe"],
  });
}

/** Runs the command to its end. */
export async function espalier(parameters: readonly string[], options: RunOptions = {}): Promise<Run> {
  const child = await start(parameters, options);
  const ended = new Promise<number | null>((resolve) => child.on("close", resolve));
  child.stdin.on("error", () => undefined);
  child.stdin.end(options.stdin ?? "");
  const [stdout, stderr, code] = await Promise.all([text(child.stdout), text(child.stderr), ended]);
  return { code, stdout, stderr };
}

/** Runs a command with --json; its one value, or one for each line. */
export async function espalierJson(parameters: readonly string[], options: RunOptions = {}) {
  const run = await espalier([...parameters, "--json"], options);
  const values = run.stdout
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line));
  return { ...run, value: values[0], values };
}

/** What must not change of a file: its bytes and when they were written. */
export function stateOf(file: string): string {
  const digest = createHash("sha256").update(readFileSync(file)).digest("hex");
  return `${digest} ${statSync(file).mtimeMs}`;
}

/** The lines of a file, parsed. */
export const linesOf = (file: string): Record<string, unknown>[] =>
  readFileSync(file, "utf8")
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line));
