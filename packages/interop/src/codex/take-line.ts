import { contentBlocks, type Entry, isRecord } from "@espalier/session-tree";
import { type EntryBody, entryOf } from "../import/entry.ts";
import { encryptedPart, readCall, readHosted, readSaid, reasoningBlocks, resultBody } from "./blocks.ts";
import { compactionDetails, excerptSummary, keptTail, readCompacted } from "./compacted.ts";
import type { LogicalLine } from "./logical-lines.ts";
import { itemText, type RolloutLine } from "./rollout.ts";
import { readSettings, settingsBodies, turnSettings } from "./settings.ts";
import type { ThreadHistory } from "./thread-history.ts";

type Take = (
  history: ThreadHistory,
  line: LogicalLine,
  next: LogicalLine | undefined,
) => Generator<Entry, void>;

/** What messages begin with that the agent itself puts in; old files do not mark them otherwise. */
const INJECTED: readonly [beginning: string, name: string][] = [
  ["<environment_context>", "environment_context"],
  ["# AGENTS.md instructions", "agents_md"],
  ["<user_instructions>", "user_instructions"],
  ["<permissions instructions>", "permissions"],
  ["<skills_instructions>", "skills"],
  ["<turn_aborted>", "turn_aborted"],
  ["<user_shell_command>", "user_shell_command"],
  ["<subagent_notification>", "subagent_notification"],
];

/** Items that are no part of a conversation, or that only the provider knows what to do with. */
const STATE = new Set([
  "compaction",
  "compaction_summary",
  "context_compaction",
  "additional_tools",
  "configuration_update",
]);

/** Events that say something of their own and are kept as state. */
const KEPT_EVENTS: ReadonlySet<string> = new Set([
  "turn_aborted",
  "error",
  "stream_error",
  "warning",
  "entered_review_mode",
  "exited_review_mode",
]);

const OPAQUE_SUMMARY =
  "The summary of a compaction can only be read by its provider; it is kept for that one, and excerpts stand in its place.";

const TAKE: ReadonlyMap<string, Take> = new Map<string, Take>([
  ["response_item", takeItem],
  ["event_msg", takeEvent],
  ["compacted", takeCompacted],
  ["turn_context", takeTurn],
  ["session_meta", takeHeader],
  ["token_usage_record", takeRecord],
]);

/** Types of lines that are kept as state, and are no surprise. */
const KNOWN_STATE: ReadonlySet<string> = new Set([
  "world_state",
  "retained_context",
  "inter_agent_communication",
  "inter_agent_communication_metadata",
  "dynamic_tools_updated",
  "realtime_item",
  "security_risk_score",
]);

/** The entries that a line becomes. */
export function* takeLine(
  history: ThreadHistory,
  line: LogicalLine,
  next: LogicalLine | undefined,
): Generator<Entry, void> {
  history.begin(line);
  const take = TAKE.get(line.type);
  if (take) {
    yield* take(history, line, next);
    return;
  }
  if (!KNOWN_STATE.has(line.type))
    history.note("unknown-type", "Lines of a type that is not known are kept as state.");
  yield* history.state(line.type, line.payload);
}

/** The header: where the thread was begun, and with which instructions. */
function* takeHeader(history: ThreadHistory, { type, payload }: LogicalLine): Generator<Entry, void> {
  history.settings = readSettings(type, payload, history.settings);
  yield* history.state("session_meta", payload);
}

function* takeRecord(history: ThreadHistory, { payload }: LogicalLine): Generator<Entry, void> {
  const billed = history.usage.readRecord(payload);
  if (billed) yield* history.bill(billed);
  else history.note("repeats", "A `token_usage_record` is left out where it counts nothing.");
}

/** What the model read or said. */
function* takeItem(
  history: ThreadHistory,
  line: RolloutLine,
  next: LogicalLine | undefined,
): Generator<Entry, void> {
  const { payload, metadata } = line;
  const type = String(payload["type"]);
  if (type === "message" && metadata["compaction_output"] === true) {
    // The summary, as the model gave it: the compaction says it again, and its bill waits for that.
    yield* history.aside("compaction_output", payload);
  } else if (type === "message") yield* takeMessage(history, line, next);
  else if (type === "reasoning") yield* history.answer(reasoningBlocks(payload), encryptedPart(payload));
  else if (type.endsWith("_output") && typeof payload["call_id"] === "string")
    yield* takeOutput(history, payload);
  else if (STATE.has(type)) yield* history.state(type, payload);
  else if (type === "agent_message") yield* takeAgentMessage(history, payload);
  else if (type.endsWith("_call")) {
    const block = readCall(payload, history.reading) ?? readHosted(payload, history.reading);
    yield* history.answer([block]);
  } else {
    history.note("unknown-type", "Items of a type that is not known are kept as state.");
    yield* history.state(type, payload);
  }
}

