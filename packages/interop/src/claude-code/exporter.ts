// Separate from export-native.ts: each direction has a file.
import {
  type AssistantBlock,
  type AssistantMessage,
  anthropicFormat,
  branchSummaryText,
  type ContentBlock,
  type CustomMessage,
  contentBlocks,
  contentText,
  healedImage,
  isRecord,
  type StopReason,
  type ToolResultMessage,
  type UserContent,
} from "@espalier/session-tree";
import type { NativeFile, NativeSession, NativeTarget } from "../export/export-native.ts";
import {
  type CompactionItem,
  hasEncrypted,
  isCompactionItem,
  leftOutText,
  PATH_DIFFERENCES,
  type PathItem,
} from "../export/native-path.ts";
import { anthropicNative } from "../formats/anthropic.ts";
import { uuidFromText, uuidOf, uuidOfLine } from "../import/entry.ts";
import type { Line } from "./line-facts.ts";

const AGENT = "claude-code";

/** Version in the lines: the one that the exports were tested with. */
const VERSION = "2.1.330";

/** Attachments about Claude Code's own tools and settings. Claude Code adds new ones to each session. */
const OWN_CONTEXT: ReadonlySet<string> = new Set(
  `environment model skill_listing deferred_tools_delta agent_listing_delta date total_tokens_reminder
  session_context remote_session_change prompt_snapshot date_change mcp_instructions_delta output_style
  plan_mode plan_mode_exit auto_mode auto_mode_exit todo_reminder task_reminder token_usage
  command_permissions budget_usd`
    .split(/\s+/)
    .map((name) => `${AGENT}.${name}`),
);

/** Writes a path as a session file of Claude Code. */
export const claudeCodeTarget: NativeTarget = {
  agent: AGENT,
  callIdLength: anthropicFormat.callIdLength,
  toolNameLength: anthropicFormat.toolNameLength,
  acceptsThinking: (block, answer) =>
    answer.provider === "anthropic" && anthropicFormat.acceptsThinking(block, answer),
  hasBlock: (block, answer) => ownFields(block, answer) !== undefined,
  isOwnContext: (customType) => OWN_CONTEXT.has(customType),
  returningId: uuidOf,
  file: (session) => new ClaudeCodeLines(session),
};

/** Lines of one file, each below the previous one. */
class ClaudeCodeLines implements NativeFile {
  readonly #session: NativeSession;
  readonly #version: string;
  /** True for a session that was imported from Claude Code: attachments and state are written as they were. */
  readonly #isOwn: boolean;
  /** Id of the last line, which is the parent of the next one. */
  #parentUuid: string | null = null;
  /** Ids of the lines of each item. A compaction names the lines that it keeps by these ids. */
  readonly #uuids = new Map<PathItem, string[]>();
  /** Id of the line of each call. */
  readonly #callers = new Map<string, string>();

  constructor(session: NativeSession) {
    this.#session = session;
    const { agent, version } = session.header?.importedFrom ?? {};
    this.#isOwn = agent === AGENT;
    this.#version = (this.#isOwn && version) || VERSION;
  }

  header(): Line[] {
    return [];
  }

  *linesOf(item: PathItem): Generator<Line, void> {
    const { entry, isMade } = item;
    if (!isMade && hasEncrypted(entry))
      this.#session.issues.add("dropped", "reasoning", entry.id, PATH_DIFFERENCES.encrypted);
    if (isCompactionItem(item)) return yield* this.#compaction(item);
    const lines = this.#bodies(item);
    if (lines.length === 0) return;
    const first = isMade
      ? uuidFromText(`${uuidOf(entry.id)}/result/${(item.message as ToolResultMessage).toolCallId}`)
      : this.#uuid(item);
    const uuids = lines.map((_, at) => uuidOfLine(first, at));
    this.#uuids.set(item, uuids);
    for (const [at, line] of lines.entries()) {
      const original = at === 0 && !isMade ? this.#originOf(item, first) : {};
      yield this.#line(item, uuids[at]!, { ...line, ...original });
    }
  }

