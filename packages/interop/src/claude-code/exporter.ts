// Separate from export-native.ts: each direction has a file.
import {
  type AssistantBlock,
  type AssistantMessage,
  anthropicFormat,
  bashExecutionText,
  branchSummaryText,
  type ContentBlock,
  type ContextMessage,
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
  hasBlock: (block, answer) => anthropicNative.opaque?.(block, { answer, model: MODEL }) !== undefined,
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
      ? uuidFromText(`${uuidOf(entry.id)}/result/${callOf(item.message)}`)
      : this.#uuid(item);
    const uuids = lines.map((_, at) => uuidOfLine(first, at));
    this.#uuids.set(item, uuids);
    for (const [at, line] of lines.entries()) {
      for (const { id } of callsIn(line)) this.#callers.set(id, uuids[at]!);
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
    if (last && (last.kept ? last.kept.length > 0 : isUntyped(last))) {
      const uuid = uuidFromText(`${uuidOf(last.entry.id)}/end`);
      yield this.#line(last, uuid, {
        type: "system",
        subtype: "turn_duration",
        durationMs: 0,
        isMeta: false,
      });
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
    const { issues } = this.#session;
    if (message === undefined) return this.#state(item);
    if (message.role === "assistant") return this.#answer(item, message);
    if (message.role === "toolResult") return [this.#result(item, message)];
    if (message.role === "custom") return [this.#context(item, message)];
    if (message.role === "user") return [userLine(contentOf(message.content))];
    if (message.role === "bashExecution") {
      issues.add("changed", "bashExecution", entry.id, PATH_DIFFERENCES.shellCommand);
      return [userLine(bashExecutionText(message))];
    }
    if (message.role !== "branchSummary") return [];
    issues.add("changed", "branchSummary", entry.id, DIFFERENCES.branchSummary);
    return [{ ...userLine(branchSummaryText(message.summary)), isMeta: true }];
  }

  /** One line for each block of an answer. Each line repeats id, model, stop reason and usage of the answer. */
  #answer({ entry }: PathItem, answer: AssistantMessage): Line[] {
    const { issues } = this.#session;
    const { provider, model, usage, responseId } = answer as AssistantMessage & { responseId?: unknown };
    if (provider !== "anthropic") issues.add("changed", "model", entry.id, DIFFERENCES.provider);
    if (!usage) issues.add("changed", "usage", entry.id, DIFFERENCES.noUsage);
    const said = {
      id:
        typeof responseId === "string" && responseId !== ""
          ? responseId
          : `msg_${uuidOf(entry.id).replaceAll("-", "")}`,
      type: "message",
      role: "assistant",
      model,
    };
    const ended = {
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
    const blocks = answer.content.map((block) => answerBlock(block, answer));
    return blocks.map((block, apiBlockIndex) => ({
      message: { ...said, content: [block], ...ended },
      apiBlockIndex,
      type: "assistant",
    }));
  }

  #result({ entry, isMade }: PathItem, result: ToolResultMessage): Line {
    const { toolCallId, isError, details } = result;
    const caller = this.#callers.get(toolCallId);
    if (details !== undefined && !this.#isOwn)
      this.#session.issues.add("dropped", "details", entry.id, PATH_DIFFERENCES.toolData);
    return {
      type: "user",
      message: {
        role: "user",
        content: [
          {
            tool_use_id: toolCallId,
            type: "tool_result",
            content: resultContent(result),
            is_error: isError === true,
          },
        ],
      },
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
    const {
      preservedSegment: _older,
      preservedMessages: _newer,
      ...metadata
    } = isRecord(record[AGENT]) ? record[AGENT] : {};
    const uuids = kept.flatMap((each) => (each.message ? (this.#uuids.get(each) ?? []) : []));
    const logicalParentUuid = this.#parentUuid;
    this.#parentUuid = null;
    const boundary = this.#line(item, uuidFromText(`${id}/boundary`), {
      logicalParentUuid,
      type: "system",
      subtype: "compact_boundary",
      content: "Conversation compacted",
      isMeta: false,
      level: "info",
      compactMetadata: {
        trigger: record["reason"] === "manual" ? "manual" : "auto",
        ...metadata,
        preTokens: tokensBefore ?? 0,
        ...(uuids.length > 0 ? keptLines(id, uuids) : {}),
      },
    });
    yield boundary;
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

/** True for a text that no user typed. */
const isUntyped = ({ message }: PathItem): boolean =>
  message?.role === "custom" || message?.role === "branchSummary";

/** Fields of a boundary that name the kept lines, for newer and older versions of Claude Code. */
const keptLines = (anchorUuid: string, uuids: readonly string[]) => ({
  preservedSegment: { headUuid: uuids[0], anchorUuid, tailUuid: uuids.at(-1) },
  preservedMessages: { anchorUuid, uuids, allUuids: uuids },
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

const callOf = (message: ContextMessage | undefined): string =>
  message?.role === "toolResult" ? message.toolCallId : "";

function callsIn({ type, message }: Line): { id: string }[] {
  if (type !== "assistant" || !isRecord(message) || !Array.isArray(message["content"])) return [];
  return message["content"].filter((block) => block.type === "tool_use");
}

/** Provider of the requests of Claude Code; its own blocks are written unchanged. */
const MODEL = { provider: "anthropic", modelId: "" };

function contentOf(content: UserContent): string | object[] {
  return typeof content === "string" ? content : contentBlocks({ content }).map((block) => saidBlock(block));
}

/** Content of a result: a string for one text without fields of the API, and for an empty result; else blocks. */
function resultContent(result: ToolResultMessage): string | object[] {
  const [only, ...others] = contentBlocks(result);
  const isText =
    only?.type === "text" &&
    others.length === 0 &&
    anthropicNative.opaque?.(only, { answer: undefined, model: MODEL }) === undefined;
  if (only === undefined || isText) return contentText({ content: only ? [only] : [] });
  return contentBlocks(result).map((block) => saidBlock(block));
}

/** A block of a user's message or of a result, as the API has it. */
function saidBlock(block: ContentBlock, answer?: AssistantMessage): object {
  const opaque = anthropicNative.opaque?.(block, { answer, model: MODEL });
  if (opaque) return opaque;
  if (block.type === "text") return { type: "text", text: block.text };
  const image = block.type === "image" ? healedImage(block) : undefined;
  if (image?.type === "image")
    return { type: "image", source: { type: "base64", media_type: image.mediaType, data: image.data } };
  return image ?? { type: "text", text: leftOutText(block) };
}

function answerBlock(block: AssistantBlock, answer: AssistantMessage): object {
  if (block.type === "toolCall") {
    const fields = anthropicNative.opaque?.(block, { answer, model: MODEL });
    return { type: "tool_use", id: block.id, name: block.name, input: block.arguments ?? {}, ...fields };
  }
  if (block.type !== "thinking") return saidBlock(block, answer);
  const { thinking, thinkingSignature, redacted } = block;
  return redacted
    ? { type: "redacted_thinking", data: thinkingSignature }
    : { type: "thinking", thinking, signature: thinkingSignature };
}
