import { homedir } from "node:os";
import { basename, dirname, join, sep } from "node:path";
import { EspalierError } from "@espalier/jsonl-stream";
import { claudeCodeImporter } from "../claude-code/importer.ts";
import { codexImporter } from "../codex/importer.ts";
import { THREAD_INDEX } from "../codex/rollout.ts";
import {
  firstLines,
  NO_SIBLINGS,
  type OtherAgent,
  otherAgents,
  type SessionImporter,
  type SiblingFiles,
  type SourceFile,
} from "../import/draft.ts";
import { piImporter } from "../pi/pi-sessions.ts";
import { type FoundFile, findFiles, SourceFiles, type UnreadablePlace } from "./sources.ts";

/** Environment variables, as in `process.env`. */
export type Environment = Readonly<Record<string, string | undefined>>;

/** An agent on this machine: the folders of its sessions, and its importer. */
export interface LocalAgent extends OtherAgent {
  /** Returns folders with sessions, depending on the environment. They need not exist. */
  folders(env: Environment): string[];
  /** Returns whether a file of this name can be a session; other files are skipped. */
  isSession(path: string): boolean;
  /** Returns the importer of this agent, with access to other files. */
  importer(siblings: SiblingFiles): SessionImporter;
  /** Returns folders with other files that this one may need. Default: none. */
  siblingFolders?(path: string): string[];
  /** Sorts files so that those to which others refer come first. Default: the oldest first. */
  inOrder?(files: readonly FoundFile[]): FoundFile[];
  /** Returns whether a file is a part of another file's session, by its name. Default: never. */
  isPart?(path: string): boolean;
}

/** Fields that an importer adds to its line of the table of agents. */
type Places = Omit<LocalAgent, keyof OtherAgent>;

const homeOf = (env: Environment): string => env["HOME"] || homedir();
const byAge = (a: FoundFile, b: FoundFile): number => a.born - b.born || (a.path < b.path ? -1 : 1);

/** Sorts files of an agent so that those to which others refer come first. */
export const inOrder = (agent: LocalAgent, files: readonly FoundFile[]): FoundFile[] =>
  agent.inOrder?.(files) ?? [...files].sort(byAge);

/** Claude Code: sessions in `<folder>/<session>.jsonl`, sub-agents in `<folder>/<session>/subagents`. */
const claudeCode: Places = {
  folders: (env) => [join(env["CLAUDE_CONFIG_DIR"] || join(homeOf(env), ".claude"), "projects")],
  isSession: (path) => path.endsWith(".jsonl"),
  importer: claudeCodeImporter,
  siblingFolders: (path) => [dirname(conversationOf(path))],
  inOrder(files) {
    const ages = new Map(files.map(({ path, born }) => [path.replace(/\.jsonl$/, ""), born]));
    const ageOf = (path: string) => ages.get(conversationOf(path)) ?? 0;
    return [...files].sort((a, b) => {
      const [first, second] = [conversationOf(a.path), conversationOf(b.path)];
      if (first !== second) return ageOf(a.path) - ageOf(b.path) || (first < second ? -1 : 1);
      // First a conversation, then its sub-agents in the order of their creation.
      return Number(isSubAgent(a.path)) - Number(isSubAgent(b.path)) || byAge(a, b);
    });
  },
  // Old runs of sub-agents are beside the conversation.
  isPart: (path) => isSubAgent(path) || basename(path).startsWith("agent-"),
};
const SUBAGENTS = `${sep}subagents${sep}`;
const isSubAgent = (path: string): boolean => path.includes(SUBAGENTS);

/** Returns the path, without extension, of the conversation that a file is or belongs to. */
function conversationOf(path: string): string {
  const at = path.lastIndexOf(SUBAGENTS);
  return at < 0 ? path.replace(/\.jsonl$/, "") : path.slice(0, at);
}

/** Folders of rollouts; the file with the names of threads is next to them. */
const CODEX_FOLDERS = ["sessions", "archived_sessions"];

