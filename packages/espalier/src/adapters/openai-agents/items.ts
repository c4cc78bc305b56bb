// Items of the OpenAI Agents SDK as messages of a session, and back. Apart from the session: this is the table of the format.
import type { AgentInputItem } from "@openai/agents";
import { messageText } from "../../extend.ts";
import { toOpenaiResponses } from "../../import.ts";
import type { ContextMessage, StoredMessage } from "../../index.ts";
import { fitsLine } from "../stored-value.ts";

type Fields = Record<string, unknown>;

/** Blocks of content, as a session has them. */
type Blocks = ({ type: "text"; text: string } | { type: "image"; data: string; mimeType: string })[];

/** The message that says what an item says: to people, to a search, and to any model that goes on from here. */
export function messageOf(item: AgentInputItem): StoredMessage {
  const fields = item as Fields;
  const { type = "message", role, content, callId, output } = fields;
  const timestamp = Date.now();
  if (type === "message" && role === "user")
    return { role, content: typeof content === "string" ? content : blocksOf(content), timestamp };
  if (type === "message" && role === "system") return { role, content: textOf(content), timestamp };
  if (type === "message") return answer(fields, [{ type: "text", text: textOf(content) }]);
  if (type === "reasoning")
    return answer(fields, [{ type: "thinking", thinking: textOf(content) || textOf(fields["rawContent"]) }]);
  const kind = String(type);
  const name =
    typeof fields["name"] === "string" ? fields["name"] : kind.replace(/_call(_result|_output)?$/, "");
  if (typeof callId === "string" && /_call$/.test(kind))
    return answer(fields, [{ type: "toolCall", id: callId, name, arguments: argumentsOf(fields) }]);
  if (typeof callId === "string" && /_call_(result|output)$/.test(kind)) {
    const isError = fields["status"] === "failed" || fields["status"] === "incomplete";
    const said = blocksOf(output);
    return { role: "toolResult", toolCallId: callId, toolName: name, content: said, isError, timestamp };
  }
  // Calls of hosted tools have no result of their own, and a compaction is sealed: they are said in a line.
  const said = [fields["arguments"], output].map(textOf).filter((text) => text !== "");
  return answer(fields, [
    { type: "text", text: [`[${[kind, fields["name"]].filter(Boolean).join(" ")}]`, ...said].join("\n") },
  ]);
}

function answer(
  { providerData }: Fields,
  content: Extract<StoredMessage, { role: "assistant" }>["content"],
): StoredMessage {
  const named = (providerData as Fields | undefined)?.["model"];
  const model = typeof named === "string" ? named : "unknown";
  const stopReason = content.some(({ type }) => type === "toolCall") ? "toolUse" : "stop";
  return { role: "assistant", content, provider: "openai", model, stopReason, timestamp: Date.now() };
}

/** Arguments of a call as an object, as sessions keep them; arguments of another type become the object's `input`. */
function argumentsOf(fields: Fields): Fields {
  const { type: _type, id: _id, callId: _callId, status: _status, providerData: _data, ...own } = fields;
  const { arguments: given } = own;
  if (typeof given !== "string") return readable(own);
  try {
    const parsed: unknown = JSON.parse(given);
    const isObject = typeof parsed === "object" && parsed !== null && !Array.isArray(parsed);
    return isObject ? readable(parsed as Fields) : { input: given };
  } catch {
    return { input: given }; // a model's text, cut off or not JSON: shown as it is
  }
}

/** Arguments without bytes, and without the one name that no session holds. */
function readable(fields: Fields): Fields {
  const text = JSON.stringify(fields, (_, value: unknown) =>
    value instanceof Uint8Array ? "[bytes]" : value,
  );
  const plain = JSON.parse(text) as Fields;
  return fitsLine(plain) ? plain : { input: text };
}

/** The text of a content, a part of one, or an output; names what is no text. */
function textOf(content: unknown): string {
  return blocksOf(content)
    .map((block) => (block.type === "text" ? block.text : "[picture]"))
    .join("\n");
}

function blocksOf(content: unknown): Blocks {
  if (content === undefined || content === null || content === "") return [];
  if (typeof content === "string") return [{ type: "text", text: content }];
  if (Array.isArray(content)) return content.flatMap(blocksOf);
  if (typeof content !== "object") return [{ type: "text", text: String(content) }];
  const { type, text, refusal, transcript, stdout, stderr, image, data, filename } = content as Fields;
  const said = [text, refusal, transcript, stdout, stderr].filter(
    (one) => typeof one === "string" && one !== "",
  );
  if (said.length > 0) return [{ type: "text", text: said.join("\n") }];
  const picture = pictureOf(image ?? data);
  if (picture) return [picture];
  if (stdout !== undefined) return [];
  const named = [type ?? "data", filename, isAddress(image) ? image : ""].filter(
    (one) => typeof one === "string",
  );
  return [{ type: "text", text: `[${named.filter(Boolean).join(" ")}]` }];
}

const isAddress = (value: unknown) => typeof value === "string" && /^https?:.{1,200}$/.test(value);

/** A picture whose bytes are there; addresses and ids of files are none. */
function pictureOf(value: unknown): Blocks[number] | undefined {
  if (typeof value === "string") {
    const [, mimeType, data] = DATA_URL.exec(value) ?? [];
    return mimeType === undefined || data === undefined ? undefined : { type: "image", data, mimeType };
  }
  const { data, mediaType } = (value ?? {}) as Fields;
  if (typeof mediaType !== "string" || !mediaType.startsWith("image/")) return undefined;
  const base64 = data instanceof Uint8Array ? Buffer.from(data).toString("base64") : data;
  return typeof base64 === "string" && base64 !== ""
    ? { type: "image", data: base64, mimeType: mediaType }
    : undefined;
}

const DATA_URL = /^data:(image\/[\w.+-]+);base64,([A-Za-z0-9+/]+=*)$/;

/** Items that say a message which another program appended, or a summary; a failed answer says none. */
export function itemOf(message: ContextMessage): AgentInputItem[] {
  if (message.role === "assistant") {
    if (message.stopReason === "error" || message.stopReason === "aborted") return [];
    return message.content.flatMap((block): AgentInputItem[] => {
      if (block.type === "text")
        return [
          {
            type: "message",
            role: "assistant",
            status: "completed",
            content: [{ type: "output_text", text: block.text }],
          },
        ];
      if (block.type !== "toolCall") return [];
      const { id: callId, name, arguments: given } = block;
      return [{ type: "function_call", callId, name, status: "completed", arguments: JSON.stringify(given) }];
    });
  }
  if (message.role === "toolResult") {
    const { toolCallId: callId, toolName: name } = message;
    const output = { type: "text", text: messageText(message) } as const;
    return [{ type: "function_call_result", callId, name, status: "completed", output }];
  }
  if (message.role === "system") return [{ type: "message", role: "system", content: messageText(message) }];
  // Summaries and runs of a shell, in the words that every model reads of them.
  return toOpenaiResponses([message]).input.flatMap((wire): AgentInputItem[] =>
    "content" in wire ? [{ type: "message", role: "user", content: textOf(wire.content) }] : [],
  );
}
