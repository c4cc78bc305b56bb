import { parseLine } from "@espalier/jsonl-stream";
import { isRecord, type ParentLink } from "@espalier/session-tree";
import {
  importedHeader,
  NO_SIBLINGS,
  type SessionDraft,
  type SessionImporter,
  type SiblingFiles,
  sourceName,
} from "../import/draft.ts";
import { idFromText, mentions, sessionIdFromSource } from "../import/entry.ts";
import { ImportIssues } from "../import/issue.ts";
import { ScratchSpace } from "../scratch/space.ts";
import { Conversation, type UnplacedEntry } from "./conversation.ts";
import { type CalledRun, ClaudeCodeFile, readSessionFacts, sessionIdOf } from "./file.ts";
import { hasPlace, type Line } from "./line-facts.ts";
import { MAIN } from "./places.ts";

/**
 * Reads sessions of Claude Code (`~/.claude/projects/<folder>/<session>.jsonl`, sub-agents in `<session>/subagents`).
 *
 * A file is read twice: first for the position of each line, which is kept in the scratch space, then for the content,
 * which is not kept.
 */
export function claudeCodeImporter(given: SiblingFiles = NO_SIBLINGS): SessionImporter {
  const siblings = { scratch: new ScratchSpace(), ...given };
  const forks = new Forks(siblings);
  const agents = new SubAgents(siblings);
  return {
    agent: "claude-code",
    recognises,
    *read(source): Generator<SessionDraft, void> {
      const file = new ClaudeCodeFile(source, siblings.scratch);
      const { agentId, isSidechain } = file.facts;
      if (isSidechain && agentId !== undefined) {
        yield agents.draftOf(file, agentId);
        return;
      }
      const sourceId = sessionIdOf(file);
      agents.enter(sourceId, file);
      yield draftOf({ file, sourceId, parent: () => forks.parentOf(file) });
      // A search takes less time than reading the lines. If the lines have been read, their facts are used.
      if (file.callsRead || mentions(source.view, /"isSidechain":\s*true/)) yield* runsWithin(file, sourceId);
    },
  };
}

/**
 * Returns whether a line is from Claude Code: it has a type, and a session or an id. Lines of other agents have an
 * envelope.
 */
function recognises(line: unknown): boolean {
  if (!isRecord(line) || typeof line["type"] !== "string" || line["type"] === "session" || "payload" in line)
    return false;
  return ["sessionId", "uuid", "parentUuid", "leafUuid"].some((field) => field in line);
}

/** Yields the runs of sub-agents that old versions wrote between the lines of a conversation. */
function* runsWithin(file: ClaudeCodeFile, sessionId: string): Generator<SessionDraft, void> {
  const taken = new Set<string>();
  for (const run of file.runs.all()) {
    const line = file.lineAt(run) ?? {};
    const { agentId } = line;
    const name = typeof agentId === "string" && !taken.has(agentId) ? agentId : file.idOf(run, line);
    taken.add(name);
    yield draftOf({
      file,
      run,
      sourceId: agentSessionId(sessionId, name),
      parent: () => {
        readCalls(file);
        const above = file.lines.table.parent.get(run);
        const caller = file.calls.callerOf({ agentId, prompt: promptIn(line) });
        const entryId = caller >= 0 ? file.idOf(caller) : above < 0 ? null : file.entryIdOf(above);
        return { sessionId, entryId, kind: "subagent" };
      },
    });
  }
}

/** Parts of a draft. */
interface DraftParts {
  file: ClaudeCodeFile;
  sourceId: string;
  /** First row of a sub-agent's run within the file. Default: the conversation. */
  run?: number;
  /** Returns the parent; called when the header is made. */
  parent: () => ParentLink | undefined;
  prelude?: readonly UnplacedEntry[];
}

