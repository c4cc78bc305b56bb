import { readFileSync } from "node:fs";
import type { ContextMessage } from "@espalier/session-tree";

/** Sessions that were written for the project, and that `espalier eval` measures. */
export const WRITTEN = ["chinese", "code-mode", "gemini", "korean", "opencode"] as const;

type Name = (typeof WRITTEN)[number];

/** Reads the messages of a written session. */
export const writtenSession = (name: Name) => readMessages(`apps/cli/assets/sessions/${name}.jsonl`);

/** Reads the messages of the same session after days of further work: 48 to 62 requests, 211 to 395 calls. */
export const longSession = (name: Name) => readMessages(`bench/sessions/${name}.jsonl`);

function readMessages(path: string): ContextMessage[] {
  const file = new URL(`../../../${path}`, import.meta.url);
  const lines = readFileSync(file, "utf8").trim().split("\n");
  return lines.slice(1).map((line) => JSON.parse(line).message);
}
