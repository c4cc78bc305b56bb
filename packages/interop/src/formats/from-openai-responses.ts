import { type ContentBlock, isRecord } from "@espalier/session-tree";
import { ConversationBuilder } from "./conversation-builder.ts";
import type { ConversationOptions, ImportedConversation } from "./imported-conversation.ts";
import { nativeBlock, withNative } from "./native.ts";
import { extraFields, isGiven, readContent, readReasoning, unreadFields } from "./openai-items.ts";
import { readArguments } from "./openai-parts.ts";
import { readOpenaiTools } from "./openai-tools.ts";

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
    if (this.#answer.length > 0) this.#builder.answer(this.#answer);
    this.#answer = [];
  }
}

/** What a message of an answer says of itself (`phase`) belongs to each of its texts. */
function withExtra(block: ContentBlock, extra: Fields): ContentBlock {
  if (block.type !== "text" || Object.keys(extra).length === 0) return block;
  const known = (block as { native?: { value: Fields } }).native?.value;
  return withNative(block, FORMAT, { ...known, ...extra });
}
