import {
  buildRequest,
  type ContentBlock,
  isRecord,
  type OpenaiResponsesItem,
  type OpenaiResponsesRequest,
  openaiResponsesFormat,
} from "@espalier/session-tree";
import { type Cargo, carryingFormat } from "./carrying.ts";
import {
  ConversationBuilder,
  type ConversationOptions,
  type ConversationSource,
  type ImportedConversation,
  readSource,
  type WriteOptions,
} from "./conversation.ts";
import { formatDataUrl, nativeBlock, nativeFor, parseDataUrl, remoteImageUrl, withNative } from "./native.ts";
import {
  extraFields,
  isGiven,
  readArguments,
  readContent,
  readOpenaiTools,
  readReasoning,
  refusalFacts,
  unreadFields,
} from "./openai-blocks.ts";

const FORMAT = "openai-responses";

type Fields = Record<string, unknown>;

/**
 * A conversation of the Responses API as neutral messages: a request (`{instructions, input, tools}`), or its list of
 * items; output items of a response are items, too. Never throws: what is not of the format is passed over and told in
 * `issues`.
 *
 * - the items of one answer (reasoning, messages, calls) become one message
 * - reasoning keeps its item in `thinkingSignature`; it goes back by its encrypted content, to the same model only
 * - a `compaction`, files, what hosted tools did: kept as they are for this provider, and given back by
 *   `toOpenaiResponses`; so is a call of a custom tool
 * - `id` and `status` of items are not kept: a request that is sent whole has none. `annotations` are left out, and told
 * - an answer that refuses failed (`stopReason` `error`), as one of another provider; this one gets it back
 */
export function fromOpenaiResponses(input: unknown, options: ConversationOptions = {}): ImportedConversation {
  const builder = new ConversationBuilder({ api: "openai-responses", provider: "openai" }, options);
  const plain = builder.read(input);
  const request: Fields = Array.isArray(plain) ? { input: plain } : isRecord(plain) ? plain : {};
  const { instructions, tools } = request;
  if (typeof instructions === "string") builder.system(instructions, "instructions");
  new ItemReader(builder).readAll(request["input"]);
  return builder.finish(readOpenaiTools(Array.isArray(tools) ? tools : [], builder.issues));
}

/** Reads items in order; those of a model are gathered until something else follows. */
class ItemReader {
  readonly #builder: ConversationBuilder;
  #answer: ContentBlock[] = [];

  constructor(builder: ConversationBuilder) {
    this.#builder = builder;
  }

  readAll(input: unknown): void {
    const { issues } = this.#builder;
    if (typeof input === "string") this.#builder.user(input);
    else if (!Array.isArray(input)) issues.add("malformed", "input", "", "There is no list of items.");
    else for (const [at, item] of input.entries()) this.#read(item, `input[${at}]`);
    this.#endAnswer();
  }

  #read(item: unknown, path: string): void {
    const { issues } = this.#builder;
    if (!isRecord(item)) issues.add("malformed", "item", path, "An item is no object; it is left out.");
    else if (item["type"] === "message" || (item["type"] === undefined && "role" in item))
      this.#message(item, path);
    else if (item["type"] === "reasoning") this.#reasoning(item, path);
    else if (typeof item["call_id"] === "string" && this.#callOrOutput(item, item["call_id"], path)) return;
    else if (item["type"] === "item_reference" || typeof item["type"] !== "string")
      issues.add("malformed", "item", path, "An item says nothing that could be kept; it is left out.");
    else this.#other(item, path);
  }

  #message({ type: _type, role, content, ...rest }: Fields, path: string): void {
    const { issues, provider } = this.#builder;
    const blocks = readContent(content, `${path}.content`, issues, provider);
    if (role === "assistant") {
      const extra = extraFields(rest);
      for (const block of blocks) this.#answer.push(withExtra(block, extra));
      return;
    }
    this.#endAnswer();
    issues.dropped(unreadFields(rest), path);
    if (role === "user") this.#builder.user(typeof content === "string" ? content : blocks);
    else if (role === "system" || role === "developer") {
      const texts = blocks.flatMap((block) => (block.type === "text" ? [block.text] : []));
      this.#builder.system(texts.join("\n\n"), path);
    } else
      issues.add("malformed", "role", path, "A message is of no role that is known here; it is left out.");
  }

  #reasoning(item: Fields, path: string): void {
    this.#answer.push(readReasoning(item));
    if (typeof item["encrypted_content"] === "string") return;
    const message = "Reasoning without encrypted content is kept; requests leave it out.";
    this.#builder.issues.add("changed", "reasoning", path, message);
  }

  /** Calls of the client's tools and their outputs; false for any other item. */
  #callOrOutput(item: Fields, id: string, path: string): boolean {
    const { issues, provider } = this.#builder;
    const { type, call_id: _id, name, arguments: given, input, output, ...rest } = item;
    const extra = extraFields(rest);
    if (type === "function_call" && typeof name === "string") {
      const call = { type: "toolCall", id, name, arguments: readArguments(given, path, issues) } as const;
      this.#answer.push(withNative(call, FORMAT, extra));
    } else if (type === "custom_tool_call" && typeof name === "string") {
      const call = { type: "toolCall", id, name, arguments: { input: String(input ?? "") } } as const;
      this.#answer.push(withNative(call, FORMAT, { type, ...extra }));
    } else if (type === "function_call_output" || type === "custom_tool_call_output") {
      this.#endAnswer();
      issues.dropped(Object.keys(extra), path);
      const content = isRecord(output) ? JSON.stringify(output) : (output ?? "");
      this.#builder.result(id, readContent(content, `${path}.output`, issues, provider), false, path);
    } else return false;
    return true;
  }

  #other(item: Fields, path: string): void {
    const { issues, provider } = this.#builder;
    issues.opaque(item["type"], path);
    const block = nativeBlock(FORMAT, item, provider);
    if (!isGiven(item)) {
      this.#answer.push(block);
      return;
    }
    this.#endAnswer();
    this.#builder.user([block]);
  }

  #endAnswer(): void {
    if (this.#answer.length > 0) this.#builder.answer(this.#answer, refusalFacts(this.#answer, FORMAT));
    this.#answer = [];
  }
}

/** What a message of an answer says of itself (`phase`) belongs to each of its texts. */
function withExtra(block: ContentBlock, extra: Fields): ContentBlock {
  if (block.type !== "text" || Object.keys(extra).length === 0) return block;
  const known = (block as { native?: { value: Fields } }).native?.value;
  return withNative(block, FORMAT, { ...known, ...extra });
}

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
 * @throws EspalierError `empty-context` when there is nothing to send
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
