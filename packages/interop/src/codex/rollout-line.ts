import { isRecord } from "@espalier/session-tree";

type Fields = Record<string, unknown>;

/** A line of a rollout, in one shape for all generations. */
export interface RolloutLine {
  type: string;
  payload: Fields;
  timestamp: string | undefined;
  /** The position in the history of the thread; old files have none. */
  ordinal: number | undefined;
  metadata: Fields;
}

/** Items that the first files have without an envelope. */
const BARE_ITEMS = new Set([
  "message",
  "reasoning",
  "function_call",
  "function_call_output",
  "custom_tool_call",
  "custom_tool_call_output",
  "local_shell_call",
  "web_search_call",
]);

/** Reads a parsed line; undefined for what is none. */
export function readRolloutLine(value: unknown): RolloutLine | undefined {
  if (!isRecord(value)) return undefined;
  const { type, payload, timestamp, ordinal, metadata } = value;
  const time = typeof timestamp === "string" ? timestamp : undefined;
  if (typeof type === "string" && isRecord(payload)) {
    return {
      type,
      payload,
      timestamp: time,
      ordinal: typeof ordinal === "number" ? ordinal : undefined,
      metadata: isRecord(metadata) ? metadata : {},
    };
  }
  const bare = { timestamp: time, ordinal: undefined, metadata: {} };
  if (
    typeof type === "string" &&
    BARE_ITEMS.has(type) &&
    (type !== "message" || typeof value["role"] === "string")
  )
    return { type: "response_item", payload: value, ...bare };
  if (type === undefined && typeof value["id"] === "string" && time !== undefined)
    return { type: "session_meta", payload: value, ...bare };
  if (typeof value["record_type"] === "string")
    return { type: `record.${value["record_type"]}`, payload: value, ...bare };
  return undefined;
}

/** What a line is, more closely than its type says. */
export function kindOfRollout({ type, payload }: RolloutLine): string {
  return typeof payload["type"] === "string" ? `${type}/${payload["type"]}` : type;
}

/** The texts of an item's content, joined. */
export function itemText({ content }: Fields): string {
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) return "";
  return content
    .flatMap((part) => (isRecord(part) && typeof part["text"] === "string" ? [part["text"]] : []))
    .join("\n");
}
