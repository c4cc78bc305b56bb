// Separate from export-native.ts: each direction has a file.
import {
  type AssistantMessage,
  branchSummaryText,
  type ContentBlock,
  type CustomMessage,
  contentBlocks,
  contentText,
  healedImage,
  isRecord,
  openaiResponsesFormat,
  type ToolCallBlock,
  type ToolResultMessage,
  type Usage,
} from "@espalier/session-tree";
import type { NativeFile, NativeSession, NativeTarget } from "../export/export-native.ts";
import {
  type CompactionItem,
  isCompactionItem,
  leftOutText,
  PATH_DIFFERENCES,
  type PathItem,
} from "../export/native-path.ts";
import { nativeFor } from "../formats/native.ts";
import { openaiResponsesNative } from "../formats/openai.ts";
import { isOpaqueItem } from "./compaction.ts";
import { injectedBy } from "./items.ts";
import { itemText, ORIGIN } from "./rollout.ts";

const AGENT = "codex";

/** Version of Codex whose line format this is. Newer versions read it. */
const VERSION = "0.125.0";

/** Provider that the importer assumes if a header names none. Codex uses the provider of its settings then. */
const PROVIDER = "openai";

/** Custom types of texts about Codex's own tools and settings. Codex adds new ones to each session. */
const OWN_CONTEXT =
  /^codex\.(developer|system|agents_md|(.*\.)?(environment_context|(\w*_)?instructions|permissions|skills))$/;

/** Writes a path as a rollout of Codex. */
export const codexTarget: NativeTarget = {
  agent: AGENT,
  callIdLength: openaiResponsesFormat.callIdLength,
  toolNameLength: openaiResponsesFormat.toolNameLength,
  // Codex stores the readable summary of its reasoning without a signature, and the encrypted part beside the message.
  acceptsThinking: (block, { api }) => api === "openai-responses" && block.thinkingSignature === undefined,
  hasBlock: (block, answer) => (answer ? ownItem(block, answer) : ownPart(block)) !== undefined,
  isOwnContext: (customType) => OWN_CONTEXT.test(customType),
  // No `returningId`: lines have no ids, so in their own thread an import would read them as new entries.
  file: (session) => new RolloutLines(session),
};

type Fields = Record<string, unknown>;

const line = (timestamp: string, type: string, payload: Fields) => ({ timestamp, type, payload });

class RolloutLines implements NativeFile {
  readonly #session: NativeSession;
  /** Provider of the thread. Reasoning that another provider encrypted is left out. */
  readonly #provider: string;
  readonly #meta: Fields;
  /** Ids of calls of custom tools: their results have another item type. */
  readonly #custom = new Set<string>();
  /** Tokens of all calls so far. */
  readonly #total: Record<string, number> = {};
  /** Written items of the API for each item of the path. A compaction repeats those that it keeps. */
  readonly #written = new Map<PathItem, Fields[]>();

  constructor(session: NativeSession) {
    this.#session = session;
    this.#meta = headerOf(session);
    this.#provider =
      typeof this.#meta["model_provider"] === "string" ? this.#meta["model_provider"] : PROVIDER;
  }

