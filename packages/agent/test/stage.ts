// A session of its own, a loopback server of the Messages API, and an agent between them.

import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import Anthropic from "@anthropic-ai/sdk";
import {
  type AgentEvent,
  type AgentOptions,
  createAgent,
  listFilesTool,
  queryHistoryTool,
  readFileTool,
  searchTextTool,
} from "@espalier/agent";
import { createSession, type OpenOptions, openSession, type Session } from "@espalier/engine";
import { type AnthropicOptions, anthropic } from "@espalier/engine/anthropic";
import type { Entry } from "@espalier/session-tree";
import { type MessagesServerOptions, startMessagesServer } from "@espalier/summarizer/testing";
import { afterAll } from "vitest";

const endings: (() => unknown)[] = [];
afterAll(async () => {
  for (const end of endings.reverse()) await end();
});

/** A folder with one file, gone after the tests. */
export function workingFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "espalier-agent-"));
  endings.push(() => rmSync(folder, { recursive: true, force: true }));
  mkdirSync(join(folder, "garden"));
  writeFileSync(join(folder, "garden/notes.txt"), "The pears are ripe.\n");
  return folder;
}

/** A server that is stopped after the tests. */
export async function server(options: MessagesServerOptions) {
  const started = await startMessagesServer(options);
  endings.push(started.close);
  return started;
}

/** Claude at a loopback address. */
export const claude = (baseURL: string, options: AnthropicOptions = {}) =>
  anthropic(new Anthropic({ apiKey: "key-of-the-test", baseURL }), { model: "claude-haiku-4-5", ...options });

/** Errors and warnings of a session, instead of stderr. */
export const quiet = { warn() {}, error() {} };

export interface Stage {
  cwd: string;
  session: Session;
  agent: ReturnType<typeof createAgent>;
  events: AgentEvent[];
}

/** An agent on a new session, or on the one in `file`. */
export async function stage(
  options: Partial<AgentOptions> & {
    url?: string;
    contextWindow?: number;
    file?: string;
    open?: OpenOptions;
    cwd?: string;
  },
): Promise<Stage> {
  const { url = "", contextWindow, file, open, cwd = workingFolder(), ...rest } = options;
  const opening = { home: cwd, log: quiet, ...open };
  const session = file ? await openSession({ file }, opening) : await createSession({ cwd, ...opening });
  endings.push(() => session.close());
  const model = claude(url, contextWindow ? { contextWindow } : {});
  const tools = [readFileTool([cwd]), listFilesTool([cwd]), searchTextTool([cwd]), queryHistoryTool(session)];
  const agent = createAgent({
    session,
    model,
    tools,
    system: "You tend a garden.",
    overflowRetryDelayMs: 1,
    ...rest,
  });
  const events: AgentEvent[] = [];
  agent.on((event) => events.push(event));
  return { cwd, session, agent, events };
}

/** The entries of a session's file. */
export const entriesOf = (file: string): Entry[] =>
  readFileSync(file, "utf8")
    .trimEnd()
    .split("\n")
    .slice(1)
    .map((line) => JSON.parse(line));

/** The texts of a session's messages of one role, in the order of the file. */
export function textsOf(file: string, role: string): string[] {
  return entriesOf(file).flatMap((entry) => {
    const { message } = entry as unknown as { message?: { role: string; content: unknown } };
    if (message?.role !== role) return [];
    const { content } = message;
    if (typeof content === "string") return [content];
    return [(content as { text?: string }[]).map(({ text = "" }) => text).join("")];
  });
}

/** Waits until something holds. */
export async function until(holds: () => boolean, most = 30_000): Promise<void> {
  const end = Date.now() + most;
  while (!holds()) {
    if (Date.now() > end) throw new Error("It never came about.");
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
}

/** A summary that stands. */
export const SUMMARY = [
  "## Goal\nTend the garden.",
  "## Constraints & Preferences\n- none",
  "## Progress\n### Done\n- [x] looked\n### In Progress\n- [ ] look on\n### Blocked\n- none",
  "## Key Decisions\n- **Look**: daily",
  "## Next Steps\n1. Look again.",
  "## Critical Context\n- Pears.",
].join("\n\n");