  /**
   * Yields a line without content if the last line is a hidden text or a compaction that keeps lines (Claude Code does not end
   * a session in such a line; it would continue from an earlier one), and the name.
   */
  *end(): Generator<Line, void> {
    const { items, name: customTitle, id: sessionId } = this.#session;
    const last = items.findLast((item) => item.kept || item.message);
    const isHidden = last?.message?.role === "custom" || last?.message?.role === "branchSummary";
    if (last && (isHidden || last.kept?.length)) {
      const line = { type: "system", subtype: "turn_duration", durationMs: 0, isMeta: false };
      yield this.#line(last, uuidFromText(`${uuidOf(last.entry.id)}/end`), line);
    }
    if (customTitle !== undefined) yield { type: "custom-title", customTitle, sessionId };
  }

  #uuid({ entry: { id } }: PathItem): string {
    const uuid = uuidOf(id);
    if (uuid !== id) this.#session.issues.add("changed", "id", id, DIFFERENCES.newId);
    return uuid;
  }

  /** Original of a copied line, as forks of Claude Code name it; an import gives the copy the id of the original. */
  #originOf({ entry }: PathItem, uuid: string): Line {
    const { id, header } = this.#session;
    const sessionId = this.#isOwn ? header?.importedFrom?.id : header?.id;
    if (sessionId === undefined || (sessionId === id && uuid === entry.id)) return {};
    return { forkedFrom: { sessionId, messageUuid: entry.id } };
  }

  /** A line with the common fields of all lines. */
  #line({ entry: { timestamp } }: PathItem, uuid: string, line: Line): Line {
    const { id: sessionId, cwd } = this.#session;
    const parentUuid = this.#parentUuid;
    this.#parentUuid = uuid;
    return {
      parentUuid,
      isSidechain: false,
      ...line,
      uuid,
      timestamp,
      userType: "external",
      entrypoint: "cli",
      cwd,
      sessionId,
      version: this.#version,
      gitBranch: "",
    };
  }

  #bodies(item: PathItem): Line[] {
    const { entry, message } = item;
    if (message === undefined) return this.#state(item);
    if (message.role === "assistant") return this.#answer(item, message);
    if (message.role === "toolResult") return [this.#result(item, message)];
    if (message.role === "custom") return [this.#context(item, message)];
    if (message.role === "user") return [userLine(contentOf(message.content))];
    if (message.role !== "branchSummary") return [];
    this.#session.issues.add("changed", "branchSummary", entry.id, DIFFERENCES.branchSummary);
    return [{ ...userLine(branchSummaryText(message.summary)), isMeta: true }];
  }

  /** One line for each block of an answer. Each line repeats id, model, stop reason and usage of the answer. */
  #answer({ entry }: PathItem, answer: AssistantMessage): Line[] {
    const { issues } = this.#session;
    const { provider, model, usage, responseId } = answer as AssistantMessage & { responseId?: unknown };
    if (provider !== "anthropic") issues.add("changed", "model", entry.id, DIFFERENCES.provider);
    if (!usage) issues.add("changed", "usage", entry.id, DIFFERENCES.noUsage);
    const message = {
      id: (typeof responseId === "string" && responseId) || `msg_${uuidOf(entry.id).replaceAll("-", "")}`,
      type: "message",
      role: "assistant",
      model,
      content: [],
      stop_reason: STOP_REASONS[answer.stopReason] ?? "end_turn",
      stop_sequence: null,
      usage: {
        input_tokens: usage?.input ?? 0,
        cache_creation_input_tokens: usage?.cacheWrite ?? 0,
        cache_read_input_tokens: usage?.cacheRead ?? 0,
        output_tokens: usage?.output ?? 0,
        service_tier: "standard",
      },
    };
    return answer.content.map((block, apiBlockIndex) => {
      if (block.type === "toolCall") this.#callers.set(block.id, uuidOfLine(entry.id, apiBlockIndex));
      return {
        message: { ...message, content: [answerBlock(block, answer)] },
        apiBlockIndex,
        type: "assistant",
      };
    });
  }

  #result({ entry, isMade }: PathItem, result: ToolResultMessage): Line {
    const { toolCallId, isError, details } = result;
    const caller = this.#callers.get(toolCallId);
    if (details !== undefined && !this.#isOwn)
      this.#session.issues.add("dropped", "details", entry.id, PATH_DIFFERENCES.toolData);
    const content = resultContent(result);
    return {
      ...userLine([{ tool_use_id: toolCallId, type: "tool_result", content, is_error: isError === true }]),
      ...(details !== undefined && this.#isOwn && !isMade ? { toolUseResult: details } : {}),
      ...(caller === undefined ? {} : { sourceToolAssistantUUID: caller }),
    };
  }

  /** Line of a text that no user typed: the original attachment, or a hidden text. */
  #context(item: PathItem, { customType, content, details }: CustomMessage): Line {
    const { entry } = item;
    const { attachment, renderedRole } = isRecord(details) ? details : {};
    if (this.#isOwn && customType.startsWith(`${AGENT}.`) && isRecord(attachment)) {
      const isPrompt = attachment["type"] === "queued_command" && attachment["prompt"] === content;
      return {
        attachment,
        type: "attachment",
        ...(isPrompt ? {} : { rendered: [{ content: contentOf(content) }] }),
        ...(typeof renderedRole === "string" ? { renderedRole } : {}),
      };
    }
    const { issues } = this.#session;
    if (details !== undefined) issues.add("dropped", "details", entry.id, PATH_DIFFERENCES.textData);
    if (customType !== `${AGENT}.meta`) issues.add("changed", "custom", entry.id, DIFFERENCES.extensionText);
    return { ...userLine(contentOf(content)), isMeta: true };
  }

  /** Lines of state that Claude Code keeps in its tree. Other state, and state of other agents, is left out. */
  #state({ entry }: PathItem): Line[] {
    if (entry.type !== "custom") return [];
    const { customType, data } = entry as { customType: string; data?: unknown };
    const name = customType.startsWith(`${AGENT}.`) ? customType.slice(AGENT.length + 1) : "";
    if (this.#isOwn && isRecord(data)) {
      if (name === "transcript-only")
        return [{ ...userLine(contentOf(data["content"] as UserContent)), isVisibleInTranscriptOnly: true }];
      if (data["type"] === name) return [{ attachment: data, type: "attachment" }];
      // The place of a line is never read from the content of a session.
      const { parentUuid: _parent, logicalParentUuid: _logical, isSidechain: _side, ...said } = data;
      if (data["subtype"] === name && name !== "compact_boundary")
        return [{ isMeta: false, ...said, type: "system" }];
    }
    this.#session.issues.add("dropped", "state", entry.id, PATH_DIFFERENCES.state);
    return [];
  }

  /** The two lines of a compaction: a boundary, which names the kept lines, and a summary. */
  *#compaction(item: CompactionItem): Generator<Line, void> {
    const { entry, kept } = item;
    const { summary, tokensBefore, details } = entry;
    const id = this.#uuid(item);
    const record = isRecord(details) ? details : {};
    const metadata: Line = isRecord(record[AGENT]) ? record[AGENT] : {};
    const uuids = kept.flatMap((each) => (each.message ? (this.#uuids.get(each) ?? []) : []));
    yield this.#line(item, uuidFromText(`${id}/boundary`), {
      parentUuid: null,
      logicalParentUuid: this.#parentUuid,
      type: "system",
      subtype: "compact_boundary",
      content: "Conversation compacted",
      isMeta: false,
      level: "info",
      compactMetadata: {
        trigger: record["reason"] === "manual" ? "manual" : "auto",
        ...metadata,
        preTokens: tokensBefore ?? 0,
        ...keptLines(id, uuids),
      },
    });
    const isOwn = summary.startsWith(HEADING);
    if (!isOwn) this.#session.issues.add("changed", "compaction", entry.id, DIFFERENCES.heading);
    yield this.#line(item, id, {
      ...userLine(
        isOwn
          ? summary
          : `${HEADING} a previous conversation that ran out of context. The summary below covers the earlier portion of the conversation.\n\nSummary:\n${summary}`,
      ),
      isVisibleInTranscriptOnly: true,
      isCompactSummary: true,
      ...this.#originOf(item, id),
    });
  }
}