/** Makes a session draft from a conversation of Claude Code, or from the run of a sub-agent. */
function draftOf({ file, sourceId, run = MAIN, parent, prelude = [] }: DraftParts): SessionDraft {
  const issues = run === MAIN ? file.issues : new ImportIssues();
  let leafId: string | null | undefined;
  return {
    agent: "claude-code",
    sourceId,
    sessionId: sessionIdFromSource(sourceId),
    cwd: file.facts.cwd,
    source: file.source,
    issues,
    get leafId() {
      return leafId;
    },
    get lines() {
      if (run !== MAIN) return file.runs.sizeOf(run);
      let lines = file.lines.count;
      for (const beside of file.runs.all()) lines -= file.runs.sizeOf(beside);
      return lines;
    },
    header() {
      const { version, time } = file.facts;
      return importedHeader(this, { timestamp: time.iso, version, parent: parent() });
    },
    *entries(options = {}) {
      const conversation = new Conversation(file, run, issues, options);
      yield* conversation.entries(prelude);
      if (run === MAIN) file.callsRead = true;
      leafId = conversation.leafId;
    },
    isElsewhere: () => false,
  };
}

/** Links the runs of sub-agents to the calls that started them. Keeps one conversation and its sub-agents at a time. */
class SubAgents {
  readonly #siblings: Required<SiblingFiles>;
  #conversation: string | undefined;
  /** The conversation, and its sub-agents that were read before: a sub-agent can have sub-agents. */
  readonly #callers = new Map<string, ClaudeCodeFile>();

  constructor(siblings: Required<SiblingFiles>) {
    this.#siblings = siblings;
  }

  /** Registers a conversation whose sub-agents may follow. */
  enter(sessionId: string, file: ClaudeCodeFile): void {
    this.#turnTo(sessionId);
    this.#callers.set(sessionId, file);
  }

  /** Returns the session of a sub-agent that has its own file, with the metadata from the file next to it. */
  draftOf(file: ClaudeCodeFile, agentId: string): SessionDraft {
    const sessionId = file.facts.sessionId ?? "";
    const sourceId = agentSessionId(sessionId, agentId);
    this.#turnTo(sessionId);
    const about = this.#readAbout(file.source.path);
    const draft = draftOf({
      file,
      sourceId,
      prelude: preludeOf(about, sourceId),
      parent: () =>
        this.#callerOf(sessionId, file, {
          toolUseId: about["toolUseId"],
          agentId,
          prompt: promptIn(file.lines.table.length > 0 ? file.lineAt(0) : undefined),
        }),
    });
    this.#callers.set(sourceId, file);
    return draft;
  }

  #callerOf(sessionId: string, own: ClaudeCodeFile, run: CalledRun): ParentLink {
    if (!this.#callers.has(sessionId)) this.#openConversation(sessionId);
    for (const [callerId, caller] of this.#callers) {
      if (caller === own) continue;
      readCalls(caller);
      const row = caller.calls.callerOf(run);
      if (row >= 0) return { sessionId: callerId, entryId: caller.idOf(row), kind: "subagent" };
    }
    return { sessionId, entryId: null, kind: "subagent" };
  }

  /** Opens a conversation of which only the sub-agent is imported. */
  #openConversation(sessionId: string): void {
    const path = this.#siblings.files.find((file) => file.endsWith(`${sessionId}.jsonl`));
    const source = path === undefined ? undefined : this.#siblings.open(path);
    if (source) this.enter(sessionId, new ClaudeCodeFile(source, this.#siblings.scratch));
  }

  #turnTo(sessionId: string): void {
    if (sessionId === this.#conversation) return;
    for (const caller of this.#callers.values()) caller.close();
    this.#callers.clear();
    this.#conversation = sessionId;
  }

  #readAbout(path: string): Line {
    const file = this.#siblings.open(path.replace(/\.jsonl$/, ".meta.json"));
    const parsed = file ? parseLine(file.view.read(0, file.view.size)) : undefined;
    return parsed?.ok && isRecord(parsed.value) ? parsed.value : {};
  }
}

