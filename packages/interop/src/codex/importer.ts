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
  keptTail,
  readCall,
  readCompacted,
  readReasoning,
  readSaid,
  readSettings,
  resultBody,
  settingsBodies,
  turnSettings,
  userParts,
} from "./blocks.ts";
import { type LogicalLine, logicalLines } from "./logical-lines.ts";
import {
  itemText,
  RolloutFile,
  RolloutLibrary,
  type RolloutLine,
  readRolloutLine,
  textOf,
} from "./rollout.ts";
import { ThreadHistory } from "./thread-history.ts";

/**
 * Reads rollouts of Codex (`~/.codex/sessions/YYYY/MM/DD/rollout-….jsonl`) of all versions. A file is read once, line
 * by line, with constant memory.
 */
export function codexImporter(siblings: SiblingFiles = NO_SIBLINGS): SessionImporter {
  const library = new RolloutLibrary(siblings);
  return {
    agent: "codex",
    recognises: (line) => readRolloutLine(line) !== undefined,
    *read(source): Generator<SessionDraft, void> {
      const file = new RolloutFile(source);
      yield draftOf(file, library, library.nameOf(file.threadId));
    },
  };
}

/**
 * Makes a session draft from a thread of Codex, up to the end of one of its files. The files of a thread make one
 * session.
 *
 * @param name name from outside the file
 */
function draftOf(file: RolloutFile, library: RolloutLibrary, name: string | undefined): SessionDraft {
  const { source, threadId: sourceId, meta } = file;
  const issues = new ImportIssues();
  let leafId: string | null | undefined;
  return {
    agent: "codex",
    sourceId,
    sessionId: sessionIdFromSource(sourceId),
    cwd: textOf(meta["cwd"]) ?? "",
    source,
    issues,
    get leafId() {
      return leafId;
    },
    header() {
      const { iso } = readTime(file.timestamp, NO_TIME);
      const parent = parentOf(file, library);
      return importedHeader(this, { timestamp: iso, version: meta["cli_version"], parent });
    },
    *entries(options = {}) {
      const lines = logicalLines(file, library, issues);
      const nameEntry = name === undefined ? undefined : { name, id: idFromText(`${sourceId}/name/${name}`) };
      leafId = yield* entriesOf(lines, library, issues, options, nameEntry);
    },
    // A thread that goes back continues in another file, with entries of the same session.
    isElsewhere: (id) =>
      library.othersOf(file).some((other) => {
        for (const entry of entriesOf(logicalLines(other, library), library))
          if (entry.id === id) return true;
        return false;
      }),
  };
}

/** Returns the parent of a thread: the origin of a fork, or the thread that started a sub-agent. */
function parentOf(file: RolloutFile, library: RolloutLibrary): ParentLink | undefined {
  const { meta, forkedFrom, threadId, origin } = file;
  const root = meta["session_id"];
  const isSubAgent = isRecord(meta["source"]) && "subagent" in meta["source"];
  if (isSubAgent && typeof root === "string" && root !== threadId)
    return { sessionId: root, entryId: null, kind: "subagent" };
  const sessionId = forkedFrom ?? origin?.sessionId;
  if (sessionId === undefined) return undefined;
  const isCopy = ({ isInherited, timestamp = "" }: LogicalLine): boolean =>
    isInherited || (origin !== undefined && timestamp <= origin.until);
  // A fork begins at the leaf after the last copied line.
  const copies = entriesOf(takeWhile(logicalLines(file, library), isCopy), library);
  let next = copies.next();
  while (!next.done) next = copies.next();
  return { sessionId, entryId: next.value, kind: "fork" };
}

function* takeWhile(
  lines: Iterable<LogicalLine>,
  isTaken: (line: LogicalLine) => boolean,
): Generator<LogicalLine, void> {
  for (const line of lines) {
    if (!isTaken(line)) return;
    yield line;
  }
}

/** Yields the entries of lines; returns the leaf. Each line is read together with the line after it. */
function* entriesOf(
  lines: Iterable<LogicalLine>,
  { scratch }: RolloutLibrary,
  issues = new ImportIssues(),
  options: DraftOptions = {},
  name?: { name: string; id: string },
): Generator<Entry, string | null> {
  const area = new ScratchArea(scratch);
  try {
    const history = new ThreadHistory(issues, options, area);
    let waiting: LogicalLine | undefined;
    for (const line of lines) {
      if (waiting) takeLine(history, waiting, line);
      yield* history.taken();
      waiting = line;
    }
    if (waiting) takeLine(history, waiting, undefined);
    history.end();
    if (name) history.name(name.name, name.id);
    yield* history.taken();
    return history.trail.leafId;
  } finally {
    area.close();
  }
}

type Fields = Record<string, unknown>;

