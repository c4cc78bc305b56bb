import {
  type AssistantMessage,
  buildRequest,
  type ContentBlock,
  type Conversation,
  contentBlocks,
  isFailedAnswer,
  isRecord,
  NO_RESULT,
  type RequestFormat,
  type SessionContext,
  type ToolDefinition,
  type Turn,
} from "@espalier/session-tree";
import {
  type AiSdkMedia,
  type AiSdkMediaType,
  type AiSdkMessage,
  type AiSdkOutput,
  type AiSdkRequest,
  type AiSdkResult,
  type AiSdkText,
  acceptsReasoning,
  joinedReasoning,
  providerOf,
  readAnswerPart,
  readOutput,
  readUserPart,
  renderReasoning,
} from "./ai-sdk-blocks.ts";
import { type Cargo, type CargoRules, carryingFormat } from "./carrying.ts";
import {
  ConversationBuilder,
  type ConversationOptions,
  type ConversationSource,
  type ImportedConversation,
  readSource,
  type WriteOptions,
} from "./conversation.ts";
import { nativeBlock, nativeFor, parsedJson, remoteImageUrl } from "./native.ts";
import { partsOf } from "./openai-blocks.ts";

const FORMAT = "ai-sdk";

type Fields = Record<string, unknown>;

/** The API through which the SDK speaks with a provider, as far as the shape of its reasoning depends on it. */
const APIS: ReadonlyMap<string, string> = new Map([
  ["anthropic", "anthropic-messages"],
  ["openai", "openai-responses"],
]);

/**
 * A conversation of the AI SDK (`ModelMessage`s of version 5 and later) as neutral messages: `{system, messages, tools}`
 * or the list of messages. Never throws: what is not of the format is passed over and told in `issues`.
 *
 * The messages do not say who answered. Where `options.model` does not either, it is the provider whose signature stands
 * first on reasoning; an answer with another provider's reasoning is that provider's.
 *
 * - bytes become base64, addresses text
 * - files, approvals, calls that the provider ran: kept as they are, and given back by `toAiSdk`
 * - `providerOptions` of a part are kept beside it; those of a whole message are left out, and told
 */
export function fromAiSdk(input: unknown, options: ConversationOptions = {}): ImportedConversation {
  const reading = new ConversationBuilder({ api: undefined, provider: "unknown" }, options);
  const plain = reading.read(input);
  const request: Fields = Array.isArray(plain) ? { messages: plain } : isRecord(plain) ? plain : {};
  const messages = (Array.isArray(request["messages"]) ? request["messages"] : []).map((message) =>
    isRecord(message) ? message : {},
  );
  const provider = options.model?.provider ?? messages.map(providerOf).find((found) => found !== undefined);
  const origin = { provider: provider ?? "unknown", api: APIS.get(provider ?? "") };
  const builder = new ConversationBuilder(origin, options, reading.issues);
  if (!Array.isArray(request["messages"]))
    builder.issues.add("malformed", "messages", "", "There is no list of messages.");
  const prompt = request["system"] ?? request["instructions"];
  if (typeof prompt === "string") builder.system(prompt, "system");
  for (const [at, message] of messages.entries()) readMessage(message, `messages[${at}]`, builder);
  return builder.finish(readTools(request["tools"], builder));
}

function readMessage({ role, content, ...rest }: Fields, path: string, builder: ConversationBuilder): void {
  const { issues } = builder;
  issues.dropped(Object.keys(rest), path);
  const parts = typeof content === "string" ? [{ type: "text", text: content }] : content;
  if (role === "system") {
    if (typeof content === "string") builder.system(content, path);
    else issues.add("malformed", "system", path, "A system message is no text; it is left out.");
  } else if (!Array.isArray(parts)) {
    issues.add("malformed", "content", path, "The content of a message is neither text nor a list.");
  } else if (role === "user") {
    if (typeof content === "string") builder.user(content);
    else builder.user(listOf(parts, path, builder, readUserPart));
  } else if (role === "assistant") readAnswer(parts, path, builder);
  else if (role === "tool") readResults(parts, path, builder);
  else issues.add("malformed", "role", path, "A message is of no role that is known here; it is left out.");
}

