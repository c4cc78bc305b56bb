import type { Entry } from "@espalier/session-tree";
import { contentBlocks } from "@espalier/session-tree";
import type { EntryBody } from "../import-entry.ts";
import { readCall, readHosted, readSaid, resultBody } from "./item-blocks.ts";
import type { LogicalLine } from "./logical-line.ts";
import { encryptedPart, reasoningBlocks } from "./open-answer.ts";
import { itemText, type RolloutLine } from "./rollout-line.ts";
import type { ThreadHistory } from "./thread-history.ts";
import { userParts } from "./user-parts.ts";

/** Items that are no part of a conversation, or that only the provider knows what to do with. */
const STATE = new Set([
  "compaction",
  "compaction_summary",
  "context_compaction",
  "additional_tools",
  "configuration_update",
]);

/** What the model read or said. */
export function* takeItem(
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
