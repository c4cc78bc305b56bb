// Program of the hooks. It is separate from program.ts, which takes too long to load for a hook, and imports only
// modules of Node.

import { spawn } from "node:child_process";
import { appendFileSync, mkdirSync, readFileSync, renameSync, statSync } from "node:fs";
import { homedir } from "node:os";
import { basename, join, resolve } from "node:path";
import { text as textOf } from "node:stream/consumers";

/** Fields of a hook's input that are read here. Agents add other fields in new versions. */
interface HookInput {
  hook_event_name?: unknown;
  session_id?: unknown;
  source?: unknown;
  transcript_path?: unknown;
  agent_transcript_path?: unknown;
}

/** Notes that an import leaves for the next start of a session. */
export interface Brief {
  /** Time of the end of the import, in milliseconds. */
  at: number;
  /** Duration of the import, in milliseconds. */
  tookMs: number;
  /** Text that the model reads at the start. */
  text: string;
}

/** Folder for the log and the notes of hooks. Repeats `espalierHome`, which takes too long to load for a hook. */
export const hooksFolder = (): string => {
  const { ESPALIER_HOME: home } = process.env;
  return join(home ? resolve(home) : join(homedir(), ".espalier"), "agents", "hooks");
};

/** Returns the file of the notes for a session; undefined if the id is not usable as a file name. */
export const briefFile = (agent: string, sessionId: string): string | undefined =>
  /^[\w-]{1,128}$/.test(sessionId) ? join(hooksFolder(), agent, `${sessionId}.json`) : undefined;

const AGENTS: ReadonlySet<string> = new Set(["claude-code", "codex"]);

/**
 * Answers a hook of an agent: reads its input from stdin, prints the agent's answer, and starts imports in separate
 * processes. Never fails: a failure is written to the log, and the agent gets no answer.
 */
export async function runHook([agent = "", ...words]: readonly string[]): Promise<void> {
  try {
    if (process.stdin.isTTY) {
      process.stderr.write("Agents run `espalier hook`; set it up with `espalier install`.\n");
      return;
    }
    if (!AGENTS.has(agent)) throw new Error(`no hooks for ${JSON.stringify(agent)}`);
    const input: unknown = JSON.parse(await wholeInput());
    if (typeof input !== "object" || input === null) throw new Error("the input is not an object");
    const answer = words[0] === "--status-line" ? statusLine(input as StatusInput) : answerTo(agent, input);
    if (answer !== "") process.stdout.write(answer);
  } catch (error) {
    logFailure(agent, error);
  }
}

/** Reads stdin to its end. An agent that leaves it open gets no answer, and does not keep this process alive. */
async function wholeInput(): Promise<string> {
  const late = new Error(`the input did not end within ${INPUT_MS} ms`);
  const timer = setTimeout(() => process.stdin.destroy(late), INPUT_MS);
  try {
    return await textOf(process.stdin);
  } finally {
    clearTimeout(timer);
  }
}

/** Limit for the input of a hook; the agents end a hook after three seconds. */
const INPUT_MS = 2_000;

/** Returns the text for stdout, empty for no answer, and starts the import that the event asks for. */
function answerTo(agent: string, input: HookInput): string {
  const sessionId = typeof input.session_id === "string" ? input.session_id : "";
  const transcript = typeof input.transcript_path === "string" ? input.transcript_path : "";
  const startImport = (isUrgent: boolean) => {
    if (transcript !== "") importInBackground(agent, sessionId, transcript, isUrgent);
  };
  switch (input.hook_event_name) {
    case "SessionStart": {
      if (input.source !== "compact" && input.source !== "resume") return "";
      const additionalContext = readBrief(agent, sessionId)?.text ?? "";
      startImport(input.source === "resume");
      if (additionalContext === "") return "";
      const hookSpecificOutput = { hookEventName: "SessionStart", additionalContext };
      return JSON.stringify({ hookSpecificOutput });
    }
    case "PreCompact":
      startImport(true);
      return agent === "claude-code" ? SUMMARY_INSTRUCTIONS : "";
    case "Stop":
      startImport(false);
      return "";
    case "SubagentStop": {
      const path = input.agent_transcript_path;
      if (typeof path === "string") importInBackground(agent, basename(path, ".jsonl"), path, false);
      return "";
    }
    case "SessionEnd":
      startImport(true);
      return "";
    default:
      return "";
  }
}