  *header(): Generator<object, void> {
    const { id, timestamp, cwd, items } = this.#session;
    // An import names lines by their times where these ascend, else by their numbers, which other branches have too.
    const times = [timestamp, ...items.slice(0, 1).map(({ entry }) => entry.timestamp)];
    yield line(times.sort()[0]!, "session_meta", {
      ...this.#meta,
      id,
      ...forkOf(this.#session),
      timestamp,
      cwd,
      originator: "espalier",
      cli_version: VERSION,
      source: "cli",
    });
  }

  *linesOf(item: PathItem): Generator<object, void> {
    const { entry } = item;
    const { issues } = this.#session;
    const { timestamp } = entry;
    if (isCompactionItem(item)) return yield* this.#compaction(item);
    const { message } = item;
    if (message === undefined) return yield* this.#state(item);
    issues.add("changed", "id", entry.id, DIFFERENCES.noIds);
    if (message.role === "toolResult" && message.isError)
      issues.add("changed", "isError", entry.id, DIFFERENCES.noErrorMark);
    if (message.role === "toolResult" && message.details !== undefined)
      issues.add("dropped", "details", entry.id, PATH_DIFFERENCES.toolData);
    if (message.role === "assistant" && message.provider !== this.#provider)
      issues.add("changed", "model", entry.id, DIFFERENCES.provider);
    const payloads = this.#items(item);
    this.#written.set(item, payloads);
    for (const payload of payloads) yield* itemLines(payload, timestamp, message.role === "user");
    if (message.role === "assistant" && message.usage) yield this.#tokens(message.usage, timestamp);
  }

  *end(): Generator<object, void> {
    const { id: thread_id, name: thread_name, items, timestamp } = this.#session;
    if (thread_name === undefined) return;
    const payload = { type: "thread_name_updated", thread_id, thread_name };
    yield line(items.at(-1)?.entry.timestamp ?? timestamp, "event_msg", payload);
  }

  /** Items of the API for one item of the path. */
  #items(item: PathItem): Fields[] {
    const { entry, message } = item;
    if (message?.role === "assistant") return this.#answer(item, message);
    if (message?.role === "toolResult") return [this.#output(message)];
    if (message?.role === "custom") return [this.#context(item, message)];
    if (message?.role === "user") return [saidItem("user", message.content)];
    if (message?.role !== "branchSummary") return [];
    this.#session.issues.add("changed", "branchSummary", entry.id, DIFFERENCES.branchSummary);
    return [saidItem("user", branchSummaryText(message.summary))];
  }

  #answer({ entry }: PathItem, answer: AssistantMessage): Fields[] {
    const encrypted = this.#encrypted(entry);
    const thoughts = answer.content.filter(({ type }) => type === "thinking").length;
    // Each reasoning item has an encrypted part, and some have a readable summary too.
    const items = encrypted
      .splice(0, Math.max(0, encrypted.length - thoughts))
      .map((secret) => reasoning("", secret));
    const isOwn = answer.provider === this.#provider;
    for (const block of answer.content) {
      if (block.type === "thinking" && isOwn) items.push(reasoning(block.thinking, encrypted.shift()));
      else if (block.type === "thinking")
        this.#session.issues.add("dropped", "reasoning", entry.id, DIFFERENCES.otherReasoning);
      else if (block.type === "toolCall") items.push(this.#call(block, answer));
      else items.push(answerItem(block, answer));
    }
    return items;
  }

  /** Encrypted reasoning of an answer; empty if another provider encrypted it. */
  #encrypted(entry: PathItem["entry"]): Fields[] {
    const { details } = entry as { details?: unknown };
    if (!isRecord(details) || !Array.isArray(details["encryptedReasoning"])) return [];
    if (details["provider"] === this.#provider) return details["encryptedReasoning"].filter(isRecord);
    this.#session.issues.add("dropped", "reasoning", entry.id, DIFFERENCES.otherEncrypted);
    return [];
  }

  #call(block: ToolCallBlock, answer: AssistantMessage): Fields {
    const { id: call_id, name, arguments: input } = block;
    const isOwn = answer.provider === this.#provider;
    const fields = isOwn ? nativeFor(block, "openai-responses")?.value : undefined;
    if (fields?.["type"] === "custom_tool_call" && typeof input["input"] === "string") {
      this.#custom.add(call_id);
      return { ...fields, name, input: input["input"], call_id };
    }
    return { ...fields, type: "function_call", name, arguments: JSON.stringify(input ?? {}), call_id };
  }

  #output(result: ToolResultMessage): Fields {
    const { toolCallId: call_id } = result;
    const blocks = contentBlocks(result);
    const isText = blocks.every(({ type }) => type === "text") && blocks.length <= 1;
    return {
      type: this.#custom.has(call_id) ? "custom_tool_call_output" : "function_call_output",
      call_id,
      output: isText ? contentText({ content: blocks }) : blocks.map((block) => part("user", block)),
    };
  }

  /** Item of a text that no user typed: the original item, or a text of the user's role. */
  #context({ entry }: PathItem, { customType, content, details }: CustomMessage): Fields {
    const isOwn = this.#session.header?.importedFrom?.agent === AGENT && customType.startsWith(`${AGENT}.`);
    const name = isOwn ? customType.slice(AGENT.length + 1) : undefined;
    if (name === "developer" || name === "system") return saidItem(name, content);
    if (name === "agent_message" && isRecord(details))
      return { ...details, type: "agent_message", content: saidItem("user", content)["content"] };
    const item = saidItem("user", content);
    const { issues } = this.#session;
    if (details !== undefined) issues.add("dropped", "details", entry.id, PATH_DIFFERENCES.textData);
    if (name === undefined) issues.add("changed", "custom", entry.id, DIFFERENCES.extensionText);
    if (name === undefined || injectedBy(itemText(item)) === name) return item;
    const kinds = (item["content"] as unknown[]).map(() => name);
    return { ...item, internal_chat_message_metadata_passthrough: { content_item_kinds: kinds } };
  }

