import { parseLine } from "@espalier/jsonl-stream";
import {
  type Entry,
  FORMAT_VERSION,
  isRecord,
  type ParentLink,
  type SessionHeader,
} from "@espalier/session-tree";
import {
  ALONE,
  type DraftOptions,
  type SessionDraft,
  type SessionImporter,
  type SourceFile,
  type Surroundings,
} from "../import/draft.ts";
import { idFromText, mentions, sessionIdFromSource } from "../import/entry.ts";
import { ImportIssues } from "../import/issue.ts";
import { ScratchSpace } from "../scratch/space.ts";
import { Conversation, type Shoot } from "./conversation.ts";
import { ClaudeCodeFile, sessionIdOf } from "./file.ts";
import { Forks } from "./forks.ts";
import type { Line } from "./line-facts.ts";
import { MAIN } from "./places.ts";

/**
 * Reads sessions of Claude Code (`~/.claude/projects/<folder>/<session>.jsonl`, sub-agents in `<session>/subagents`).
 *
 * A file is read twice: once for where each line belongs, which is kept in the scratch space, once for what it says, which
 * is not.
 */
export function claudeCodeImporter(surroundings: Surroundings = ALONE): SessionImporter {
  const { scratch = new ScratchSpace() } = surroundings;
  const forks = new Forks(surroundings, scratch);
  const agents = new SubAgents(surroundings, scratch);
  return {
    agent: "claude-code",
    recognises,
    *read(source): Generator<SessionDraft, void> {
      const file = new ClaudeCodeFile(source, scratch);
      const { agentId, isSidechain } = file.facts;
      if (isSidechain && agentId !== undefined) {
        yield agents.draftOf(file, agentId);
        file.forgetLines();
        return;
      }
      const sourceId = sessionIdOf(file);
      agents.enter(sourceId, file);
      yield new ClaudeCodeDraft({ file, sourceId, parent: () => forks.parentOf(file) });
      // Where the lines were read anyway they tell; else a search does, which costs less.
      if (file.callsRead || mentions(source.view, /"isSidechain":\s*true/)) yield* runsWithin(file, sourceId);
      file.forgetLines();
    },
  };
}

/** Every line has a type, and names its session or has an id; those of other agents have an envelope. */
function recognises(line: unknown): boolean {
  if (!isRecord(line) || typeof line["type"] !== "string" || line["type"] === "session" || "payload" in line)
    return false;
  return ["sessionId", "uuid", "parentUuid", "leafUuid"].some((field) => field in line);
}

/** The runs of sub-agents that old versions wrote between the lines of a conversation. */
function* runsWithin(file: ClaudeCodeFile, sessionId: string): Generator<SessionDraft, void> {
  const taken = new Set<string>();
  for (const run of file.runs.all()) {
    const line = file.lineAt(run) ?? {};
    const { agentId, message } = line;
    const name = typeof agentId === "string" && !taken.has(agentId) ? agentId : file.idOf(run, line);
    taken.add(name);
    const prompt = isRecord(message) ? message["content"] : undefined;
    yield new ClaudeCodeDraft({
      file,
      run,
      sourceId: agentSessionId(sessionId, name),
      parent: () => {
        readCalls(file);
        const above = file.lines.table.parent(run);
        const caller = file.calls.callerOf({ agentId, prompt });
        const entryId = caller >= 0 ? file.idOf(caller) : above < 0 ? null : file.entryIdOf(above);
        return { sessionId, entryId, kind: "subagent" };
      },
    });
  }
}

/** What a draft is made of. */
interface DraftParts {
  file: ClaudeCodeFile;
  sourceId: string;
  /** The row its run begins with. */
  run?: number;
  /** Asked for when the header is made. */
  parent?: () => ParentLink | undefined;
  prelude?: readonly Shoot[];
}

/** A session of Claude Code: a conversation, or the run of a sub-agent. */
class ClaudeCodeDraft implements SessionDraft {
  readonly agent = "claude-code";
  readonly sourceId: string;
  readonly issues: ImportIssues;
  leafId: string | null | undefined;
  readonly #parts: DraftParts;

  constructor(parts: DraftParts) {
    this.#parts = parts;
    this.sourceId = parts.sourceId;
    this.issues = parts.run === undefined ? parts.file.issues : new ImportIssues();
  }

  get sessionId(): string {
    return sessionIdFromSource(this.sourceId);
  }

  get cwd(): string {
    return this.#parts.file.facts.cwd;
  }

  get source(): SourceFile {
    return this.#parts.file.source;
  }

  get lines(): number {
    const { file, run } = this.#parts;
    if (run !== undefined) return file.runs.sizeOf(run);
    let lines = file.lines.count;
    for (const beside of file.runs.all()) lines -= file.runs.sizeOf(beside);
    return lines;
  }