/**
 * Returns the id of a sub-agent's session: the conversation's id and the sub-agent's, which is unique only in its
 * conversation.
 */
function agentSessionId(sessionId: string, agentId: string): string {
  return `${sessionId}.agent-${agentId}`;
}

/** Reads a conversation only for its calls, unless they were read before. */
function readCalls(file: ClaudeCodeFile): void {
  if (file.callsRead) return;
  for (const _ of new Conversation(file, MAIN, new ImportIssues(), {}).entries([]));
  file.callsRead = true;
}

function preludeOf(about: Line, sourceId: string): UnplacedEntry[] {
  if (Object.keys(about).length === 0) return [];
  const { description } = about;
  const entry = (name: string, body: UnplacedEntry["body"]): UnplacedEntry => ({
    id: idFromText(`${sourceId}/${name}`),
    body,
  });
  return [
    entry("agent", { type: "custom", customType: "claude-code.agent", data: about }),
    ...(typeof description === "string" ? [entry("name", { type: "session_info", name: description })] : []),
  ];
}

function promptIn(line: Line | undefined): unknown {
  const message = line?.["message"];
  return isRecord(message) ? message["content"] : undefined;
}

/**
 * Parents of forked files. A fork by the library names its parent in each copied line. A fork by the command line has
 * the same first line as another file. Its original is the file that is named after the session of that line, or else
 * the oldest file.
 */
class Forks {
  readonly #siblings: Required<SiblingFiles>;
  /** Paths of the original files by the id of their first line. */
  #originals: Map<string, string> | undefined;

  constructor(siblings: Required<SiblingFiles>) {
    this.#siblings = siblings;
  }

  parentOf(file: ClaudeCodeFile): ParentLink | undefined {
    const { forks } = file.lines;
    // A continued session that has the id of its original names itself.
    if (forks.sessionId !== undefined && forks.sessionId !== sessionIdOf(file)) {
      const entryId = forks.lastRow < 0 ? null : file.entryIdOf(forks.lastRow);
      return { sessionId: forks.sessionId, entryId, kind: "fork" };
    }
    const original = this.#originalOf(file);
    if (!original) return undefined;
    const entryId = lastShared(file, original);
    original.close();
    return { sessionId: sessionIdOf(original), entryId, kind: "fork" };
  }

  #originalOf({ facts, source }: ClaudeCodeFile): ClaudeCodeFile | undefined {
    const { files } = this.#siblings;
    if (facts.rootId === undefined || !files.includes(source.path)) return undefined;
    this.#originals ??= this.#findOriginals();
    const original = this.#originals.get(facts.rootId);
    if (original === undefined || original === source.path) return undefined;
    const opened = this.#siblings.open(original);
    return opened && new ClaudeCodeFile(opened, this.#siblings.scratch);
  }

  #findOriginals(): Map<string, string> {
    const originals = new Map<string, string>();
    const named = new Set<string>();
    // Files are sorted, oldest first.
    for (const path of this.#siblings.files) {
      const source = this.#siblings.open(path);
      if (!source) continue;
      const { rootId, isSidechain, sessionId } = readSessionFacts(source.view);
      if (rootId === undefined || isSidechain || named.has(rootId)) continue;
      if (sessionId === sourceName(path)) named.add(rootId);
      else if (originals.has(rootId)) continue;
      originals.set(rootId, path);
    }
    return originals;
  }
}

/** Returns the id of the last line that both files have. */
function lastShared(file: ClaudeCodeFile, original: ClaudeCodeFile): string | null {
  const { table } = file.lines;
  const older = original.lines.table;
  for (let row = table.length - 1; row >= 0; row--) {
    if (!hasPlace(table.kind(row))) continue;
    const id = file.lineAt(row)?.["uuid"];
    if (typeof id === "string" && older.rowOf(id) >= 0) return file.entryIdOf(row);
  }
  return null;
}
