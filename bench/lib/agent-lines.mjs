// Sessions in the formats of Claude Code, Codex and Pi: turns of a prompt, thinking, calls and results in realistic
// sizes, with bookkeeping, some compactions, and the agent's messages to its own screen.
import { randomFrom, SessionLines, textPool } from "./session-lines.mjs";

const CWD = "/home/ada/tidepool";
export const SESSION = "11111111-2222-4333-8444-555555555555";
const SIGNATURE = "EqQBCkYIBxgCKkA".repeat(14);
/** Share of texts with characters beyond Latin-1. */
const WIDE_SHARE = 0.15;
const TURNS_UNTIL_COMPACTION = 60;

/** Random texts, times and ids. */
class Voice {
  #random = randomFrom(7);
  #pools = [textPool(false), textPool(true)];
  #time = Date.UTC(2026, 0, 5, 9);
  #ids = 0;

  /** Random number of calls of a turn, one to six. */
  get calls() {
    return 1 + Math.floor(this.#random() * 6);
  }

  /** Random text of about this many characters: most are shorter, a few are much longer. */
  text(typical) {
    const length = Math.min(100_000, Math.ceil(typical * Math.exp((this.#random() - 0.5) * 4)));
    const pool = this.#pools[this.#random() < WIDE_SHARE ? 1 : 0];
    const from = Math.floor(this.#random() * (pool.length - length));
    return pool.slice(from, from + length).toWellFormed();
  }

  now() {
    this.#time += 900;
    return new Date(this.#time).toISOString();
  }

  id() {
    const number = (++this.#ids).toString(16).padStart(12, "0");
    return `57b7506c-3608-4b14-97be-${number}`;
  }
}

/** @type {Record<string, (turns: number) => Generator<object>>} */
export const agentLines = {
  "claude-code": claudeCodeLines,
  codex: codexLines,
  pi: piLines,
  "pi of format 1": firstPiLines,
};

function* claudeCodeLines(turns) {
  const voice = new Voice();
  let parentUuid = null;
  const placed = (type, fields) => {
    const uuid = voice.id();
    const line = { parentUuid, isSidechain: false, type, ...fields, uuid, timestamp: voice.now() };
    parentUuid = uuid;
    return {
      ...line,
      userType: "external",
      entrypoint: "cli",
      cwd: CWD,
      sessionId: SESSION,
      version: "2.1.330",
      gitBranch: "main",
    };
  };
  const answer = (id, block, stop_reason) =>
    placed("assistant", {
      message: {
        id,
        type: "message",
        role: "assistant",
        model: "claude-sonnet-4-5",
        content: [block],
        stop_reason,
        stop_sequence: null,
        usage: { input_tokens: 3000, cache_read_input_tokens: 20_000, output_tokens: 120 },
      },
      requestRef: voice.id(),
    });
  const user = (content, fields = {}) => placed("user", { message: { role: "user", content }, ...fields });
  for (let turn = 1; turn <= turns; turn++) {
    yield { type: "queue-operation", operation: "enqueue", timestamp: voice.now(), sessionId: SESSION };
    yield user(voice.text(200));
    for (let calls = voice.calls; calls > 0; calls--) {
      const message = `msg_${voice.id()}`;
      const id = `toolu_${voice.id()}`;
      yield answer(
        message,
        { type: "thinking", thinking: voice.text(400), signature: SIGNATURE },
        "tool_use",
      );
      const input = { command: voice.text(120), description: voice.text(40) };
      yield answer(message, { type: "tool_use", id, name: "Bash", input }, "tool_use");
      const stdout = voice.text(1_200);
      yield user([{ tool_use_id: id, type: "tool_result", content: stdout, is_error: false }], {
        toolUseResult: { stdout, stderr: "", interrupted: false, isImage: false },
      });
    }
    yield answer(`msg_${voice.id()}`, { type: "text", text: voice.text(900) }, "end_turn");
    yield { type: "last-prompt", lastPrompt: voice.text(100), leafUuid: parentUuid, sessionId: SESSION };
    if (turn % TURNS_UNTIL_COMPACTION !== 0) continue;
    const before = parentUuid;
    parentUuid = null;
    yield placed("system", {
      logicalParentUuid: before,
      subtype: "compact_boundary",
      content: "Conversation compacted",
      compactMetadata: { trigger: "auto", preTokens: 160_000 },
    });
    yield user(voice.text(6_000), { isCompactSummary: true, isVisibleInTranscriptOnly: true });
  }
}

function* codexLines(turns) {
  const voice = new Voice();
  const line = (type, payload) => ({ timestamp: voice.now(), type, payload });
  const item = (payload) => line("response_item", payload);
  const said = (role, type, text) => item({ type: "message", role, content: [{ type, text }] });
  yield line("session_meta", { id: SESSION, timestamp: voice.now(), cwd: CWD, cli_version: "0.125.0" });
  for (let turn = 1; turn <= turns; turn++) {
    yield line("turn_context", { cwd: CWD, approval_policy: "on-request", model: "gpt-5.4", effort: "high" });
    const prompt = voice.text(200);
    yield said("user", "input_text", prompt);
    yield line("event_msg", { type: "user_message", message: prompt });
    for (let calls = voice.calls; calls > 0; calls--) {
      const call_id = `call_${voice.id()}`;
      const thought = voice.text(300);
      const encrypted_content = SIGNATURE.repeat(8);
      yield item({
        type: "reasoning",
        summary: [{ type: "summary_text", text: thought }],
        encrypted_content,
      });
      yield line("event_msg", { type: "agent_reasoning", text: thought });
      const given = JSON.stringify({ cmd: voice.text(120) });
      yield item({ type: "function_call", name: "exec_command", arguments: given, call_id });
      yield item({ type: "function_call_output", call_id, output: voice.text(1_200) });
      yield line("event_msg", {
        type: "token_count",
        info: {
          last_token_usage: { input_tokens: 9_000 + turn, output_tokens: 120, total_tokens: 9_120 + turn },
        },
      });
    }
    const text = voice.text(900);
    yield said("assistant", "output_text", text);
    yield line("event_msg", { type: "agent_message", message: text });
    if (turn % TURNS_UNTIL_COMPACTION === 0) yield line("compacted", { message: voice.text(6_000) });
  }
}

/** A path without branches, with about eleven entries per turn. */
function* piLines(turns) {
  const recipe = { entries: turns * 11, branches: false, labels: false };
  for (const line of new SessionLines(recipe).lines()) yield JSON.parse(line);
}

/** The same in the first format: without ids, and with kept entries named by their line. */
function* firstPiLines(turns) {
  let lines = 0;
  for (const { version: _version, parentId: _parent, firstKeptEntryId, ...line } of piLines(turns)) {
    if (line.type !== "session") delete line.id;
    yield firstKeptEntryId === undefined ? line : { ...line, firstKeptEntryIndex: lines - 1 };
    lines++;
  }
}