  /** Line of the settings of a turn. Other state is left out: Codex creates it again. */
  *#state({ entry }: PathItem): Generator<object, void> {
    const { timestamp } = entry;
    const { customType, data } = entry as { customType?: unknown; data?: unknown };
    if (customType === `${AGENT}.turn_context` && isRecord(data)) yield line(timestamp, "turn_context", data);
    else if (entry.type === "custom" && customType !== `${AGENT}.session_meta`)
      this.#session.issues.add("dropped", "state", entry.id, PATH_DIFFERENCES.state);
  }

  /** Lines of a compaction. The summary and the kept items replace everything before them. */
  *#compaction({ entry, kept }: CompactionItem): Generator<object, void> {
    const { summary, details, usage } = entry;
    const { issues } = this.#session;
    const record = isRecord(details) && isRecord(details[AGENT]) ? details[AGENT] : {};
    const { opaque, provider, ...fields } = record;
    if (Object.keys(fields).length > 0)
      issues.add("dropped", "details", entry.id, DIFFERENCES.compactionRecord);
    const secrets = Array.isArray(opaque) ? opaque.filter(isOpaqueItem) : [];
    const isOwn = provider === this.#provider && secrets.length > 0;
    const isOpaque = isOwn && (details as Fields)["opaqueSummary"] === true;
    if (secrets.length > 0 && !isOwn) issues.add("dropped", "reasoning", entry.id, DIFFERENCES.otherSummary);
    if (isOpaque) issues.add("changed", "compaction", entry.id, DIFFERENCES.ownSummary);
    const hasHeading = summary.startsWith(HEADING);
    if (!hasHeading && !isOpaque) issues.add("changed", "compaction", entry.id, DIFFERENCES.heading);
    const message = isOpaque ? "" : hasHeading ? summary : `${HEADING}\n${summary}`;
    const { timestamp } = entry;
    if (isRecord(usage)) yield this.#tokens(usage, timestamp);
    yield line(timestamp, "compacted", {
      message,
      replacement_history: [
        ...(isOpaque ? secrets : [saidItem("user", message)]),
        ...kept.flatMap((item) => this.#written.get(item) ?? []),
      ],
      ...("compaction_response_id" in fields
        ? { compaction_response_id: fields["compaction_response_id"] }
        : {}),
    });
    yield line(timestamp, "event_msg", { type: "context_compacted" });
  }

  /** Line with the tokens of a call. `input_tokens` includes those of the cache. */
  #tokens(usage: Usage, timestamp: string): object {
    const { input = 0, output = 0, cacheRead = 0, cacheWrite = 0 } = usage;
    const all = input + cacheRead + cacheWrite;
    const last = {
      input_tokens: all,
      cached_input_tokens: cacheRead,
      cache_write_input_tokens: cacheWrite,
      output_tokens: output,
      reasoning_output_tokens: 0,
      total_tokens: usage.totalTokens ?? all + output,
    };
    for (const [key, count] of Object.entries(last)) this.#total[key] = (this.#total[key] ?? 0) + count;
    const info = {
      total_token_usage: { ...this.#total },
      last_token_usage: last,
      model_context_window: null,
    };
    return line(timestamp, "event_msg", { type: "token_count", info, rate_limits: null });
  }
}

/** Differences between a path and its lines in Codex's file. */
const DIFFERENCES = {
  noIds: "Codex's file has no ids of entries.",
  noErrorMark: "Codex's file has no mark for a failed result; the text is the same.",
  provider: "Codex's file does not name the provider of an answer.",
  branchSummary: "A branch summary becomes a text of the user's role.",
  otherReasoning: "Reasoning of another provider is left out.",
  otherEncrypted: "Reasoning that another provider encrypted is left out.",
  extensionText: "A text of an extension becomes a text of the user's role.",
  compactionRecord: "The record of a compaction is left out, except its summary and its kept messages.",
  otherSummary: "A summary that another provider encrypted is left out; its readable form is carried.",
  ownSummary: "A summary that its provider encrypted is carried without its readable form.",
  heading: "A summary gets the heading of Codex.",
};

/** First words of every summary of Codex, by which Codex distinguishes a summary from a user's text. */
const HEADING =
  "Another language model started to solve this problem and produced a summary of its thinking process. You also have access to the state of the tools that were used by that language model. Use this to build on the work that has already been done and avoid duplicating work. Here is the summary produced by the other language model, use the information in this summary to assist with your own analysis:";

