import {
  buildRequest,
  type ContentBlock,
  isRecord,
  NO_RESULT,
  type RequestFormat,
} from "@espalier/session-tree";
import { aiSdkFormat } from "./ai-sdk-format.ts";
import type {
  AiSdkMediaType,
  AiSdkMessage,
  AiSdkOutput,
  AiSdkRequest,
  AiSdkResult,
} from "./ai-sdk-message.ts";
import type { Cargo, CargoRules } from "./cargo.ts";
import { carryingFormat } from "./carrying-format.ts";
import { type ConversationSource, readSource, type WriteOptions } from "./conversation-source.ts";
import { nativeFor, remoteImageUrl } from "./native.ts";
import { parsedJson } from "./parsed-json.ts";

type Message = AiSdkMessage<AiSdkMediaType>;
type Result = AiSdkResult<AiSdkMediaType>;
type Output = AiSdkOutput<AiSdkMediaType>;
type UserPart = Extract<Message, { role: "user" }>["content"][number];
type AnswerPart = Extract<Message, { role: "assistant" }>["content"][number];
type OutputPart = Extract<Output, { type: "content" }>["value"][number];

const RULES: CargoRules = {
  format: "ai-sdk",
  keepsTextsApart: true,
  // The SDK itself asks for approval, and runs the tool.
  ofClient: new Set(["ai-sdk.tool-approval-request"]),
};

/**
 * `ModelMessage`s of the AI SDK: what `buildRequest` makes with `aiSdkFormat` (or the format in `options`), and in it the
 * parts that only the SDK has. Of those the types name the common ones alone.
 *
 * For a valid conversation it gives back what {@link fromAiSdk} read, in this normal form: content is a list of parts,
 * system messages stand in `system`; bytes are base64, addresses text; a result of one text is `text`, a picture in one
 * `image-data`; an empty result says `(no output)`; results stand in the order of their calls, in one message; each
 * part of OpenAI's reasoning has the encrypted content; roles alternate; blank texts, and reasoning at the end of an
 * answer, are out.
 *
 * A call without a result gets one, but for a call that the user approved or denied at the end of the conversation: the SDK
 * runs it, or tells the model that it was denied. Approvals of calls that have a result stand before the results; those of
 * calls that are no longer in the conversation are out.
 *
 * @throws SessionTreeError `empty-context` when there is nothing to send
 */
export function toAiSdk(
  source: ConversationSource,
  options?: WriteOptions & { format?: RequestFormat<AiSdkRequest> },
): AiSdkRequest;
export function toAiSdk(
  source: ConversationSource,
  options: WriteOptions & { format: RequestFormat<AiSdkRequest<"media">> },
): AiSdkRequest<"media">;
export function toAiSdk(
  source: ConversationSource,
  { format = aiSdkFormat, ...options }: WriteOptions & { format?: RequestFormat<object> } = {},
): object {
  const given = readSource(source, options);
  const base = format as RequestFormat<AiSdkRequest<AiSdkMediaType>>;
  const carrying = carryingFormat(
    base,
    RULES,
    (request, cargo): AiSdkRequest<AiSdkMediaType> => ({
      ...request,
      messages: withApprovals(request.messages.flatMap((message) => unload(message, cargo))),
    }),
  );
  return buildRequest(given.context, { ...given, format: carrying });
}

function unload(message: Message, cargo: Cargo): Message[] {
  if (message.role === "assistant") return [unloadAnswer(message.content, cargo)];
  if (message.role === "tool")
    return [{ role: "tool", content: message.content.map((result) => unloadResult(result, cargo)) }];
  return unloadUser(message.content, cargo);
}

/** What the user said of calls (an approval) belongs to the role `tool`, before the rest. */
function unloadUser(parts: readonly UserPart[], cargo: Cargo): Message[] {
  const unloaded = parts.map((part) => {
    const carried = cargo.at(part.type === "text" ? part.text : part.image);
    return carried ? (nativeForm(carried) as UserPart) : part;
  });
  const isOfCalls = (part: UserPart): boolean => part.type.startsWith("tool-");
  const ofCalls = unloaded.filter(isOfCalls) as unknown as Result[];
  const said = unloaded.filter((part) => !isOfCalls(part));
  return [
    ...(ofCalls.length > 0 ? [{ role: "tool" as const, content: ofCalls }] : []),
    ...(said.length > 0 ? [{ role: "user" as const, content: said }] : []),
  ];
}

