import { readFileSync } from "node:fs";
import type { ContextMessage } from "@espalier/session-tree";

/** Sessions that were written for the project, and that `espalier eval` measures. */
export const WRITTEN = ["chinese", "code-mode", "gemini", "korean", "opencode"] as const;

/** Reads the messages of a written session. */
export function writtenSession(name: (typeof WRITTEN)[number]): ContextMessage[] {
  const file = new URL(`../../../apps/cli/assets/sessions/${name}.jsonl`, import.meta.url);
  const lines = readFileSync(file, "utf8").trim().split("\n");
  return lines.slice(1).map((line) => JSON.parse(line).message);
}