/** Differences between a path and its lines in Claude Code's file. */
const DIFFERENCES = {
  newId: "The id of an entry is not a UUID; its line has a UUID made from it.",
  branchSummary: "A branch summary becomes a hidden text.",
  provider: "Claude Code's file names the model of an answer, and not its provider.",
  noUsage: "An answer without usage gets zeros.",
  extensionText: "A text of an extension becomes a text that no user typed, without its name.",
  heading: "A summary gets the heading of Claude Code.",
};

/** Fields of a boundary that name the kept lines, for newer and older versions of Claude Code; undefined without any. */
const keptLines = (anchorUuid: string, uuids: readonly string[]) => ({
  preservedSegment: uuids[0] && { headUuid: uuids[0], anchorUuid, tailUuid: uuids.at(-1) },
  preservedMessages: uuids[0] && { anchorUuid, uuids, allUuids: uuids },
});

/** First words of every summary of Claude Code. */
const HEADING = "This session is being continued from";

/** Stop reasons of the API by those of the session format. Failed answers have none: they are not written. */
const STOP_REASONS: Readonly<Partial<Record<StopReason, string>>> = {
  stop: "end_turn",
  length: "max_tokens",
  toolUse: "tool_use",
  deferred: "pause_turn",
};

const userLine = (content: string | object[]): Line => ({ type: "user", message: { role: "user", content } });