type Take = (history: ThreadHistory, line: LogicalLine, next: LogicalLine | undefined) => void;

/** Items that are not part of a conversation. */
const STATE = new Set(["additional_tools", "configuration_update"]);

/** Events that no other line repeats; they are stored as state. */
const KEPT_EVENTS: ReadonlySet<string> = new Set(
  "turn_aborted error stream_error warning entered_review_mode exited_review_mode".split(" "),
);

const OPAQUE_SUMMARY =
  "The summary of a compaction can only be read by its provider; it is kept for that provider, and excerpts replace it here.";

const TAKE: ReadonlyMap<string, Take> = new Map<string, Take>([
  ["response_item", takeItem],
  ["event_msg", takeEvent],
  ["compacted", takeCompacted],
  ["turn_context", takeTurn],
  ["session_meta", takeHeader],
  ["token_usage_record", takeRecord],
]);

/** Known types of lines that are stored as state. */
const KNOWN_STATE: ReadonlySet<string> = new Set(
  `world_state retained_context inter_agent_communication inter_agent_communication_metadata
  dynamic_tools_updated realtime_item security_risk_score`.split(/\s+/),
);

function takeLine(history: ThreadHistory, line: LogicalLine, next: LogicalLine | undefined): void {
  history.begin(line);
  const take = TAKE.get(line.type);
  if (take) take(history, line, next);
  else {
    if (!KNOWN_STATE.has(line.type))
      history.note("unknown-type", "Lines of an unknown type are kept as state.");
    history.state(line.type, line.payload);
  }
}

function takeHeader(history: ThreadHistory, { type, payload }: LogicalLine): void {
  history.settings = readSettings(type, payload, history.settings);
  history.state("session_meta", payload);
}

function takeRecord(history: ThreadHistory, { payload }: LogicalLine): void {
  const billed = history.usage.readRecord(payload);
  if (billed) history.bill(billed);
  else history.note("repeats", "A `token_usage_record` is left out if it counts nothing.");
}

function takeItem(history: ThreadHistory, line: RolloutLine, next: LogicalLine | undefined): void {
  const { payload, metadata } = line;
  const type = String(payload["type"]);
  if (type === "message" && metadata["compaction_output"] === true) {
    // The summary as the model gave it. The compaction repeats it, and its usage is recorded there.
    history.aside("compaction_output", payload);
  } else if (type === "message") takeMessage(history, line, next);
  else if (type === "reasoning") history.answer(...readReasoning(payload));
  else if (type.endsWith("_output") && typeof payload["call_id"] === "string") takeOutput(history, payload);
  else if (STATE.has(type) || isOpaqueItem(payload)) history.state(type, payload);
  else if (type === "agent_message") takeAgentMessage(history, payload);
  else if (type.endsWith("_call")) {
    history.answer([readCall(payload, history.reading)]);
  } else {
    history.note("unknown-type", "Items of an unknown type are kept as state.");
    history.state(type, payload);
  }
}

function takeMessage(history: ThreadHistory, line: RolloutLine, next: LogicalLine | undefined): void {
  const { payload } = line;
  const { role, content } = payload;
  if (role === "assistant") {
    history.answer(contentBlocks({ content: readSaid(content, history.reading) }));
  } else if (role === "user") {
    const parts = userParts(line, next);
    for (const [at, part] of parts.entries()) {
      const name = at === parts.length - 1 ? undefined : `part/${at}`;
      history.write(
        part.injected === undefined
          ? userBody(history, part.content)
          : injectedBody(history, part.injected, part.content),
        name,
      );
      const text = itemText({ content: part.content });
      history.trail.remember([`user ${text}`]);
      if (part.injected === undefined) history.trail.beginTurn(text);
    }
  } else if (role === "developer" || role === "system") {
    history.write(injectedBody(history, role, content));
    history.trail.remember([`${role} ${itemText(payload)}`]);
  } else history.state("message", payload);
}

function userBody(history: ThreadHistory, content: unknown): EntryBody {
  const message = { role: "user", content: readSaid(content, history.reading), timestamp: history.time.ms };
  return { type: "message", message };
}

/** Returns a message of the agent itself, which the model read and no user typed. */
function injectedBody(history: ThreadHistory, name: string, content: unknown): EntryBody {
  return {
    type: "custom_message",
    customType: `codex.${name}`,
    content: readSaid(content, history.reading),
    display: false,
  };
}

/** Adds a message that this agent exchanged with another one. */
function takeAgentMessage(history: ThreadHistory, payload: Record<string, unknown>): void {
  const { type: _type, content, ...details } = payload;
  const text = itemText(payload);
  if (text === "") {
    history.state("agent_message", payload);
    return;
  }
  history.write({
    type: "custom_message",
    customType: "codex.agent_message",
    content: text,
    display: true,
    details,
  });
  history.trail.remember([`agent ${text}`]);
}

