import { buildRequest, type ContentBlock, isRecord, type RequestFormat } from "@espalier/session-tree";
import { aiSdkFormat } from "./ai-sdk-format.ts";
import type { AiSdkMessage, AiSdkOutput, AiSdkRequest, AiSdkResult } from "./ai-sdk-message.ts";
import type { Cargo } from "./cargo.ts";
import { carryingFormat } from "./carrying-format.ts";
import { type ConversationSource, readSource, type WriteOptions } from "./conversation-source.ts";
import { nativeFor, remoteImageUrl } from "./native.ts";
import { parsedJson } from "./parsed-json.ts";

type UserPart = Extract<AiSdkMessage, { role: "user" }>["content"][number];
type AnswerPart = Extract<AiSdkMessage, { role: "assistant" }>["content"][number];
type OutputPart = Extract<AiSdkOutput, { type: "content" }>["value"][number];

/**
 * `ModelMessage`s of the AI SDK: what `buildRequest` makes with `aiSdkFormat` (or the format in `options`), and in it the
 * parts that only the SDK has. Of those the types name the common ones alone.
 *
 * For a valid conversation it gives back what {@link fromAiSdk} read, in this normal form: content is a list of parts,
 * system messages stand in `system`; bytes are base64, addresses text; a result of one text is `text`, a picture in one
 * `image-data`; an empty result says `(no output)`; results stand in the order of their calls, in one message; each
 * part of OpenAI's reasoning has the encrypted content; roles alternate; blank texts, and reasoning at the end of an
 * answer, are out. A call without a result gets one, so an approval that is still open is no longer one.
 *
 * @throws SessionTreeError `empty-context` when there is nothing to send
 */
export function toAiSdk(
  source: ConversationSource,
  { format = aiSdkFormat, ...options }: WriteOptions & { format?: RequestFormat<AiSdkRequest> } = {},
): AiSdkRequest {
  const given = readSource(source, options);
  const carrying = carryingFormat(
    format,
    { format: "ai-sdk", keepsTextsApart: true },
    (request, cargo): AiSdkRequest => ({
      ...request,
      messages: request.messages.flatMap((message) => unload(message, cargo)),
    }),
  );
  return buildRequest(given.context, { ...given, format: carrying });
}

function unload(message: AiSdkMessage, cargo: Cargo): AiSdkMessage[] {
  if (message.role === "assistant")
    return [{ role: "assistant", content: message.content.map((part) => unloadAnswer(part, cargo)) }];
  if (message.role === "tool")
    return [{ role: "tool", content: message.content.map((result) => unloadResult(result, cargo)) }];
  return unloadUser(message.content, cargo);
}

/** What the user said of calls (an approval) belongs to the role `tool`, before the rest. */
function unloadUser(parts: readonly UserPart[], cargo: Cargo): AiSdkMessage[] {
  const unloaded = parts.map((part) => {
    const carried = cargo.at(part.type === "text" ? part.text : part.image);
    return carried ? (nativeForm(carried) as UserPart) : part;
  });
  const isOfCalls = (part: UserPart): boolean => part.type.startsWith("tool-");
  const ofCalls = unloaded.filter(isOfCalls) as unknown as AiSdkResult[];
  const said = unloaded.filter((part) => !isOfCalls(part));
  return [
    ...(ofCalls.length > 0 ? [{ role: "tool" as const, content: ofCalls }] : []),
    ...(said.length > 0 ? [{ role: "user" as const, content: said }] : []),
  ];
}

function unloadAnswer(part: AnswerPart, cargo: Cargo): AnswerPart {
  if (part.type === "tool-call") return { ...part, ...cargo.call(part.toolCallId) };
  const carried = part.type === "text" ? cargo.at(part.text) : undefined;
  return carried ? (nativeForm(carried) as AnswerPart) : part;
}

function unloadResult(result: AiSdkResult, cargo: Cargo): AiSdkResult {
  const { type, output: beside, ...rest } = cargo.result(result.toolCallId) ?? {};
  const output = unloadOutput(result.output, type, isRecord(beside) ? beside : {}, cargo);
  return { ...result, output: output as AiSdkOutput, ...rest };
}

/** @param type how the output was written, where that is not what its text tells */
function unloadOutput(output: AiSdkOutput, type: unknown, beside: object, cargo: Cargo): object {
  if (output.type === "content") {
    const value = output.value.map((part): OutputPart => {
      const carried = cargo.at(part.type === "text" ? part.text : part.data);
      return carried ? (outputForm(carried) as OutputPart) : part;
    });
    return { ...output, value, ...beside };
  }
  const carried = cargo.at(output.value);
  if (carried) return { type: "content", value: [outputForm(carried)], ...beside };
  if (type === "execution-denied") return { type, ...beside };
  // A result that was shortened since is no JSON any more: it stays text.
  const value = type === "json" || type === "error-json" ? parsedJson(output.value) : undefined;
  return value === undefined ? { ...output, ...beside } : { type, value, ...beside };
}

/** A carried block as a part of a message; no type can promise more of it than that it is an object. */
function nativeForm(block: ContentBlock): object {
  const fields = nativeFor(block, "ai-sdk")?.value ?? {};
  if (block.type === "text") return { type: "text", text: block.text, ...fields };
  const { type = "image", ...rest } = fields;
  const url = remoteImageUrl(block);
  if (url !== undefined)
    return type === "file" ? { type, data: url, ...rest } : { type, image: url, ...rest };
  if (block.type !== "image") return fields;
  const { data, mimeType: mediaType } = block;
  return type === "file" ? { type, data, mediaType, ...rest } : { type, image: data, mediaType, ...rest };
}

/** A carried block as a part of a result. */
function outputForm(block: ContentBlock): object {
  const fields = nativeFor(block, "ai-sdk")?.value ?? {};
  if (block.type === "text") return { type: "text", text: block.text, ...fields };
  const url = remoteImageUrl(block);
  if (url !== undefined) return { type: "image-url", url, ...fields };
  if (block.type !== "image") return fields;
  return { type: "image-data", data: block.data, mediaType: block.mimeType, ...fields };
}