function listOf(
  parts: readonly unknown[],
  path: string,
  { issues }: ConversationBuilder,
  read: typeof readUserPart,
): ContentBlock[] {
  return partsOf(parts, `${path}.content`, issues).flatMap(([part, place]) => read(part, place, issues));
}

function readAnswer(parts: readonly unknown[], path: string, builder: ConversationBuilder): void {
  const blocks: ContentBlock[] = [];
  for (const block of listOf(parts, path, builder, readAnswerPart)) {
    const last = blocks.at(-1);
    const joined =
      last?.type === "thinking" && block.type === "thinking" ? joinedReasoning(last, block) : undefined;
    if (joined) blocks[blocks.length - 1] = joined;
    else blocks.push(block);
  }
  builder.answer(blocks, originOf(parts, builder));
}

/** An answer with another provider's reasoning was that provider's. */
function originOf(parts: readonly unknown[], builder: ConversationBuilder): Partial<AssistantMessage> {
  const provider = providerOf({ content: parts });
  if (provider === undefined || provider === builder.provider) return {};
  return { provider, model: "unknown", api: APIS.get(provider) ?? "ai-sdk" };
}

function readResults(parts: readonly unknown[], path: string, builder: ConversationBuilder): void {
  const { issues } = builder;
  const others: ContentBlock[] = [];
  for (const [part, place] of partsOf(parts, `${path}.content`, issues)) {
    const { type, toolCallId, toolName, output, ...rest } = part;
    if (type !== "tool-result") {
      issues.opaque(type, place);
      others.push(nativeBlock(FORMAT, part));
    } else {
      const { content, isError, native } = readOutput(output, place, issues);
      const value = { ...native, ...rest };
      const beside = Object.keys(value).length > 0 ? ({ format: FORMAT, value } as const) : undefined;
      builder.result(typeof toolCallId === "string" ? toolCallId : "", content, isError, place, {
        native: beside,
        named: typeof toolName === "string" ? toolName : "",
      });
    }
  }
  if (others.length > 0) builder.user(others);
}

/** Tools as {@link AiSdkTool}s; a `ToolSet` holds code, which no session keeps. */
function readTools(tools: unknown, { issues }: ConversationBuilder): ToolDefinition[] {
  if (tools === undefined) return [];
  return (Array.isArray(tools) ? tools : [tools]).flatMap((tool, at): ToolDefinition[] => {
    const { name, description, inputSchema, type: _type, ...rest } = isRecord(tool) ? tool : {};
    if (typeof name !== "string") {
      issues.add(
        "dropped",
        "tool",
        `tools[${at}]`,
        "Tools are read from a list of names and JSON Schemas only.",
      );
      return [];
    }
    issues.dropped(Object.keys(rest), `tools[${at}]`);
    const described = typeof description === "string" ? { description } : {};
    return [{ name, ...described, ...(isRecord(inputSchema) ? { parameters: inputSchema } : {}) }];
  });
}

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
 * @throws EspalierError `empty-context` when there is nothing to send
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
  return buildRequest(withoutLostApprovals(given.context), { ...given, format: carrying });
}

/**
 * The context without approvals of calls that are no longer in it. They go before turns are made: a turn of nothing else
 * would be left empty, and the conversation would begin with an answer.
 */