function takeOutput(history: ThreadHistory, payload: Record<string, unknown>): void {
  // The answer with its call may still be open.
  history.flush();
  const callId = String(payload["call_id"]);
  const toolName = history.toolNames.get(callId) ?? "";
  history.toolNames.delete(callId);
  history.write(resultBody(payload, toolName, history.time.ms, history.reading));
  history.trail.remember([`result ${callId}`]);
  history.trail.endRun();
}

/** Adds the entries of events for the user interface. Most events repeat other lines, and make no entry. */
function takeEvent(history: ThreadHistory, line: LogicalLine): void {
  const { payload } = line;
  const type = String(payload["type"]);
  if (type === "thread_rolled_back") {
    const turns = payload["num_turns"];
    const wanted = typeof turns === "number" && turns > 0 ? Math.floor(turns) : 0;
    if (history.rollBack(wanted) < wanted) history.note("rollback", TOO_FAR_BACK);
  } else if (type === "token_count") {
    const billed = history.usage.readCount(payload);
    if (billed) history.bill(billed);
    else history.note("repeats", "The event `token_count` is left out if it has nothing new.");
  } else if (type === "thread_name_updated" && typeof payload["thread_name"] === "string")
    history.name(payload["thread_name"]);
  else if (type === "thread_settings_applied") takeSettings(history, line);
  else if (KEPT_EVENTS.has(type)) history.state(type, payload);
  else {
    if (type === "task_started") history.trail.endRun();
    const message = `The event \`${shortName(type, "?")}\` is left out: it repeats other lines for the user interface.`;
    history.note("repeats", message);
  }
}

const TOO_FAR_BACK = "More turns were undone than the conversation has; it continues before its first turn.";

/** Adds an entry for each change of settings. */
function takeSettings(history: ThreadHistory, { type, payload }: LogicalLine): void {
  const before = history.settings;
  const after = readSettings(type, payload, before);
  const bodies = settingsBodies(before, after);
  // The open answer belongs to the settings before.
  if (bodies.length > 0) history.flush();
  history.settings = after;
  for (const [name, body] of bodies) history.write(body, name);
  if (type !== "turn_context" && bodies.length === 0)
    history.note("repeats", "The event `thread_settings_applied` is left out if it changes nothing.");
}

/** Adds the settings of a turn: model and effort, and the others as state if they differ from the previous turn's. */
function takeTurn(history: ThreadHistory, line: LogicalLine): void {
  const before = history.settings;
  takeSettings(history, line);
  const settings = turnSettings(line.payload);
  const turn = JSON.stringify(settings);
  if (turn === history.lastTurn) {
    if (settingsBodies(before, history.settings).length === 0)
      history.note("repeats", "A `turn_context` is left out if it repeats that of the turn before.");
    return;
  }
  history.lastTurn = turn;
  history.state("turn_context", settings);
}

/**
 * Adds a compaction. Codex names the kept messages by their text, not by their position. If they are the end of the
 * conversation, they become the kept tail; else they are repeated after the compaction, as in the line's
 * `replacement_history`.
 */
function takeCompacted(history: ThreadHistory, line: LogicalLine): void {
  history.flush();
  const { payload } = line;
  const { trail, id, settings } = history;
  const { summary, items, opaque } = readCompacted(payload);
  const kept =
    items ?? trail.users.map(({ text }): Fields => ({ type: "message", role: "user", content: text }));
  const keptCount = keptTail(kept, trail.said);
  const firstKept = keptCount > 0 ? trail.said.at(-keptCount)?.id : undefined;
  const usage = history.takeBill(payload["compaction_response_id"]);
  if (summary === undefined) history.note("opaque-summary", OPAQUE_SUMMARY);
  const { provider, model, thinkingLevel } = settings;
  history.write({
    type: "compaction",
    summary: summary ?? history.options.summaries?.get(id) ?? excerptSummary(payload, trail.users),
    firstKeptEntryId: firstKept ?? id,
    tokensBefore: history.contextTokens,
    details: {
      ...(model === undefined ? {} : { settings: { provider, modelId: model, thinkingLevel } }),
      codex: { provider, ...compactionDetails(payload, opaque) },
      ...(summary === undefined ? { opaqueSummary: true } : {}),
    },
    ...(usage ? { usage } : {}),
  });
  trail.forget(keptCount);
  if (firstKept !== undefined) return;
  for (const [at, item] of kept.entries()) {
    history.begin({ ...line, seed: `${line.seed}/kept/${at}` });
    takeItem(history, { ...line, payload: item, metadata: {} }, undefined);
  }
  history.flush();
  trail.endRun();
}
