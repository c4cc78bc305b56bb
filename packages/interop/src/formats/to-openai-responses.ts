import {
  buildRequest,
  type ContentBlock,
  type OpenaiResponsesItem,
  type OpenaiResponsesRequest,
  openaiResponsesFormat,
} from "@espalier/session-tree";
import type { Cargo } from "./cargo.ts";
import { carryingFormat } from "./carrying-format.ts";
import { type ConversationSource, readSource, type WriteOptions } from "./conversation-source.ts";
import { formatDataUrl, parseDataUrl } from "./data-url.ts";
import { nativeFor, remoteImageUrl } from "./native.ts";

type Message<Role> = Extract<OpenaiResponsesItem, { role: Role }>;
type Call = Extract<OpenaiResponsesItem, { type: "function_call" }>;
type Part = Message<"user">["content"][number];

/** Types of parts begin so; every other carried block is an item. */
const PART = /^input_/;

/**
 * The request of the Responses API: what `buildRequest` makes with `openaiResponsesFormat`, and in it the items and
 * parts that only this API has, where it was this provider that gave them. Of those the types name the common ones alone.
 *
 * For a valid conversation it gives back what {@link fromOpenaiResponses} read, in this normal form: no item has
 * `status`, and none but reasoning has `id`; system and developer messages stand in `instructions`; each text of an answer is a message of its own whose
 * content is a string; content of a user is a list of parts; an output of texts alone is one string with a blank line
 * between; `detail` of a picture is there, arguments are written without white space, an empty output says
 * `(no output)`; outputs stand together behind their calls; reasoning has its id, summary and encrypted content, and none is
 * without or at the end of an answer; what stands before all user messages follows an opening by the user.
 *
 * @throws SessionTreeError `empty-context` when there is nothing to send
 */
export function toOpenaiResponses(
  source: ConversationSource,
  options: WriteOptions = {},
): OpenaiResponsesRequest {
  const given = readSource(source, options);
  return buildRequest(given.context, { ...given, format: openaiResponsesNative });
}

/** `openaiResponsesFormat`, with what only this API can say. */
export const openaiResponsesNative = carryingFormat(
  openaiResponsesFormat,
  { format: "openai-responses", keepsTextsApart: false },
  (request, cargo): OpenaiResponsesRequest => {
    const custom = new Set<string>();
    return { ...request, input: request.input.flatMap((item) => unload(item, cargo, custom)) };
  },
);

/** @param custom ids of the calls of custom tools so far */
function unload(item: OpenaiResponsesItem, cargo: Cargo, custom: Set<string>): OpenaiResponsesItem[] {
  if (item.type === "message")
    return item.role === "user" ? unloadUser(item, cargo) : [unloadText(item, cargo)];
  if (item.type === "function_call") return [unloadCall(item, cargo, custom)];
  if (item.type !== "function_call_output") return [item];
  const { call_id, output } = item;
  const given = typeof output === "string" ? output : output.map((part) => unloadPart(part, cargo));
  const type = custom.has(call_id) ? "custom_tool_call_output" : item.type;
  return [{ type, call_id, output: given } as OpenaiResponsesItem];
}

/** The user's message, parted where something carried is an item of its own. */
function unloadUser({ content }: Message<"user">, cargo: Cargo): OpenaiResponsesItem[] {
  const items: OpenaiResponsesItem[] = [];
  for (const part of content) {
    const unloaded = unloadPart(part, cargo);
    const last = items.at(-1);
    if (unloaded !== part && !PART.test(unloaded.type))
      items.push(unloaded as unknown as OpenaiResponsesItem);
    else if (last?.type === "message" && last.role === "user") last.content.push(unloaded);
    else items.push({ type: "message", role: "user", content: [unloaded] });
  }
  return items;
}

function unloadText(item: Message<"assistant">, cargo: Cargo): OpenaiResponsesItem {
  const carried = cargo.at(item.content);
  if (!carried) return item;
  const fields = nativeFor(carried, "openai-responses")?.value ?? {};
  if (carried.type !== "text") return fields as OpenaiResponsesItem;
  const { type, ...extra } = fields;
  const content = type === "refusal" ? [{ type, refusal: carried.text }] : carried.text;
  return { ...item, content, ...extra } as OpenaiResponsesItem;
}

/** A custom tool takes text instead of arguments. */
function unloadCall(item: Call, cargo: Cargo, custom: Set<string>): OpenaiResponsesItem {
  const { type, ...extra } = cargo.call(item.call_id) ?? {};
  const { call_id, name } = item;
  const { input } = JSON.parse(item.arguments) as { input?: unknown };
  if (type !== "custom_tool_call" || typeof input !== "string") return { ...item, ...extra };
  custom.add(call_id);
  return { type, call_id, name, input, ...extra } as unknown as OpenaiResponsesItem;
}

function unloadPart(part: Part, cargo: Cargo): Part {
  const carried = part.type === "input_image" ? cargo.at(parseDataUrl(part.image_url)?.data) : undefined;
  return carried ? (nativeForm(carried) as Part) : part;
}

/** A carried block as this API writes it; no type can promise more of it than that it is an object. */
function nativeForm(block: ContentBlock): object {
  const fields = nativeFor(block, "openai-responses")?.value ?? {};
  const url = block.type === "image" ? formatDataUrl(block.mimeType, block.data) : remoteImageUrl(block);
  return url === undefined ? fields : { type: "input_image", image_url: url, detail: "auto", ...fields };
}