/** Requests for approval stand behind the calls, as the SDK writes them, and name them by the ids that these have here. */
function unloadAnswer(content: readonly AnswerPart[], cargo: Cargo): Message {
  const parts: AnswerPart[] = [];
  const requests: AnswerPart[] = [];
  for (const part of content) {
    const carried = part.type === "text" ? cargo.at(part.text) : undefined;
    if (part.type === "tool-call") parts.push({ ...part, ...cargo.call(part.toolCallId) });
    else if (!carried) parts.push(part);
    else {
      const unloaded = nativeForm(carried) as AnswerPart;
      (approvalRequest(unloaded) ? requests : parts).push(unloaded);
    }
  }
  const ids = parts.flatMap((part) => (part.type === "tool-call" ? [part.toolCallId] : []));
  for (const request of requests) {
    const { toolCallId } = approvalRequest(request)!;
    parts.push({ ...request, toolCallId: sentId(toolCallId, ids) } as AnswerPart);
  }
  return { role: "assistant", content: parts };
}

/** The id that a call has in the request, where its own was too long, invalid, or not the only one. */
function sentId(id: string, sent: readonly string[]): string {
  if (sent.includes(id)) return id;
  const valid = id.replace(/[^a-zA-Z0-9_-]/g, "_");
  return sent.find((one) => valid.startsWith(one.replace(/_\d+$/, ""))) ?? id;
}

interface ApprovalRequest {
  approvalId: string;
  toolCallId: string;
}

/** A part as a request for approval, which the types of parts do not name; undefined for any other part. */
const approvalRequest = (part: object): ApprovalRequest | undefined =>
  (part as { type?: unknown }).type === "tool-approval-request" ? (part as ApprovalRequest) : undefined;

/**
 * Messages in which the SDK finds the approvals that it has to act upon, and no others: it looks at the last message alone,
 * runs what is approved there, and refuses an approval whose request it does not know.
 */
function withApprovals(messages: readonly Message[]): Message[] {
  const asked = new Map<unknown, string>();
  for (const { role, content } of messages)
    if (role === "assistant")
      for (const part of content) {
        const request = approvalRequest(part);
        if (request) asked.set(request.approvalId, request.toolCallId);
      }
  const settled: Message[] = [];
  for (let at = 0; at < messages.length; at++) {
    const message = messages[at]!;
    if (message.role !== "tool") {
      settled.push(message);
      continue;
    }
    const parts: Result[] = [...message.content];
    for (let next = messages[at + 1]; next?.role === "tool"; next = messages[++at + 1])
      parts.push(...next.content);
    for (const content of settledParts(parts, asked, at === messages.length - 1))
      if (content.length > 0) settled.push({ role: "tool", content });
  }
  return settled;
}

/** Approvals of calls with a result, the results, and approvals that the SDK has to act upon. */
function settledParts(
  parts: readonly Result[],
  asked: ReadonlyMap<unknown, string>,
  isEnd: boolean,
): Result[][] {
  const results = parts.filter(({ type }) => type === "tool-result");
  const recorded = new Set(results.flatMap((result) => (isMadeUp(result) ? [] : [result.toolCallId])));
  const callOf = (part: object) => asked.get((part as { approvalId?: unknown }).approvalId);
  const approvals = parts.filter((part) => part.type !== "tool-result" && callOf(part) !== undefined);
  const isOpen = (part: Result) => isEnd && !recorded.has(callOf(part)!);
  const open = approvals.filter(isOpen);
  const named = new Set(open.map(callOf));
  return [
    approvals.filter((part) => !isOpen(part)),
    results.filter((result) => !named.has(result.toolCallId)),
    open,
  ];
}

const isMadeUp = ({ output }: Result): boolean => output.type === "error-text" && output.value === NO_RESULT;

function unloadResult(result: Result, cargo: Cargo): Result {
  const { type, output: beside, ...rest } = cargo.result(result.toolCallId) ?? {};
  const output = unloadOutput(result.output, type, isRecord(beside) ? beside : {}, cargo);
  return { ...result, output: output as Output, ...rest };
}

/** @param type how the output was written, where that is not what its text tells */
function unloadOutput(output: Output, type: unknown, beside: object, cargo: Cargo): object {
  if (output.type === "content") {
    const value = output.value.map((part): OutputPart => {
      const carried = cargo.at(part.type === "text" ? part.text : part.data);
      return carried ? (outputForm(carried, part.type) as OutputPart) : part;
    });
    return { ...output, value, ...beside };
  }
  const carried = cargo.at(output.value);
  if (carried) return { type: "content", value: [outputForm(carried, "text")], ...beside };
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

/**
 * A carried block as a part of a result.
 *
 * @param type how the format marks a picture there
 */
function outputForm(block: ContentBlock, type: string): object {
  const fields = nativeFor(block, "ai-sdk")?.value ?? {};
  if (block.type === "text") return { type: "text", text: block.text, ...fields };
  const url = remoteImageUrl(block);
  if (url !== undefined) return { type: "image-url", url, ...fields };
  if (block.type !== "image") return fields;
  return { type, data: block.data, mediaType: block.mimeType, ...fields };
}
