import { homedir } from "node:os";
import { basename, dirname, join, sep } from "node:path";
import { EspalierError, parseLine, scanLines } from "@espalier/jsonl-stream";
import { claudeCodeImporter } from "../claude-code/importer.ts";
import { codexImporter, THREAD_INDEX } from "../codex/importer.ts";
import { ALONE, type SessionImporter, type SourceFile, type Surroundings } from "../import/draft.ts";
import { piImporter } from "../pi/pi-importer.ts";
import { type FoundFile, SourceFiles } from "./sources.ts";

/** Variables of the process, as in `process.env`. */
export type Environment = Readonly<Record<string, string | undefined>>;

/** Where an agent keeps its sessions on this machine, and how they are read. */
export interface LocalAgent {
  readonly agent: string;
  /** Folders with sessions, by what the environment says. They need not be there. */
  folders(env: Environment): string[];
  /** Whether a file of this name can be a session; others beside it are passed over. */
  isSession(path: string): boolean;
  /** The folders in which files lie that this one may need, and files beside them. */
  surroundingsOf(path: string): string[];
  /** Sorts files so that what others refer to comes first. */
  inOrder(files: readonly FoundFile[]): FoundFile[];
  /** Reads this agent's files, given what lies around them. */
  importer(surroundings: Surroundings): SessionImporter;
}

const homeOf = (env: Environment): string => env["HOME"] || homedir();
const byAge = (a: FoundFile, b: FoundFile): number => a.born - b.born || (a.path < b.path ? -1 : 1);

/** `<folder>/<session>.jsonl`, and below `<folder>/<session>/subagents` those of its sub-agents. */
const claudeCode: LocalAgent = {
  agent: "claude-code",
  folders: (env) => [join(env["CLAUDE_CONFIG_DIR"] || join(homeOf(env), ".claude"), "projects")],
  isSession: (path) => path.endsWith(".jsonl"),
  surroundingsOf: (path) => [dirname(conversationOf(path))],
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

/** Where rollouts lie; the names of threads lie beside these two. */
const CODEX_FOLDERS = ["sessions", "archived_sessions"];

const codex: LocalAgent = {
  agent: "codex",
  folders: (env) => {
    const home = env["CODEX_HOME"] || join(homeOf(env), ".codex");
    return CODEX_FOLDERS.map((folder) => join(home, folder));
  },
  isSession: (path) => /\.jsonl(\.zst)?$/.test(path) && basename(path) !== THREAD_INDEX,
  surroundingsOf(path) {
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
  surroundingsOf: (path) => [dirname(path)],
  inOrder: (files) => [...files].sort(byAge),
  importer: piImporter,
};

/** All agents whose sessions can be imported. */
export const localAgents: readonly LocalAgent[] = [claudeCode, codex, pi];

/** How many lines are looked at to tell whose a file is. */
const LINES = 50;

/** What cannot be opened is as good as missing to who only looks at it in passing. */
export function openOrNothing(path: string, files: SourceFiles): SourceFile | undefined {
  try {
    return files.open(path);
  } catch (error) {
    if (error instanceof EspalierError) return undefined;
    throw error;
  }
}

/**
 * Whose session a file is, told from the first line that an importer knows; a compressed one from its name. Undefined for
 * a file that none knows, and for one that cannot be opened.
 */
export function agentOfFile(path: string, files = new SourceFiles()): LocalAgent | undefined {
  if (path.endsWith(".zst")) return localAgents.find((agent) => agent.isSession(path));
  const source = openOrNothing(path, files);
  for (const line of source ? firstLines(source) : []) {
    const agent = localAgents.find((candidate) => candidate.importer(ALONE).recognises(line));
    if (agent) return agent;
  }
  return undefined;
}

function firstLines({ view }: SourceFile): unknown[] {
  const lines: unknown[] = [];
  let seen = 0;
  for (const { bytes } of scanLines(view, { blockSize: 1 << 16 })) {
    if (++seen > LINES) break;
    const parsed = parseLine(bytes);
    if (parsed.ok) lines.push(parsed.value);
  }
  return lines;
}
