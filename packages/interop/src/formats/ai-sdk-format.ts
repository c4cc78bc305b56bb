import type { Conversation, RequestFormat, Turn } from "@espalier/session-tree";
import type {
  AiSdkMedia,
  AiSdkMediaType,
  AiSdkMessage,
  AiSdkOutput,
  AiSdkRequest,
  AiSdkText,
} from "./ai-sdk-message.ts";
import { acceptsReasoning, renderReasoning } from "./ai-sdk-reasoning.ts";

type UserTurn = Extract<Turn, { role: "user" }>;
type AnswerBlock = Extract<Turn, { role: "assistant" }>["content"][number];
type Result = UserTurn["results"][number];
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
  { isError, content }: Result,
  pictureType: Type,
): AiSdkOutput<Type> {
  const texts = content.flatMap((block) => (block.type === "text" ? [block.text] : []));
  if (isError) return { type: "error-text", value: texts.length > 0 ? texts.join("\n\n") : IMAGES_FOLLOW };
  const [only] = texts;
  if (only !== undefined && content.length === 1) return { type: "text", value: only };
  return {
    type: "content",
    value: content.map((block): AiSdkText | AiSdkMedia<Type> =>
      block.type === "text"
        ? { type: "text", text: block.text }
        : { type: pictureType, data: block.data, mediaType: block.mediaType },
    ),
  };
}

function picturesOfFailed({ callId, isError, content }: Result): UserBlock[] {
  const pictures = isError ? content.filter((block) => block.type === "image") : [];
  return pictures.length === 0
    ? []
    : [{ type: "text", text: `Images of the result of ${callId}:` }, ...pictures];
}

function renderUserBlock(block: UserBlock): Extract<AiSdkMessage, { role: "user" }>["content"][number] {
  return block.type === "text"
    ? { type: "text", text: block.text }
    : { type: "image", image: block.data, mediaType: block.mediaType };
}
