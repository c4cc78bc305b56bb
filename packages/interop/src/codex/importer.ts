// Separate from local-agents.ts: each agent has a folder of its own.
import { contentBlocks, type Entry, isRecord, type ParentLink } from "@espalier/session-tree";
import {
  type DraftOptions,
  importedHeader,
  NO_SIBLINGS,
  type SessionDraft,
  type SessionImporter,
  type SiblingFiles,
} from "../import/draft.ts";
import {
  type EntryBody,
  idFromText,
  NO_TIME,
  readTime,
  sessionIdFromSource,
  shortName,
} from "../import/entry.ts";
import { ImportIssues } from "../import/issue.ts";
import { ScratchArea } from "../scratch/space.ts";
import {
  compactionDetails,
  excerptSummary,
  isOpaqueItem,
  itemKeys,
  keptTail,
  readCompacted,
} from "./compaction.ts";
import {
  readCall,
  readReasoning,
  readSaid,
  readSettings,
  resultBody,
  turnSettings,
  userParts,
} from "./items.ts";
import { type LogicalLine, logicalLines } from "./logical-lines.ts";
import {
  itemText,
  openRollout,
  type RolloutFile,
  RolloutLibrary,
  readRolloutLine,
  textOf,
} from "./rollout.ts";
import { Thread } from "./thread.ts";

const AGENT = "codex";

/**
 * Reads rollouts of Codex (`~/.codex/sessions/YYYY/MM/DD/rollout-….jsonl`) of all versions. A file is read once, line
 * by line, with constant memory.
 */
export function codexImporter(siblings: SiblingFiles = NO_SIBLINGS): SessionImporter {
  const library = new RolloutLibrary(siblings);
  return {
    agent: AGENT,
    recognises: (line) => readRolloutLine(line) !== undefined,
    *read(source): Generator<SessionDraft, void> {
      yield draftOf(openRollout(source), library);
    },
  };
}

/**
 * Makes a session draft from a thread of Codex, up to the end of one of its files. The files of a thread make one
 * session.
 */
function draftOf(file: RolloutFile, library: RolloutLibrary): SessionDraft {
  const { threadId: sourceId, meta, source } = file;
  const issues = new ImportIssues();
  let leafId: string | null | undefined;
  return {
    agent: AGENT,
    sourceId,
    sessionId: sessionIdFromSource(sourceId),
    cwd: textOf(meta["cwd"]) ?? "",
    source,
    issues,
    get leafId() {
      return leafId;
    },
    header() {
      const { iso: timestamp } = readTime(file.timestamp, NO_TIME);
      return importedHeader(this, {
        timestamp,
        version: meta["cli_version"],
        parent: parentOf(file, library),
      });
    },
    *entries(options = {}) {
      leafId = yield* entriesOf(file, library, issues, options);
    },
    // A thread that goes back continues in another file, with entries of the same session.
    isElsewhere: (id) =>
      library.othersOf(file).some((other) => {
        for (const entry of entriesOf(other, library)) if (entry.id === id) return true;
        return false;
      }),
  };
}

/** Returns the parent of a thread: the origin of a fork, or the thread that started a sub-agent. */
function parentOf(file: RolloutFile, library: RolloutLibrary): ParentLink | undefined {
  const { meta, forkedFrom, threadId, origin } = file;
  const { session_id: root, source } = meta;
  if (isRecord(source) && "subagent" in source && typeof root === "string" && root !== threadId)
    return { sessionId: root, entryId: null, kind: "subagent" };
  const sessionId = forkedFrom ?? origin?.sessionId;
  if (sessionId === undefined) return undefined;
  // A fork begins at the leaf after the last copied line.
  const isCopy = ({ isInherited, timestamp = "" }: LogicalLine): boolean =>
    isInherited || (origin !== undefined && timestamp <= origin.until);
  const copies = entriesOf(file, library, new ImportIssues(), {}, isCopy);
  let next = copies.next();
  while (!next.done) next = copies.next();
  return { sessionId, entryId: next.value, kind: "fork" };
}

/**
 * Yields the entries of a file; returns the leaf. Each line is read together with the line after it.
 *
 * @param isWanted ends before the first line for which it returns false
 */
function* entriesOf(
  file: RolloutFile,
  library: RolloutLibrary,
  issues = new ImportIssues(),
  options: DraftOptions = {},
  isWanted = (_line: LogicalLine): boolean => true,
): Generator<Entry, string | null> {
  const area = new ScratchArea(library.scratch);
  const thread = new Thread(area, issues, options);
  try {
    let line: LogicalLine | undefined;
    for (const next of logicalLines(file, library, issues)) {
      if (line) takeLine(thread, line, next);
      yield* thread.taken();
      line = isWanted(next) ? next : undefined;
      if (!line) break;
    }
    if (line) takeLine(thread, line, undefined);
    thread.end();
    const name = library.nameOf(file.threadId);
    if (name !== undefined) thread.name(name, idFromText(`${file.threadId}/name/${name}`));
    yield* thread.taken();
    return thread.leafId;
  } finally {
    area.close();
  }
}