/** Fields of a block that only Claude Code's provider has. Its own blocks are written unchanged. */
const ownFields = (block: ContentBlock, answer?: AssistantMessage): object | undefined =>
  anthropicNative.opaque?.(block, { answer, model: { provider: "anthropic", modelId: "" } });

function contentOf(content: UserContent): string | object[] {
  return typeof content === "string" ? content : contentBlocks({ content }).map((block) => saidBlock(block));
}

/** Content of a result: a string for one text without fields of the API, and for an empty result; else blocks. */
function resultContent(result: ToolResultMessage): string | object[] {
  const [only, ...others] = contentBlocks(result);
  const isText = others.length === 0 && (!only || (only.type === "text" && !ownFields(only)));
  return isText ? contentText(result) : contentOf(result.content);
}

/** A block of a user's message or of a result, as the API has it. */
function saidBlock(block: ContentBlock, answer?: AssistantMessage): object {
  const own = ownFields(block, answer);
  if (own) return own;
  if (block.type === "text") return { type: "text", text: block.text };
  const image = block.type === "image" ? healedImage(block) : undefined;
  if (image?.type === "image")
    return { type: "image", source: { type: "base64", media_type: image.mediaType, data: image.data } };
  return image ?? { type: "text", text: leftOutText(block) };
}

function answerBlock(block: AssistantBlock, answer: AssistantMessage): object {
  if (block.type === "toolCall") {
    const { id, name, arguments: input } = block;
    return { type: "tool_use", id, name, input: input ?? {}, ...ownFields(block, answer) };
  }
  if (block.type !== "thinking") return saidBlock(block, answer);
  const { thinking, thinkingSignature, redacted } = block;
  return redacted
    ? { type: "redacted_thinking", data: thinkingSignature }
    : { type: "thinking", thinking, signature: thinkingSignature };
}
