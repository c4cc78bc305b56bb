export type { ReceivedRequest } from "./check-anthropic-request.ts";
export { type CheckOptions, checkAnthropicRequest } from "./check-anthropic-request.ts";
export type { CountTokens, RequestBody } from "./messages-server.ts";
export {
  brokenReply,
  type ErrorReply,
  errorReply,
  hangingReply,
  type MessageOptions,
  type MessageReply,
  type MessagesServer,
  type MessagesServerOptions,
  overloadedReply,
  type Reply,
  type ReplyBlock,
  type ReplyBreak,
  rateLimitedReply,
  startMessagesServer,
  textReply,
  tooLongReply,
  toolReply,
} from "./messages-server.ts";
export {
  callingAnswer,
  cutOffAnswer,
  emptyAnswer,
  failingAnswer,
  hangingAnswer,
  largerAnswer,
  refusingAnswer,
  type Script,
  type ScriptedAnswer,
  type ScriptedSummarizer,
  type ScriptedSummarizerOptions,
  scriptedSummarizer,
} from "./scripted-summarizer.ts";
