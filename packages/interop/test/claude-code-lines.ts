/** Lines of Claude Code, written from the description of the format: as little as a line needs. */

export type Line = Record<string, unknown>;

export const SESSION = "11111111-2222-4333-8444-555555555555";

const USAGE = {
  input_tokens: 100,
  cache_creation_input_tokens: 7,
  cache_read_input_tokens: 30,
  output_tokens: 12,
};

let clock = 0;

/** Fields that every line with a place has. Times grow with the lines that are made. */
function placed(type: string, uuid: string, parentUuid: string | null, fields: Line): Line {
  return {
    parentUuid,
    isSidechain: false,
    type,
    ...fields,
    uuid,
    timestamp: new Date(Date.UTC(2026, 10, 21) + ++clock * 1_000).toISOString(),
    cwd: "/home/me/project",
    sessionId: SESSION,
    version: "2.1.330",
    ...(fields["sessionId"] === undefined ? {} : { sessionId: fields["sessionId"] }),
  };
}

export const user = (uuid: string, parent: string | null, content: unknown = uuid, fields: Line = {}): Line =>
  placed("user", uuid, parent, { message: { role: "user", content }, ...fields });

/** One block of an answer; a text makes a text block of it. */
export function answer(
  uuid: string,
  parent: string | null,
  block: Line | string = uuid,
  fields: Line & { id?: string; stop?: string | null; model?: string } = {},
): Line {
  const { id = `msg_${uuid}`, stop = "end_turn", model = "claude-test", ...rest } = fields;
  const content = [typeof block === "string" ? { type: "text", text: block } : block];
  const message = {
    id,
    type: "message",
    role: "assistant",
    model,
    content,
    stop_reason: stop,
    stop_sequence: null,
    usage: USAGE,
  };
  return placed("assistant", uuid, parent, { message, ...rest });
}

export const thinking = (text: string): Line => ({
  type: "thinking",
  thinking: text,
  signature: `signed ${text}`,
});

export const call = (id: string, input: Line = {}, name = "Bash"): Line => ({
  type: "tool_use",
  id,
  name,
  input,
});

export const result = (
  uuid: string,
  parent: string,
  callId: string,
  content: unknown = `out ${callId}`,
  fields: Line = {},
): Line => user(uuid, parent, [{ type: "tool_result", tool_use_id: callId, content }], fields);

export const attachment = (uuid: string, parent: string | null, type: string, rendered?: string): Line =>
  placed("attachment", uuid, parent, {
    attachment: { type, note: uuid },
    ...(rendered === undefined ? {} : { rendered: [{ content: rendered }], renderedRole: "system" }),
  });

/** Marks the place of a compaction that keeps these lines. */
export const boundary = (
  uuid: string,
  before: string | null,
  kept: string[] = [],
  anchor?: string,
  metadata: Line = {},
): Line =>
  placed("system", uuid, null, {
    logicalParentUuid: before,
    subtype: "compact_boundary",
    content: "Conversation compacted",
    compactMetadata: {
      trigger: "manual",
      preTokens: 3_000,
      ...(kept.length > 0 ? { preservedMessages: { anchorUuid: anchor, uuids: kept, allUuids: kept } } : {}),
      ...metadata,
    },
  });

export const summary = (uuid: string, parent: string, text = `Summary ${uuid}`): Line =>
  user(uuid, parent, text, { isCompactSummary: true, isVisibleInTranscriptOnly: true });

/** A line without a place. */
export const aside = (type: string, fields: Line = {}): Line => ({ type, sessionId: SESSION, ...fields });