type Fields = Record<string, unknown>;

/** Known types of lines that are stored as state. */
const KNOWN_STATE: ReadonlySet<string> = new Set(
  `world_state retained_context inter_agent_communication inter_agent_communication_metadata dynamic_tools_updated
  realtime_item security_risk_score`.split(/\s+/),
);

/** Adds the entries of a line. */
function takeLine(thread: Thread, line: LogicalLine, next: LogicalLine | undefined): void {
  const { type, payload } = line;
  thread.begin(line);
  if (type === "response_item") takeItem(thread, line, next);
  else if (type === "event_msg") takeEvent(thread, payload);
  else if (type === "compacted") takeCompacted(thread, line);
  else if (type === "turn_context") takeTurn(thread, payload);
  else if (type === "session_meta") takeHeader(thread, payload);
  else if (type === "token_usage_record") {
    if (!thread.billRecord(payload))
      thread.note("repeats", "A `token_usage_record` is left out if it counts nothing.");
  } else {
    if (!KNOWN_STATE.has(type)) thread.note("unknown-type", "Lines of an unknown type are kept as state.");
    thread.state(type, payload);
  }
}

function takeHeader(thread: Thread, payload: Fields): void {
  // The open answer belongs to the settings before.
  thread.state("session_meta", payload);
  const { settings } = thread;
  thread.settings = { ...settings, provider: textOf(payload["model_provider"]) ?? settings.provider };
}

/** Items that are not part of a conversation. */
const STATE = new Set(["additional_tools", "configuration_update"]);

function takeItem(thread: Thread, line: LogicalLine, next: LogicalLine | undefined): void {
  const { payload, metadata } = line;
  const type = String(payload["type"]);
  // The summary as the model gave it. The compaction repeats it, and its usage is recorded there.
  if (type === "message" && metadata["compaction_output"] === true)
    thread.aside("compaction_output", payload);
  else if (type === "message") takeMessage(thread, line, next);
  else if (type === "reasoning") thread.answer(payload, ...readReasoning(payload));
  else if (type.endsWith("_output") && typeof payload["call_id"] === "string") takeResult(thread, payload);
  else if (STATE.has(type) || isOpaqueItem(payload)) thread.state(type, payload);
  else if (type === "agent_message") takeAgentMessage(thread, payload);
  else if (type.endsWith("_call")) thread.answer(payload, [readCall(payload, thread.reading)]);
  else {
    thread.note("unknown-type", "Items of an unknown type are kept as state.");
    thread.state(type, payload);
  }
}

function takeMessage(thread: Thread, line: LogicalLine, next: LogicalLine | undefined): void {
  const { payload } = line;
  const { role, content } = payload;
  if (role === "assistant") {
    thread.answer(payload, contentBlocks({ content: readSaid(content, thread.reading) }));
  } else if (role === "user") {
    const parts = userParts(line, next);
    for (const [at, { injected, content: part }] of parts.entries()) {
      const name = at === parts.length - 1 ? undefined : `part/${at}`;
      const text = itemText({ content: part });
      const body = injected === undefined ? userBody(thread, part) : injectedBody(thread, injected, part);
      thread.say(body, [`user ${text}`], name);
      if (injected === undefined) thread.beginTurn(text);
    }
  } else if (role === "developer" || role === "system")
    thread.say(injectedBody(thread, role, content), itemKeys(payload));
  else thread.state("message", payload);
}

function userBody(thread: Thread, content: unknown): EntryBody {
  const message = { role: "user", content: readSaid(content, thread.reading), timestamp: thread.time.ms };
  return { type: "message", message };
}

/** Returns a message of the agent itself, which the model read and no user typed. */
function injectedBody(thread: Thread, name: string, content: unknown): EntryBody {
  return {
    type: "custom_message",
    customType: `codex.${name}`,
    content: readSaid(content, thread.reading),
    display: false,
  };
}

/** Adds a message that this agent exchanged with another one. */
function takeAgentMessage(thread: Thread, payload: Fields): void {
  const { type: _type, content: _content, ...details } = payload;
  const content = itemText(payload);
  const body = { type: "custom_message", customType: "codex.agent_message", content, display: true, details };
  if (content === "") thread.state("agent_message", payload);
  else thread.say(body, itemKeys(payload));
}

function takeResult(thread: Thread, payload: Fields): void {
  // The answer with its call may still be open.
  thread.flush();
  const callId = String(payload["call_id"]);
  const toolName = thread.toolNames.get(callId) ?? "";
  thread.toolNames.delete(callId);
  thread.say(resultBody(payload, toolName, thread.time.ms, thread.reading), itemKeys(payload));
  thread.endRun();
}

