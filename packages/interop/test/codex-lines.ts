/** Lines of Codex, written from the description of the format: as little as a line needs. */

export type Line = Record<string, unknown>;

export const THREAD = "01a1ffe6-7b96-7352-9763-ae66a9453f24";
export const OTHER = "01a1ffe6-7d80-7a53-9388-92834c789141";

/** The name of a rollout's file. */
export const rolloutName = (thread = THREAD, segment?: string): string =>
  `rollout-2026-11-21T20-57-37-${thread}${segment === undefined ? "" : `_${segment}`}.jsonl`;

export const message = (role: string, text: string, fields: Line = {}): Line => ({
  type: "message",
  role,
  content: [{ type: role === "assistant" ? "output_text" : "input_text", text }],
  ...fields,
});

/** What the user said, marked as new files do. */
export const prompt = (text: string): Line =>
  message("user", text, {
    internal_chat_message_metadata_passthrough: { content_item_kinds: ["user.text"] },
  });

/** What the agent put in, marked as new files do. */
export const injected = (text: string, kind = "environments.environment_context"): Line =>
  message("user", text, { internal_chat_message_metadata_passthrough: { content_item_kinds: [kind] } });

export const reasoning = (text: string, encrypted = `secret ${text}`): Line => ({
  type: "reasoning",
  id: `rs_${text}`,
  summary: text === "" ? [] : [{ type: "summary_text", text }],
  content: null,
  encrypted_content: encrypted,
});

export const call = (id: string, input: Line = {}): Line => ({
  type: "function_call",
  name: "exec_command",
  arguments: JSON.stringify(input),
  call_id: id,
});

export const output = (id: string, value: unknown = `out ${id}`): Line => ({
  type: "function_call_output",
  call_id: id,
  output: value,
});

const TOKENS = { input_tokens: 100, cached_input_tokens: 30, output_tokens: 12, total_tokens: 112 };

/** A rollout while it is written. */
export class Rollout {
  readonly lines: Line[] = [];
  #ordinal: number | undefined;
  #time: number;

  /** @param ordinal of the first line; undefined for an old file, whose lines have none */
  constructor({ ordinal, hour = 20 }: { ordinal?: number; hour?: number } = {}) {
    this.#ordinal = ordinal;
    this.#time = Date.UTC(2026, 10, 21, hour);
  }

  add(type: string, payload: Line, fields: Line = {}): this {
    this.#time += 7;
    const ordinal = this.#ordinal === undefined ? {} : { ordinal: this.#ordinal++ };
    this.lines.push({ timestamp: new Date(this.#time).toISOString(), ...ordinal, type, payload, ...fields });
    return this;
  }

  meta(fields: Line = {}): this {
    const history = this.#ordinal === undefined ? {} : { history_mode: "paginated" };
    return this.add("session_meta", {
      id: THREAD,
      timestamp: new Date(this.#time).toISOString(),
      cwd: "/home/me/project",
      cli_version: this.#ordinal === undefined ? "0.125.0" : "0.169.0",
      model_provider: "openai",
      ...history,
      ...fields,
    });
  }

  items(...payloads: Line[]): this {
    for (const payload of payloads) this.add("response_item", payload);
    return this;
  }

  event(type: string, fields: Line = {}): this {
    return this.add("event_msg", { type, ...fields });
  }

  turn(model = "gpt-test", fields: Line = {}): this {
    return this.add("turn_context", {
      turn_id: `t${this.lines.length}`,
      cwd: "/home/me/project",
      model,
      ...fields,
    });
  }

  /** What new files say of the tokens of a response. */
  record(responseId = `resp_${this.lines.length}`): this {
    return this.add("token_usage_record", { response_id: responseId, usage: TOKENS });
  }

  /** What old files say; the total grows with every response. */
  count(total: number): this {
    return this.event("token_count", {
      info: { total_token_usage: { total_tokens: total }, last_token_usage: TOKENS },
    });
  }

  /** The bytes so far, as a base of another rollout. */
  base(thread = THREAD): Line {
    const bytes = this.lines.map((line) => `${JSON.stringify(line)}\n`).join("");
    return {
      thread_id: thread,
      end_ordinal_exclusive: this.#ordinal,
      end_byte_offset: Buffer.byteLength(bytes),
    };
  }
}