  header(): SessionHeader {
    const { file, parent } = this.#parts;
    const { version, time } = file.facts;
    const link = parent?.();
    return {
      type: "session",
      version: FORMAT_VERSION,
      id: this.sessionId,
      timestamp: time.iso,
      cwd: this.cwd,
      ...(link ? { parent: link } : {}),
      importedFrom: {
        agent: this.agent,
        ...(version === undefined ? {} : { version }),
        id: this.sourceId,
        digest: file.source.digest(),
      },
    };
  }

  *entries(options: DraftOptions = {}): Generator<Entry, void> {
    const { file, run = MAIN, prelude = [] } = this.#parts;
    const conversation = new Conversation(file, run, this.issues, options);
    yield* conversation.entries(prelude);
    if (run === MAIN) file.callsRead = true;
    this.leafId = conversation.leafId;
  }

  isElsewhere(): boolean {
    return false;
  }
}

/** Links the runs of sub-agents to the calls that began them. Remembers one conversation and its sub-agents at a time. */
class SubAgents {
  readonly #surroundings: Surroundings;
  readonly #scratch: ScratchSpace;
  #conversation: string | undefined;
  /** The conversation and those of its sub-agents that were read before: a sub-agent can have sub-agents. */
  readonly #callers = new Map<string, ClaudeCodeFile>();

  constructor(surroundings: Surroundings, scratch: ScratchSpace) {
    this.#surroundings = surroundings;
    this.#scratch = scratch;
  }

  /** Tells of a conversation whose sub-agents may follow. */
  enter(sessionId: string, file: ClaudeCodeFile): void {
    this.#turnTo(sessionId);
    this.#callers.set(sessionId, file);
  }

  /** The session of a sub-agent that has a file of its own, with what is written of it beside the file. */
  draftOf(file: ClaudeCodeFile, agentId: string): ClaudeCodeDraft {
    const sessionId = file.facts.sessionId ?? "";
    const sourceId = agentSessionId(sessionId, agentId);
    this.#turnTo(sessionId);
    const about = this.#readAbout(file.source.path);
    const draft = new ClaudeCodeDraft({
      file,
      sourceId,
      prelude: preludeOf(about, sourceId),
      parent: () =>
        this.#callerOf(sessionId, file, {
          toolUseId: about["toolUseId"],
          agentId,
          prompt: firstPrompt(file),
        }),
    });
    this.#callers.set(sourceId, file);
    return draft;
  }

  #callerOf(
    sessionId: string,
    own: ClaudeCodeFile,
    run: Parameters<ClaudeCodeFile["calls"]["callerOf"]>[0],
  ): ParentLink {
    if (!this.#callers.has(sessionId)) this.#openConversation(sessionId);
    for (const [callerId, caller] of this.#callers) {
      if (caller === own) continue;
      readCalls(caller);
      const row = caller.calls.callerOf(run);
      if (row >= 0) return { sessionId: callerId, entryId: caller.idOf(row), kind: "subagent" };
    }
    return { sessionId, entryId: null, kind: "subagent" };
  }

  /** Nobody told of it: only the sub-agent was asked for. */
  #openConversation(sessionId: string): void {
    const path = this.#surroundings.files.find((file) => file.endsWith(`${sessionId}.jsonl`));
    const source = path === undefined ? undefined : this.#surroundings.open(path);
    if (source) this.enter(sessionId, new ClaudeCodeFile(source, this.#scratch));
  }

  #turnTo(sessionId: string): void {
    if (sessionId === this.#conversation) return;
    for (const caller of this.#callers.values()) caller.close();
    this.#callers.clear();
    this.#conversation = sessionId;
  }

  #readAbout(path: string): Line {
    const file = this.#surroundings.open(path.replace(/\.jsonl$/, ".meta.json"));
    const parsed = file ? parseLine(file.view.read(0, file.view.size)) : undefined;
    return parsed?.ok && isRecord(parsed.value) ? parsed.value : {};
  }
}

/** The id of a sub-agent's session: sub-agents are numbered within their conversation. */
function agentSessionId(sessionId: string, agentId: string): string {
  return `${sessionId}.agent-${agentId}`;
}

/** Reads a conversation for its calls alone, unless that was done. */
function readCalls(file: ClaudeCodeFile): void {
  if (file.callsRead) return;
  for (const _ of new Conversation(file, MAIN, new ImportIssues(), {}).entries([]));
  file.callsRead = true;
}

function preludeOf(about: Line, sourceId: string): Shoot[] {
  if (Object.keys(about).length === 0) return [];
  const { description } = about;
  const shoot = (name: string, body: Shoot["body"]): Shoot => ({
    id: idFromText(`${sourceId}/${name}`),
    body,
  });
  return [
    shoot("agent", { type: "custom", customType: "claude-code.agent", data: about }),
    ...(typeof description === "string" ? [shoot("name", { type: "session_info", name: description })] : []),
  ];
}

function firstPrompt(file: ClaudeCodeFile): unknown {
  const message = file.lines.table.length > 0 ? file.lineAt(0)?.["message"] : undefined;
  return isRecord(message) ? message["content"] : undefined;
}