const codex: Places = {
  folders: (env) => {
    const home = env["CODEX_HOME"] || join(homeOf(env), ".codex");
    return CODEX_FOLDERS.map((folder) => join(home, folder));
  },
  isSession: (path) => /\.jsonl(\.zst)?$/.test(path) && basename(path) !== THREAD_INDEX,
  importer: codexImporter,
  siblingFolders(path) {
    const parts = path.split(sep);
    const at = parts.findLastIndex((part) => CODEX_FOLDERS.includes(part));
    const home = at > 0 ? parts.slice(0, at).join(sep) : undefined;
    const folders = home === undefined ? [dirname(path)] : CODEX_FOLDERS.map((folder) => join(home, folder));
    return [...folders, join(home ?? dirname(path), THREAD_INDEX)];
  },
  // File names begin with the time, followed by ids that increase with time.
  inOrder: (files) => [...files].sort((a, b) => (basename(a.path) < basename(b.path) ? -1 : 1)),
  // A thread that continues in another file has a second id in the name.
  isPart: (path) => /^rollout-[^_]+_[\da-f-]{36}\./.test(basename(path)),
};

const pi: Places = {
  folders: (env) => [
    env["PI_CODING_AGENT_SESSION_DIR"] ||
      join(env["PI_CODING_AGENT_DIR"] || join(homeOf(env), ".pi", "agent"), "sessions"),
  ],
  isSession: (path) => path.endsWith(".jsonl"),
  importer: piImporter,
};

const PLACES: Readonly<Record<(typeof otherAgents)[number]["agent"], Places>> = {
  "claude-code": claudeCode,
  codex,
  pi,
};

/** All agents whose sessions can be imported. */
export const localAgents: readonly LocalAgent[] = otherAgents.map((other) => ({
  ...other,
  ...PLACES[other.agent],
}));

/** Agents whose sessions have another format than this program's. */
export const convertedAgents = localAgents.filter(({ isConverted }) => isConverted);

/** Opens a file; undefined when it cannot be opened. */
export function openOrNothing(path: string, files: SourceFiles): SourceFile | undefined {
  try {
    return files.open(path);
  } catch (error) {
    if (error instanceof EspalierError) return undefined;
    throw error;
  }
}

/**
 * Returns the agent of a session file, by the first line that an importer recognizes; that of a compressed file by its
 * name. Undefined for a file of an unknown format, and for one that cannot be opened.
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

/** Number of sessions of one agent on this machine. */
export interface FoundSessions extends Pick<LocalAgent, "agent" | "title"> {
  /** Number of sessions, without runs of sub-agents. */
  sessions: number;
}

/**
 * Counts the sessions on this machine that are listed only after an import. Files are counted by their names and never
 * opened. Runs of sub-agents, and files that continue the session of another file, are not counted. An agent without
 * sessions is left out.
 *
 * @param env environment variables that name the folders of agents
 * @param onUnreadable receives the agent of each folder that cannot be read
 */
export function foundSessions(
  env: Environment = process.env,
  onUnreadable?: (agent: string) => void,
): FoundSessions[] {
  return convertedAgents.flatMap(({ agent, title, folders, isSession, isPart }) => {
    const isCounted = (path: string) => isSession(path) && !isPart?.(path);
    const unreadable: UnreadablePlace[] = [];
    const files = folders(env).flatMap((folder) => findFiles(folder, isCounted, unreadable));
    for (const _ of unreadable) onUnreadable?.(agent);
    return files.length > 0 ? [{ agent, title, sessions: files.length }] : [];
  });
}

/** Returns a text such as `8 Claude Code sessions, 3 Codex`; empty when none was found. */
export const describeFound = (found: readonly FoundSessions[]): string =>
  found
    .map(({ title, sessions }, at) =>
      at > 0 ? `${sessions} ${title}` : `${sessions} ${title} ${sessions === 1 ? "session" : "sessions"}`,
    )
    .join(", ");