/** Instructions for Claude Code's summary: it should keep details that the notes at the next start do not contain. */
const SUMMARY_INSTRUCTIONS = `Keep in the summary, word for word: rules and corrections that the user gave, decisions with their reason, exact names (paths, commands, settings, ids, error texts), and the next step that was agreed on. Leave out what a file on disk says. The whole conversation stays readable through the tools of the MCP server "espalier".
`;

function readBrief(agent: string, sessionId: string): Brief | undefined {
  const file = briefFile(agent, sessionId);
  if (file === undefined)
    throw new Error(`the session id ${JSON.stringify(sessionId)} is not usable as a file name`);
  if (!statSync(file, { throwIfNoEntry: false })) return undefined;
  return JSON.parse(readFileSync(file, "utf8")) as Brief;
}

/** Maximum share of the time that imports at the end of answers take. */
const SHARE = 1 / 20;

/**
 * Starts an import in a separate process with low priority. An import that is not urgent is skipped until
 * 1 / {@link SHARE} times the duration of the last import has passed.
 */
function importInBackground(agent: string, sessionId: string, transcript: string, isUrgent: boolean): void {
  const last = isUrgent ? undefined : readBrief(agent, sessionId);
  if (last && Date.now() - last.at < last.tookMs / SHARE) return;
  const main = process.argv[1] ?? "";
  const words = [main, "hook", "--import", agent, sessionId, transcript];
  spawn(process.execPath, words, { detached: true, stdio: "ignore", windowsHide: true })
    .on("error", (error) => logFailure(agent, error))
    .unref();
}

/** Bytes after which a new log is begun; the previous log is kept as `hooks.log.1`. */
const LONGEST_LOG = 256 * 1024;

/** Appends at most 1,000 characters of an error to the log. Ignores failures: the agent must not be disturbed. */
export function logFailure(agent: string, error: unknown): void {
  const told = error instanceof Error ? `${error.name}: ${error.message}` : String(error);
  const line = `${new Date().toISOString()} ${agent} ${told.replace(/\s+/g, " ").slice(0, 1_000)}\n`;
  const file = join(hooksFolder(), "hooks.log");
  try {
    mkdirSync(hooksFolder(), { recursive: true, mode: 0o700 });
    const { size = 0 } = statSync(file, { throwIfNoEntry: false }) ?? {};
    if (size > LONGEST_LOG) renameSync(file, `${file}.1`);
    appendFileSync(file, line, { mode: 0o600 });
  } catch {
    // The disk is full, or the file is not writable.
  }
}

/** Fields of a status line's input that are read here. */
interface StatusInput {
  model?: { display_name?: unknown };
  cost?: { total_cost_usd?: unknown };
  context_window?: {
    context_window_size?: unknown;
    used_percentage?: unknown;
    current_usage?: Record<string, unknown> | null;
  };
  prompt_cache?: { hit_ratio?: unknown; warm?: unknown };
}

/**
 * Returns one line: the model, the used share of the context, the share that was cached, and the cost. Unknown parts
 * are left out; empty if all are unknown.
 */
function statusLine({ model, cost, context_window: window, prompt_cache: cache }: StatusInput): string {
  const usage = window?.current_usage ?? {};
  const count = (field: string) => numberOf(usage[field]) ?? 0;
  const read = count("cache_read_input_tokens");
  const tokens = count("input_tokens") + count("cache_creation_input_tokens") + read;
  const size = numberOf(window?.context_window_size) ?? 0;
  const percent = numberOf(window?.used_percentage) ?? (size > 0 ? (100 * tokens) / size : undefined);
  const ratio = numberOf(cache?.hit_ratio) ?? (tokens > 0 ? read / tokens : undefined);
  const dollars = numberOf(cost?.total_cost_usd);
  const parts = [
    typeof model?.display_name === "string" ? model.display_name.replace(/\p{Cc}/gu, "") : "",
    percent === undefined ? "" : `context ${Math.round(percent)} %${size > 0 ? ` of ${short(size)}` : ""}`,
    ratio === undefined ? "" : `cache ${Math.round(ratio * 100)} %${cache?.warm === false ? " (cold)" : ""}`,
    dollars === undefined ? "" : `$${dollars.toFixed(2)}`,
  ];
  const line = parts.filter((part) => part !== "").join(" · ");
  return line === "" ? "" : `${line}\n`;
}

const numberOf = (value: unknown): number | undefined =>
  typeof value === "number" && Number.isFinite(value) ? value : undefined;

const short = (tokens: number): string =>
  tokens >= 1_000_000 ? `${tokens / 1_000_000}M` : `${Math.round(tokens / 1_000)}k`;
