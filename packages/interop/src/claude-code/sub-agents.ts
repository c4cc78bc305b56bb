import { parseLine } from "@espalier/jsonl-stream";
import { isRecord, type ParentLink } from "@espalier/session-tree";
import type { Surroundings } from "../import-draft.ts";
import { idFromText } from "../import-ids.ts";
import { ImportIssues } from "../import-issue.ts";
import type { ScratchSpace } from "../scratch/scratch-space.ts";
import { ClaudeCodeDraft } from "./claude-code-draft.ts";
import { ClaudeCodeFile } from "./claude-code-file.ts";
import { Conversation } from "./conversation.ts";
import type { Line } from "./hearing.ts";
import { MAIN } from "./sidechains.ts";
import type { Shoot } from "./trunk.ts";

/** Links the runs of sub-agents to the calls that began them. Remembers one conversation and its sub-agents at a time. */
export class SubAgents {
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
export function agentSessionId(sessionId: string, agentId: string): string {
  return `${sessionId}.agent-${agentId}`;
}

/** Reads a conversation for its calls alone, unless that was done. */
export function readCalls(file: ClaudeCodeFile): void {
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
