import { parseLine } from "@espalier/jsonl-stream";
import type { ParentLink } from "@espalier/session-tree";
import { isRecord } from "../formats/json-record.ts";
import type { Surroundings } from "../import-draft.ts";
import { idFromText } from "../import-ids.ts";
import { ImportIssues } from "../import-issue.ts";
import { ClaudeCodeDraft } from "./claude-code-draft.ts";
import { ClaudeCodeFile } from "./claude-code-file.ts";
import { Conversation } from "./conversation.ts";
import type { Line } from "./hearing.ts";
import { MAIN } from "./sidechains.ts";
import type { Shoot } from "./trunk.ts";

/** Links the runs of sub-agents to the calls that began them. Remembers one conversation and its sub-agents at a time. */
export class SubAgents {
  readonly #surroundings: Surroundings;
  #conversation: string | undefined;
  /** The conversation and those of its sub-agents that were read before: a sub-agent can have sub-agents. */
  readonly #callers = new Map<string, ClaudeCodeFile>();

  constructor(surroundings: Surroundings) {
    this.#surroundings = surroundings;
  }

  /** Tells of a conversation whose sub-agents may follow. */
  enter(sessionId: string, file: ClaudeCodeFile): void {
    if (sessionId !== this.#conversation) this.#callers.clear();
    this.#conversation = sessionId;
    this.#callers.set(sessionId, file);
  }

  /** The session of a sub-agent that has a file of its own, with what is written of it beside the file. */
  draftOf(file: ClaudeCodeFile, agentId: string): ClaudeCodeDraft {
    const sessionId = file.facts.sessionId ?? "";
    const sourceId = agentSessionId(sessionId, agentId);
    const about = this.#readAbout(file.source.path);
    const draft = new ClaudeCodeDraft({
      file,
      sourceId,
      prelude: preludeOf(about, sourceId),
      parent: () =>
        this.#callerOf(sessionId, { toolUseId: about["toolUseId"], agentId, prompt: firstPrompt(file) }),
    });
    this.#callers.set(sourceId, file);
    return draft;
  }

  #callerOf(sessionId: string, run: Parameters<ClaudeCodeFile["calls"]["callerOf"]>[0]): ParentLink {
    for (const [callerId, caller] of this.#callersOf(sessionId)) {
      readCalls(caller);
      const entryId = caller.calls.callerOf(run);
      if (entryId !== undefined) return { sessionId: callerId, entryId, kind: "subagent" };
    }
    return { sessionId, entryId: null, kind: "subagent" };
  }

  /** The conversation is opened when nobody told of it: only the sub-agent was asked for. */
  #callersOf(sessionId: string): Iterable<[string, ClaudeCodeFile]> {
    if (sessionId !== this.#conversation) {
      const path = this.#surroundings.files.find((file) => file.endsWith(`${sessionId}.jsonl`));
      const source = path === undefined ? undefined : this.#surroundings.open(path);
      if (!source) return [];
      this.enter(sessionId, new ClaudeCodeFile(source));
    }
    return this.#callers;
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