/** Events that no other line repeats; they are stored as state. */
const KEPT_EVENTS: ReadonlySet<string> = new Set(
  "turn_aborted error stream_error warning entered_review_mode exited_review_mode".split(" "),
);

/** Adds the entries of events for the user interface. Most events repeat other lines, and make no entry. */
function takeEvent(thread: Thread, payload: Fields): void {
  const type = String(payload["type"]);
  if (type === "thread_rolled_back") {
    const { num_turns: turns } = payload;
    const wanted = typeof turns === "number" && turns > 0 ? Math.floor(turns) : 0;
    if (thread.rollBack(wanted) < wanted) thread.note("rollback", TOO_FAR_BACK);
  } else if (type === "token_count") {
    if (!thread.billCount(payload))
      thread.note("repeats", "The event `token_count` is left out if it has nothing new.");
  } else if (type === "thread_name_updated" && typeof payload["thread_name"] === "string")
    thread.name(payload["thread_name"]);
  else if (type === "thread_settings_applied") {
    if (!takeSettings(thread, payload))
      thread.note("repeats", "The event `thread_settings_applied` is left out if it changes nothing.");
  } else if (KEPT_EVENTS.has(type)) thread.state(type, payload);
  else {
    if (type === "task_started") thread.endRun();
    const message = `The event \`${shortName(type, "?")}\` is left out: it repeats other lines for the user interface.`;
    thread.note("repeats", message);
  }
}

const TOO_FAR_BACK = "More turns were undone than the conversation has; it continues before its first turn.";

/** Adds an entry for each change of settings; returns whether there is one. */
function takeSettings(thread: Thread, payload: Fields): boolean {
  const before = thread.settings;
  const after = readSettings(payload, before);
  const { provider, model: modelId, thinkingLevel } = after;
  const isOtherModel = modelId !== undefined && (modelId !== before.model || provider !== before.provider);
  const isOtherLevel = thinkingLevel !== before.thinkingLevel;
  // The open answer belongs to the settings before.
  if (isOtherModel || isOtherLevel) thread.flush();
  thread.settings = after;
  if (isOtherModel) thread.write({ type: "model_change", provider, modelId }, "model");
  if (isOtherLevel) thread.write({ type: "thinking_level_change", thinkingLevel }, "thinking");
  return isOtherModel || isOtherLevel;
}

/** Adds the settings of a turn: model and effort, and the others as state if they differ from the previous turn's. */
function takeTurn(thread: Thread, payload: Fields): void {
  const isChanged = takeSettings(thread, payload);
  const settings = turnSettings(payload);
  const turn = JSON.stringify(settings);
  if (turn !== thread.lastTurn) thread.state("turn_context", settings);
  else if (!isChanged)
    thread.note("repeats", "A `turn_context` is left out if it repeats that of the turn before.");
  thread.lastTurn = turn;
}

const OPAQUE_SUMMARY =
  "The summary of a compaction can only be read by its provider; it is kept for that provider, and excerpts replace it here.";

/**
 * Adds a compaction. Codex names the kept messages by their text, not by their position. If they are the end of the
 * conversation, they become the kept tail; else they are repeated after the compaction, as in the line's
 * `replacement_history`.
 */
function takeCompacted(thread: Thread, line: LogicalLine): void {
  thread.flush();
  const { payload } = line;
  const { id, said, prompts } = thread;
  const { provider, model, thinkingLevel } = thread.settings;
  const { summary, items, opaque } = readCompacted(payload);
  const kept = items ?? prompts.map(({ text }) => ({ type: "message", role: "user", content: text }));
  const tail = keptTail(kept, said);
  const usage = thread.takeBill(payload["compaction_response_id"]);
  if (summary === undefined) thread.note("opaque-summary", OPAQUE_SUMMARY);
  thread.write({
    type: "compaction",
    summary: summary ?? thread.options.summaries?.get(id) ?? excerptSummary(payload, prompts),
    firstKeptEntryId: tail > 0 ? said.at(-tail)!.id : id,
    tokensBefore: thread.contextTokens,
    details: {
      ...(model === undefined ? {} : { settings: { provider, modelId: model, thinkingLevel } }),
      codex: { provider, ...compactionDetails(payload, opaque) },
      ...(summary === undefined ? { opaqueSummary: true } : {}),
    },
    ...(usage ? { usage } : {}),
  });
  thread.forget(tail);
  if (tail > 0) return;
  for (const [at, item] of kept.entries()) {
    thread.begin({ ...line, seed: `${line.seed}/kept/${at}` });
    takeItem(thread, { ...line, payload: item, metadata: {} }, undefined);
  }
  thread.flush();
  thread.endRun();
}
