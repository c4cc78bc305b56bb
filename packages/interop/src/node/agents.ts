import { homedir } from "node:os";
import { basename, dirname, join, sep } from "node:path";
import { EspalierError } from "@espalier/jsonl-stream";
import { claudeCodeImporter } from "../claude-code/importer.ts";
import { codexImporter } from "../codex/importer.ts";
import { THREAD_INDEX } from "../codex/rollout.ts";
import {
  firstLines,
  NO_SIBLINGS,
  type SessionImporter,
  type SiblingFiles,
  type SourceFile,
} from "../import/draft.ts";
import { piImporter } from "../pi/pi-importer.ts";
import { type FoundFile, SourceFiles } from "./sources.ts";

/** Variables of the process, as in `process.env`. */
export type Environment = Readonly<Record<string, string | undefined>>;

/** An agent on this machine: the folders of its sessions, and their importer. */
export interface LocalAgent {
  readonly agent: string;
  /** Folders with sessions, by the environment. They need not exist. */
  folders(env: Environment): string[];
  /** Returns whether a file of this name can be a session; other files are passed over. */
  isSession(path: string): boolean;
  /** Folders with files that this one may need, and files beside them. */
  siblingFolders(path: string): string[];
  /** Sorts files so that those that others refer to come first. */
  inOrder(files: readonly FoundFile[]): FoundFile[];
  /** Returns the importer of this agent, with the files beside the one it reads. */
  importer(siblings: SiblingFiles): SessionImporter;
}

const homeOf = (env: Environment): string => env["HOME"] || homedir();
const byAge = (a: FoundFile, b: FoundFile): number => a.born - b.born || (a.path < b.path ? -1 : 1);

/** `<folder>/<session>.jsonl`, and below `<folder>/<session>/subagents` those of its sub-agents. */
const claudeCode: LocalAgent = {
  agent: "claude-code",
  folders: (env) => [join(env["CLAUDE_CONFIG_DIR"] || join(homeOf(env), ".claude"), "projects")],
  isSession: (path) => path.endsWith(".jsonl"),
  siblingFolders: (path) => [dirname(conversationOf(path))],
  inOrder(files) {
    const ages = new Map(files.map(({ path, born }) => [path.replace(/\.jsonl$/, ""), born]));
    const ageOf = (path: string) => ages.get(conversationOf(path)) ?? 0;
    return [...files].sort((a, b) => {
      const [first, second] = [conversationOf(a.path), conversationOf(b.path)];
      if (first !== second) return ageOf(a.path) - ageOf(b.path) || (first < second ? -1 : 1);
      // A conversation first, then its sub-agents as they were begun.
      return Number(isSubAgent(a.path)) - Number(isSubAgent(b.path)) || byAge(a, b);
    });
  },
  importer: claudeCodeImporter,
};
const SUBAGENTS = `${sep}subagents${sep}`;
const isSubAgent = (path: string): boolean => path.includes(SUBAGENTS);

/** The path of a conversation, without its ending, that a file is or belongs to. */
function conversationOf(path: string): string {
  const at = path.lastIndexOf(SUBAGENTS);
  return at < 0 ? path.replace(/\.jsonl$/, "") : path.slice(0, at);
}

/** Folders of rollouts; the names of threads are beside these two. */
const CODEX_FOLDERS = ["sessions", "archived_sessions"];

const codex: LocalAgent = {
  agent: "codex",
  folders: (env) => {
    const home = env["CODEX_HOME"] || join(homeOf(env), ".codex");
    return CODEX_FOLDERS.map((folder) => join(home, folder));
  },
  isSession: (path) => /\.jsonl(\.zst)?$/.test(path) && basename(path) !== THREAD_INDEX,
  siblingFolders(path) {
    const parts = path.split(sep);
    const at = parts.findLastIndex((part) => CODEX_FOLDERS.includes(part));
    const home = at > 0 ? parts.slice(0, at).join(sep) : undefined;
    const folders = home === undefined ? [dirname(path)] : CODEX_FOLDERS.map((folder) => join(home, folder));
    return [...folders, join(home ?? dirname(path), THREAD_INDEX)];
  },
  // Names begin with the time and go on with ids that grow with time.
  inOrder: (files) => [...files].sort((a, b) => (basename(a.path) < basename(b.path) ? -1 : 1)),
  importer: codexImporter,
};

const pi: LocalAgent = {
  agent: "pi",
  folders: (env) => [
    env["PI_CODING_AGENT_SESSION_DIR"] ||
      join(env["PI_CODING_AGENT_DIR"] || join(homeOf(env), ".pi", "agent"), "sessions"),
  ],
  isSession: (path) => path.endsWith(".jsonl"),
  siblingFolders: (path) => [dirname(path)],
  inOrder: (files) => [...files].sort(byAge),
  importer: piImporter,
};

/** All agents whose sessions can be imported. */
export const localAgents: readonly LocalAgent[] = [claudeCode, codex, pi];

/** Opens a file; undefined where it cannot be opened. */
export function openOrNothing(path: string, files: SourceFiles): SourceFile | undefined {
  try {
    return files.open(path);
  } catch (error) {
    if (error instanceof EspalierError) return undefined;
    throw error;
  }
}

/**
 * Agent of a session file, by the first line that an importer knows; that of a compressed one by its name. Undefined for a
 * file that none knows, and for one that cannot be opened.
 */
export function agentOfFile(path: string, files = new SourceFiles()): LocalAgent | undefined {
  if (path.endsWith(".zst")) return localAgents.find((agent) => agent.isSession(path));
  const source = openOrNothing(path, files);
  for (const { value } of source ? firstLines(source.view) : []) {
    const agent = localAgents.find((candidate) => candidate.importer(NO_SIBLINGS).recognises(value));
    if (agent) return agent;
  }
  return undefined;
}