function* takeMessage(
  history: ThreadHistory,
  line: RolloutLine,
  next: LogicalLine | undefined,
): Generator<Entry, void> {
  const { payload } = line;
  const { role, content } = payload;
  if (role === "assistant") {
    yield* history.answer(contentBlocks({ content: readSaid(content, history.reading) }));
  } else if (role === "user") {
    const parts = userParts(line, next);
    for (const [at, part] of parts.entries()) {
      const name = at === parts.length - 1 ? undefined : `part/${at}`;
      yield* history.write(
        part.injected === undefined
          ? userBody(history, part.content)
          : injectedBody(history, part.injected, part.content),
        name,
      );
      history.trail.remember("user", itemText({ content: part.content }), part.injected === undefined);
      if (part.injected === undefined) history.trail.beginTurn();
    }
  } else if (role === "developer" || role === "system") {
    yield* history.write(injectedBody(history, String(role), content));
    history.trail.remember(String(role), itemText(payload));
  } else yield* history.state("message", payload);
}

function userBody(history: ThreadHistory, content: unknown): EntryBody {
  const message = { role: "user", content: readSaid(content, history.reading), timestamp: history.time.ms };
  return { type: "message", message };
}

/** What the agent put in: the model read it, and nobody typed it. */
function injectedBody(history: ThreadHistory, name: string, content: unknown): EntryBody {
  return {
    type: "custom_message",
    customType: `codex.${name}`,
    content: readSaid(content, history.reading),
    display: false,
  };
}

/** What another agent said to this one, or this one to another. */
function* takeAgentMessage(history: ThreadHistory, payload: Record<string, unknown>): Generator<Entry, void> {
  const { type: _type, content, ...details } = payload;
  const text = itemText(payload);
  if (text === "") {
    yield* history.state("agent_message", payload);
    return;
  }
  yield* history.write({
    type: "custom_message",
    customType: "codex.agent_message",
    content: text,
    display: true,
    details,
  });
  history.trail.remember("agent", text);
}

function* takeOutput(history: ThreadHistory, payload: Record<string, unknown>): Generator<Entry, void> {
  // The call it answers may still be waiting.
  yield* history.flush();
  const callId = String(payload["call_id"]);
  const toolName = history.toolNames.get(callId) ?? "";
  history.toolNames.delete(callId);
  yield* history.write(resultBody(payload, toolName, history.time.ms, history.reading));
  history.trail.remember("tool", "");
  history.trail.endRun();
}

/** What the user interface was told. Most of it stands in other lines; what does not is taken. */
function* takeEvent(history: ThreadHistory, line: LogicalLine): Generator<Entry, void> {
  const { payload } = line;
  const type = String(payload["type"]);
  if (type === "thread_rolled_back") yield* rollBack(history, payload["num_turns"]);
  else if (type === "token_count") {
    const billed = history.usage.readCount(payload);
    if (billed) yield* history.bill(billed);
    else history.note("repeats", "The event `token_count` is left out where it tells nothing new.");
  } else if (type === "thread_name_updated" && typeof payload["thread_name"] === "string")
    yield history.trail.grow(
      { type: "session_info", name: payload["thread_name"] },
      history.id,
      history.time,
    );
  else if (type === "thread_settings_applied") yield* takeSettings(history, line);
  else if (KEPT_EVENTS.has(type)) yield* history.state(type, payload);
  else {
    if (type === "task_started") history.trail.endRun();
    history.note("repeats", reasonToLeaveOutEvent(type));
  }
}

/** The leaf goes back; what was taken back stays as a branch. */
function* rollBack(history: ThreadHistory, turns: unknown): Generator<Entry, void> {
  yield* history.flush();
  yield* history.settle();
  const { trail, id, time } = history;
  const wanted = typeof turns === "number" && turns > 0 ? Math.floor(turns) : 0;
  if (trail.rollBack(wanted) < wanted)
    history.note(
      "rollback",
      "More turns were taken back than there are; the conversation goes on at the earliest.",
    );
  yield entryOf({ type: "leaf", targetId: trail.leafId }, id, trail.leafId, time.iso);
}

/** Settings that were applied: what changed becomes an entry. */
function* takeSettings(history: ThreadHistory, { type, payload }: LogicalLine): Generator<Entry, void> {
  const before = history.settings;
  const after = readSettings(type, payload, before);
  const bodies = settingsBodies(before, after);
  // The answer that is being given belongs to the settings before.
  if (bodies.length > 0) yield* history.flush();
  history.settings = after;
  for (const [name, body] of bodies) yield* history.write(body, name);
  if (type !== "turn_context" && bodies.length === 0)
    history.note("repeats", "The event `thread_settings_applied` is left out where it changes nothing.");
}

