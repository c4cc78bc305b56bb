import type { StoredMessage, ToolDefinition } from "@espalier/session-tree";
import type { FormatIssue } from "./format-issue.ts";

/** A conversation of another format as neutral messages, ready to be appended to a session. */
export interface ImportedConversation {
  messages: StoredMessage[];
  /** What stood before the conversation as system prompt; not among the messages. */
  system?: string;
  tools?: ToolDefinition[];
  /** Whose answers these are, where the answers themselves do not say. */
  model: { provider: string; modelId: string };
  /** What is not there in the same way as it was; empty when nothing is missing. */
  issues: FormatIssue[];
}

/** What formats do not say of a conversation and messages of a session need. */
export interface ConversationOptions {
  /**
   * Who gave the answers. Reasoning goes back to this provider and model only. Default: the provider of the format and
   * a model `unknown`, or what a message itself says.
   */
  model?: { provider: string; modelId: string } | undefined;
  /** When it was said, epoch milliseconds; formats have no times, so all messages get this one. Default 0. */
  timestamp?: number | undefined;
}