function withoutLostApprovals(context: SessionContext): SessionContext {
  const asked = new Set<unknown>();
  for (const message of context.messages)
    if (message.role === "assistant" && !isFailedAnswer(message))
      for (const block of contentBlocks(message)) {
        const request = approvalRequest(nativeFor(block, FORMAT)?.value ?? {});
        if (request) asked.add(request.approvalId);
      }
  const isLost = (block: ContentBlock): boolean => {
    const said = nativeFor(block, FORMAT)?.value;
    return said?.["type"] === "tool-approval-response" && !asked.has(said["approvalId"]);
  };
  const messages = context.messages.map((message) => {
    if (message.role !== "user" || !Array.isArray(message.content)) return message;
    const content = message.content.filter((block) => !isLost(block));
    return content.length === message.content.length ? message : { ...message, content };
  });
  return { ...context, messages };
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

type UserTurn = Extract<Turn, { role: "user" }>;

type AnswerBlock = Extract<Turn, { role: "assistant" }>["content"][number];

type TurnResult = UserTurn["results"][number];

type UserBlock = UserTurn["content"][number];

/** Says in a failed result that its pictures stand after the results. */
const IMAGES_FOLLOW = "(see the images that follow)";

/**
 * `ModelMessage`s of the AI SDK, version 6 and later. Which provider will read them is not known here, so call ids and
 * names are of the length that all take (40 and 64 characters). A result of one text is `text`, of more `content`, a
 * failed one `error-text`; pictures of a failed result follow in the user's name.
 */
export const aiSdkFormat: RequestFormat<AiSdkRequest> = createFormat("image-data");

/** The same for version 5, which writes a picture in a result in another way. */
export const aiSdk5Format: RequestFormat<AiSdkRequest<"media">> = createFormat("media");

function createFormat<Type extends AiSdkMediaType>(pictureType: Type): RequestFormat<AiSdkRequest<Type>> {
  return {
    callIdLength: 40,
    toolNameLength: 64,
    acceptsThinking: acceptsReasoning,
    render: (conversation) => render(conversation, pictureType),
  };
}

function render<Type extends AiSdkMediaType>(
  { system, tools, turns }: Conversation,
  pictureType: Type,
): AiSdkRequest<Type> {
  const messages: AiSdkMessage<Type>[] = [];
  let names = new Map<string, string>();
  for (const turn of turns) {
    if (turn.role === "assistant") {
      names = new Map(
        turn.content.flatMap((block) => (block.type === "call" ? [[block.id, block.name]] : [])),
      );
      messages.push({ role: "assistant", content: turn.content.flatMap(renderAnswerBlock) });
    } else renderUser(turn, names, pictureType, messages);
  }
  return {
    ...(system === undefined ? {} : { system }),
    messages,
    ...(tools.length === 0
      ? {}
      : { tools: tools.map(({ parameters, ...tool }) => ({ ...tool, inputSchema: parameters })) }),
  };
}

function renderAnswerBlock(block: AnswerBlock): Extract<AiSdkMessage, { role: "assistant" }>["content"] {
  if (block.type === "text") return [{ type: "text", text: block.text }];
  if (block.type === "thinking") return renderReasoning(block.block);
  if (block.type === "opaque") return [block.value as unknown as AnswerPart];
  return [{ type: "tool-call", toolCallId: block.id, toolName: block.name, input: block.input }];
}

function renderUser<Type extends AiSdkMediaType>(
  turn: UserTurn,
  names: ReadonlyMap<string, string>,
  pictureType: Type,
  messages: AiSdkMessage<Type>[],
): void {
  if (turn.results.length > 0) {
    const content = turn.results.map((result) => ({
      type: "tool-result" as const,
      toolCallId: result.callId,
      toolName: names.get(result.callId) ?? "tool",
      output: renderOutput(result, pictureType),
    }));
    messages.push({ role: "tool", content });
  }
  const said = [...turn.results.flatMap(picturesOfFailed), ...turn.content];
  if (said.length > 0) messages.push({ role: "user", content: said.map(renderUserBlock) });
}

function renderOutput<Type extends AiSdkMediaType>(
  { isError, content }: TurnResult,
  pictureType: Type,
): AiSdkOutput<Type> {
  const texts = content.flatMap((block) => (block.type === "text" ? [block.text] : []));
  if (isError) return { type: "error-text", value: texts.length > 0 ? texts.join("\n\n") : IMAGES_FOLLOW };
  const [only] = texts;
  if (only !== undefined && content.length === 1) return { type: "text", value: only };
  return {
    type: "content",
    value: content.map((block): AiSdkText | AiSdkMedia<Type> => {
      if (block.type === "text") return { type: "text", text: block.text };
      if (block.type === "opaque") return block.value as unknown as AiSdkText;
      return { type: pictureType, data: block.data, mediaType: block.mediaType };
    }),
  };
}

function picturesOfFailed({ callId, isError, content }: TurnResult): UserBlock[] {
  const pictures = isError ? content.filter((block) => block.type === "image") : [];
  return pictures.length === 0
    ? []
    : [{ type: "text", text: `Images of the result of ${callId}:` }, ...pictures];
}

function renderUserBlock(block: UserBlock): Extract<AiSdkMessage, { role: "user" }>["content"][number] {
  if (block.type === "opaque") return block.value as unknown as UserPart;
  return block.type === "text"
    ? { type: "text", text: block.text }
    : { type: "image", image: block.data, mediaType: block.mediaType };
}