/** The settings of a turn; beyond model and effort they are state, where they differ from those of the turn before. */
function* takeTurn(history: ThreadHistory, line: LogicalLine): Generator<Entry, void> {
  const before = history.settings;
  yield* takeSettings(history, line);
  const settings = turnSettings(line.payload);
  const turn = JSON.stringify(settings);
  if (turn === history.lastTurn) {
    if (before === history.settings || settingsBodies(before, history.settings).length === 0)
      history.note("repeats", "A `turn_context` is left out where it repeats that of the turn before.");
    return;
  }
  history.lastTurn = turn;
  yield* history.state("turn_context", settings);
}

type Fields = Record<string, unknown>;

/**
 * A compaction. What it keeps is named by what it says, not by where it stands: when that is the end of what was said, it
 * is the kept tail; else the kept messages are said again behind the compaction, as its `replacement_history` has them.
 */
function* takeCompacted(history: ThreadHistory, line: LogicalLine): Generator<Entry, void> {
  yield* history.flush();
  const { payload } = line;
  const { trail, id, settings } = history;
  const { summary, items, opaque } = readCompacted(payload);
  const kept =
    items ?? trail.users.map(({ text }): Fields => ({ type: "message", role: "user", content: text }));
  const firstKept = keptTail(kept, trail.said);
  const usage = history.takeBill(payload["compaction_response_id"]);
  if (summary === undefined) history.note("opaque-summary", OPAQUE_SUMMARY);
  const { provider, model, thinkingLevel } = settings;
  yield* history.write({
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
  trail.forget(firstKept === undefined ? 0 : kept.length);
  if (firstKept !== undefined) return;
  for (const [at, item] of kept.entries()) {
    history.begin({ ...line, seed: `${line.seed}/kept/${at}` });
    yield* takeItem(history, { ...line, payload: item, metadata: {} }, undefined);
  }
  yield* history.flush();
  trail.endRun();
}

/** A part of a user message: what the user said, or what the agent put in, by the name of what it is. */
interface UserPart {
  /** Undefined for what the user said. */
  injected: string | undefined;
  content: unknown;
}

/**
 * Tells what the user said from what the agent put into a message of the user's role. New files say it for each part;
 * in old ones it is known by its beginning, unless the event that tells the user interface of a prompt repeats it.
 *
 * @param next the line behind it
 */
function userParts({ payload }: RolloutLine, next: RolloutLine | undefined): UserPart[] {
  const { content } = payload;
  const kinds = partKinds(payload);
  if (!kinds || !Array.isArray(content)) {
    const text = itemText(payload);
    return [{ injected: isPrompt(next, text) ? undefined : injectedBy(text), content }];
  }
  const parts: { injected: string | undefined; content: unknown[] }[] = [];
  for (const [at, part] of content.entries()) {
    const injected = injectedKind(kinds[at], part);
    const last = parts.at(-1);
    if (last && last.injected === injected) last.content.push(part);
    else parts.push({ injected, content: [part] });
  }
  return parts;
}

/** The name of what a text is that the agent put in; undefined for any other text. */
function injectedBy(text: string): string | undefined {
  const start = text.trimStart();
  return INJECTED.find(([beginning]) => start.startsWith(beginning))?.[1];
}

function partKinds(payload: Record<string, unknown>): unknown[] | undefined {
  const passed = payload["internal_chat_message_metadata_passthrough"];
  const kinds = isRecord(passed) ? passed["content_item_kinds"] : undefined;
  return Array.isArray(kinds) && kinds.length > 0 ? kinds : undefined;
}

function injectedKind(kind: unknown, part: unknown): string | undefined {
  if (typeof kind === "string" && kind.startsWith("user.")) return undefined;
  if (typeof kind !== "string" || kind === "unknown") return injectedBy(itemText({ content: [part] }));
  return kind.replace(/[^\w.-]+/g, "-").slice(0, 64);
}

function isPrompt(next: RolloutLine | undefined, text: string): boolean {
  return (
    next?.type === "event_msg" && next.payload["type"] === "user_message" && next.payload["message"] === text
  );
}

/** Why any other event is left out, as a sentence. */
function reasonToLeaveOutEvent(type: string): string {
  const name = type.replace(/[^\w.-]+/g, "?").slice(0, 64);
  return `The event \`${name}\` is left out: it tells the user interface what stands in other lines.`;
}