/** Header fields that are left out: references to other files, and instructions, which Codex adds itself. */
const OF_SEGMENT: ReadonlySet<string> = new Set(
  `history_base history_mode forked_from_id forked_from_ordinal_exclusive session_id base_instructions
  context_window account_scoped thread_source multi_agent_version runtime_workspace_roots`.split(/\s+/),
);

/** Header of the original thread; empty if the session was not imported from Codex. */
function headerOf({ items, header }: NativeSession): Fields {
  const headers = items.flatMap(({ entry }): Fields[] => {
    const { customType, data } = entry as { customType?: unknown; data?: unknown };
    return customType === `${AGENT}.session_meta` && isRecord(data) ? [data] : [];
  });
  const own = headers.find(({ id }) => id === header?.importedFrom?.id) ?? headers.at(-1) ?? {};
  return Object.fromEntries(Object.entries(own).filter(([field]) => !OF_SEGMENT.has(field)));
}

/**
 * Returns the lineage of the thread. The entries of a copied rollout keep their ids when the file is imported beside it.
 * Otherwise the importer reads a field of its own, because `forked_from_id` can only name a thread of Codex.
 */
function forkOf({ header, items }: NativeSession): Fields {
  if (!header) return {};
  const { agent, id: original } = header.importedFrom ?? {};
  const until = items
    .map(({ entry }) => entry.timestamp)
    .sort()
    .at(-1);
  return {
    ...(agent === AGENT ? { forked_from_id: original } : {}),
    [ORIGIN]: { session_id: header.id, until },
  };
}

/** Lines of an item, with events for the user interface of Codex, which shows these and not the item. */
function* itemLines(item: Fields, timestamp: string, isTyped: boolean): Generator<object, void> {
  const event = (type: string, fields: Fields) => line(timestamp, "event_msg", { type, ...fields });
  const { type, role, summary } = item;
  const message = itemText(item);
  if (type === "reasoning" && Array.isArray(summary))
    for (const { text } of summary) yield event("agent_reasoning", { text });
  if (type === "message" && role === "assistant")
    yield event("agent_message", { message, phase: null, memory_citation: null });
  yield line(timestamp, "response_item", item);
  if (isTyped) yield event("user_message", { message, images: [], local_images: [], text_elements: [] });
}

function reasoning(text: string, secret: Fields | undefined): Fields {
  return {
    type: "reasoning",
    ...(typeof secret?.["id"] === "string" ? { id: secret["id"] } : {}),
    summary: text === "" ? [] : [{ type: "summary_text", text }],
    content: null,
    encrypted_content: secret?.["encrypted_content"] ?? null,
  };
}

const saidItem = (role: string, content: unknown): Fields => ({
  type: "message",
  role,
  content: contentBlocks({ content }).map((block) => part(role, block)),
});

/** Item of a block of an answer: a message for a text, and for a block of another API. */
function answerItem(block: ContentBlock, answer: AssistantMessage): Fields {
  const own = block.type === "text" ? undefined : ownItem(block, answer);
  return own ? { ...own } : saidItem("assistant", [block]);
}

/** The item that a block of an answer is; undefined for a block of another API. */
const ownItem = (block: ContentBlock, answer: AssistantMessage): object | undefined =>
  openaiResponsesNative.opaque?.(block, {
    answer,
    model: { provider: answer.provider, modelId: answer.model },
  });

/** The part of a user's message that a block of this API is; undefined for any other block. */
function ownPart(block: ContentBlock): object | undefined {
  const native = openaiResponsesNative.opaque?.(block, { answer: undefined, model: null });
  return native && "type" in native && String(native.type).startsWith("input_") ? native : undefined;
}

/** Returns a part of a message's content. Of an answer, it is a text. */
function part(role: string, block: ContentBlock): Fields {
  const type = role === "assistant" ? "output_text" : "input_text";
  if (block.type === "text") {
    const isRefusal =
      role === "assistant" && nativeFor(block, "openai-responses")?.value["type"] === "refusal";
    return isRefusal ? { type: "refusal", refusal: block.text } : { type, text: block.text };
  }
  const native = ownPart(block);
  if (native) return { ...native };
  const image = block.type === "image" ? healedImage(block) : undefined;
  if (image?.type === "image")
    return { type: "input_image", image_url: `data:${image.mediaType};base64,${image.data}` };
  return { type, text: image?.type === "text" ? image.text : leftOutText(block) };
}
