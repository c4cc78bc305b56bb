import { z } from "zod";

// Shapes of lines as the session files of Claude Code (2.1.6 to 2.1.330) and Codex (0.125, 0.169) show them: fields that every
// such line has. The corpora are held to them by a test, so that they ask for no more than real lines have.

const text = z.string();
const uuid = z.string().regex(/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/);
const time = z.iso.datetime();

/** Fields that every line with a place has. */
const placed = {
  parentUuid: uuid.nullable(),
  isSidechain: z.boolean(),
  uuid,
  timestamp: time,
  userType: text,
  cwd: text,
  sessionId: text,
  version: text,
  gitBranch: text,
};

const source = z.discriminatedUnion("type", [
  z.object({ type: z.literal("base64"), media_type: text, data: text }),
  z.object({ type: z.literal("url"), url: text }),
]);
const said = z.discriminatedUnion("type", [
  z.object({ type: z.literal("text"), text }),
  z.object({ type: z.literal("image"), source }),
]);
const result = z.object({
  tool_use_id: text.min(1),
  type: z.literal("tool_result"),
  content: z.union([text, z.array(z.union([said, z.looseObject({ type: text })]))]).optional(),
  is_error: z.boolean().optional(),
});

const userLine = z.object({
  ...placed,
  type: z.literal("user"),
  message: z.object({ role: z.literal("user"), content: z.union([text, z.array(z.union([said, result]))]) }),
});

const answerBlock = z.discriminatedUnion("type", [
  z.object({ type: z.literal("text"), text }),
  z.object({ type: z.literal("thinking"), thinking: text, signature: text }),
  z.object({ type: z.literal("redacted_thinking"), data: text }),
  z.object({
    type: z.literal("tool_use"),
    id: text.regex(/^[a-zA-Z0-9_-]+$/),
    name: text.regex(/^[a-zA-Z0-9_-]{1,128}$/),
    input: z.record(text, z.unknown()),
  }),
]);

const answerLine = z.object({
  ...placed,
  type: z.literal("assistant"),
  message: z.object({
    id: text.min(1),
    type: z.literal("message"),
    role: z.literal("assistant"),
    model: text,
    content: z.array(answerBlock).length(1),
    stop_reason: z.enum(["end_turn", "tool_use", "max_tokens", "pause_turn", "stop_sequence"]).nullable(),
    stop_sequence: text.nullable(),
    usage: z.object({
      input_tokens: z.number(),
      output_tokens: z.number(),
      cache_creation_input_tokens: z.number(),
      cache_read_input_tokens: z.number(),
      service_tier: text.nullable(),
    }),
  }),
});

const kept = z.object({ anchorUuid: uuid, uuids: z.array(uuid).min(1), allUuids: z.array(uuid).min(1) });
const boundaryLine = z.object({
  ...placed,
  parentUuid: z.null(),
  logicalParentUuid: uuid.nullable(),
  type: z.literal("system"),
  subtype: z.literal("compact_boundary"),
  content: text,
  isMeta: z.literal(false),
  level: z.literal("info"),
  compactMetadata: z.object({
    trigger: z.enum(["auto", "manual"]),
    preTokens: z.number(),
    preservedMessages: kept.optional(),
  }),
});

const summaryLine = z.object({
  ...placed,
  type: z.literal("user"),
  message: z.object({ role: z.literal("user"), content: text }),
  isVisibleInTranscriptOnly: z.literal(true),
  isCompactSummary: z.literal(true),
});

const attachmentLine = z.object({
  ...placed,
  type: z.literal("attachment"),
  attachment: z.looseObject({ type: text }),
  rendered: z.array(z.object({ content: z.union([text, z.array(said)]) })).optional(),
  renderedRole: text.optional(),
});

/** Schema of a line of Claude Code; undefined for the types that say nothing of the conversation. */
export function claudeCodeShape(line: Record<string, unknown>): z.ZodType | undefined {
  if (line["isCompactSummary"] === true) return summaryLine;
  if (line["subtype"] === "compact_boundary") return boundaryLine;
  if (line["type"] === "custom-title") return z.object({ customTitle: text, sessionId: text });
  if (line["type"] === "assistant") return answerLine;
  if (line["type"] === "user") return userLine;
  if (line["type"] === "attachment") return attachmentLine;
  return line["type"] === "system" ? z.object({ ...placed, subtype: text }) : undefined;
}

const part = z.discriminatedUnion("type", [
  z.object({ type: z.literal("input_text"), text }),
  z.object({ type: z.literal("input_image"), image_url: text }),
]);
const item = z.discriminatedUnion("type", [
  z.object({
    type: z.literal("message"),
    role: z.enum(["user", "assistant", "developer", "system"]),
    content: z.array(z.union([part, z.object({ type: z.literal("output_text"), text })])).min(1),
  }),
  z.object({
    type: z.literal("reasoning"),
    summary: z.array(z.object({ type: z.literal("summary_text"), text })),
    content: z.null(),
    encrypted_content: text.nullable(),
  }),
  z.object({
    type: z.literal("function_call"),
    name: text.regex(/^[a-zA-Z0-9_-]{1,64}$/),
    arguments: text,
    call_id: text.min(1).max(64),
  }),
  z.object({
    type: z.literal("function_call_output"),
    call_id: text.min(1).max(64),
    output: z.union([text, z.array(part)]),
  }),
  z.object({ type: z.literal("compaction"), encrypted_content: text }),
]);

const count = z.object({ input_tokens: z.number(), output_tokens: z.number(), total_tokens: z.number() });
const event = z.discriminatedUnion("type", [
  z.object({
    type: z.literal("user_message"),
    message: text,
    images: z.array(text),
    local_images: z.array(text),
    text_elements: z.array(z.unknown()),
  }),
  z.object({ type: z.literal("agent_message"), message: text, phase: z.null(), memory_citation: z.null() }),
  z.object({ type: z.literal("agent_reasoning"), text }),
  z.object({ type: z.literal("context_compacted") }),
  z.object({ type: z.literal("thread_name_updated"), thread_id: text, thread_name: text }),
  z.object({
    type: z.literal("token_count"),
    info: z.object({ total_token_usage: count, last_token_usage: count }).nullable(),
  }),
]);

/** Types of events that the shapes know. */
const EVENTS: ReadonlySet<unknown> = new Set(event.options.map(({ shape }) => shape.type.value));

const PAYLOADS: Readonly<Record<string, z.ZodType>> = {
  session_meta: z.object({
    id: uuid,
    timestamp: time,
    cwd: text,
    originator: text,
    cli_version: text,
    source: text,
  }),
  response_item: item,
  event_msg: event,
  compacted: z.object({ message: text, replacement_history: z.array(item).min(1) }),
  turn_context: z.object({ cwd: text, model: text, summary: text }),
};

/** Schema of a line of Codex; undefined for the types that say nothing of the conversation. */
export function codexShape(line: Record<string, unknown>): z.ZodType | undefined {
  const { type, payload } = line as { type: string; payload: { type?: unknown } };
  const shape = type === "event_msg" && !EVENTS.has(payload.type) ? undefined : PAYLOADS[type];
  return shape && z.object({ timestamp: time, type: text, payload: shape });
}
