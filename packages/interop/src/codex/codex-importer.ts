import { isRecord } from "@espalier/session-tree";
import { ALONE, type SessionDraft, type SessionImporter, type Surroundings } from "../import-draft.ts";
import { CodexDraft } from "./codex-draft.ts";
import { RolloutFile } from "./rollout-file.ts";
import { RolloutLibrary } from "./rollout-library.ts";
import { readRolloutLine } from "./rollout-line.ts";
import { ThreadNames } from "./thread-names.ts";

/**
 * Reads rollouts of Codex (`~/.codex/sessions/YYYY/MM/DD/rollout-….jsonl`) of all generations. A file is read once, line
 * by line; what is kept in memory does not grow with it.
 */
export function codexImporter(surroundings: Surroundings = ALONE): SessionImporter {
  const library = new RolloutLibrary(surroundings);
  const names = new ThreadNames(surroundings);
  return {
    agent: "codex",
    recognises: (line) =>
      isRecord(line) &&
      line["type"] !== "session" &&
      !("uuid" in line) &&
      readRolloutLine(line) !== undefined,
    *read(source): Generator<SessionDraft, void> {
      const file = new RolloutFile(source);
      yield new CodexDraft(file, library, names.nameOf(file.threadId));
    },
  };
}
