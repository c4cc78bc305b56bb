import { isRecord } from "@espalier/session-tree";
import { ALONE, type SessionDraft, type SessionImporter, type Surroundings } from "../import-draft.ts";
import { mentions } from "../import-mentions.ts";
import { ScratchSpace } from "../scratch/scratch-space.ts";
import { ClaudeCodeDraft } from "./claude-code-draft.ts";
import { ClaudeCodeFile, sessionIdOf } from "./claude-code-file.ts";
import { Forks } from "./forks.ts";
import { agentSessionId, readCalls, SubAgents } from "./sub-agents.ts";

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
