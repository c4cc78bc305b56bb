import {
  sessionBeforeFork,
  sessionBeforeTree,
  sessionFork,
  sessionNavigate,
  sessionTree,
} from "@espalier/branch-summary";
import { sessionBeforeCompact, sessionCompact, sessionCompactFailed } from "@espalier/compaction";
import { notifyHook, transformHook } from "@espalier/extensions";
import type { ContextMessage, Entry, NewEntry } from "@espalier/session-tree";
import type { SummaryRequest } from "@espalier/summarizer";

/** The messages that are about to be sent; what comes out of it is what the request is built from. */
export const context = transformHook<readonly ContextMessage[], "messages">("context", {
  field: "messages",
  validate: (messages) => (Array.isArray(messages) ? undefined : "`messages` is not a list"),
});

/** Every entry before it is written: for redaction. What comes out is the only truth. */
export const entryBeforeAppend = transformHook<NewEntry<Entry>, "entry">("entry_before_append", {
  field: "entry",
  validate: (entry) =>
    typeof entry === "object" && entry !== null && typeof entry.type === "string"
      ? undefined
      : "`entry` is not an entry",
});

/** Every entry once it is in the log. */
export const entryAppended = notifyHook<{ entry: Entry }>("entry_appended");

/** Every call to a summarizer model, with its `purpose`, before it goes out. */
export const summaryRequest = transformHook<SummaryRequest, "request">("summary_request", {
  field: "request",
  validate: (request) =>
    typeof request === "object" &&
    request !== null &&
    Array.isArray(request.messages) &&
    [request.purpose, request.instructions, request.transcript].every((text) => typeof text === "string")
      ? undefined
      : "`request` is not a request for a summary",
});

/** Why a session was opened, in Pi's words: the program began with it, or went on from another one. */
export type StartReason = "startup" | "reload" | "new" | "resume" | "fork";
/** Why a session is closed, in Pi's words: the program ends, or goes on in another one. */
export type ShutdownReason = "quit" | "reload" | "new" | "resume" | "fork";

/** A session is open, to be read or written, and its extensions are loaded. */
export const sessionStart = notifyHook<{ sessionId: string; file: string; reason: StartReason }>(
  "session_start",
);
/** A session is about to be closed; what a handler appends is still written. */
export const sessionShutdown = notifyHook<{ sessionId: string; file: string; reason: ShutdownReason }>(
  "session_shutdown",
);

/** Start of an agent's run on this session. */
export const agentStart = notifyHook<object>("agent_start");
/** End of a run; `messages` are the context it leaves. */
export const agentEnd = notifyHook<{ messages: readonly ContextMessage[] }>("agent_end");
/** The agent has ended a run, and what was said meanwhile is answered too. */
export const agentSettled = notifyHook<object>("agent_settled");
/** Start of a turn: its request is about to go out. */
export const turnStart = notifyHook<{ turnIndex: number; timestamp: number }>("turn_start");
/** End of a turn: the answer and the results of its calls are in the log. */
export const turnEnd = notifyHook<{
  turnIndex: number;
  message: ContextMessage;
  toolResults: readonly ContextMessage[];
}>("turn_end");
/** A tool gave its result, which is in the log. */
export const toolResult = notifyHook<{
  toolCallId: string;
  toolName: string;
  input: Record<string, unknown>;
  content: unknown;
  isError: boolean;
}>("tool_result");

/** Every hook of the engine, by the name under which extensions register. A new hook is a value and a line here. */
export const engineHooks = {
  session_before_compact: sessionBeforeCompact,
  session_compact: sessionCompact,
  session_compact_failed: sessionCompactFailed,
  session_before_fork: sessionBeforeFork,
  session_fork: sessionFork,
  session_navigate: sessionNavigate,
  session_before_tree: sessionBeforeTree,
  session_tree: sessionTree,
  context,
  entry_before_append: entryBeforeAppend,
  entry_appended: entryAppended,
  summary_request: summaryRequest,
  session_start: sessionStart,
  session_shutdown: sessionShutdown,
  agent_start: agentStart,
  agent_end: agentEnd,
  agent_settled: agentSettled,
  turn_start: turnStart,
  turn_end: turnEnd,
  tool_result: toolResult,
};

/** The hooks as a type: what `api.on` knows of names, events and answers. */
export type EngineHooks = typeof engineHooks;
