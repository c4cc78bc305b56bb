export { type CheckOptions, checkAnthropicRequest } from "./check-anthropic-request.ts";
export { type MessagesServer, type MessagesServerOptions, startMessagesServer } from "./messages-server.ts";
export type { CountTokens, RequestBody } from "./prompt-cache.ts";
export type { ReceivedRequest } from "./received-request.ts";
export {
  brokenReply,
  type ErrorReply,
  errorReply,
  hangingReply,
  type MessageOptions,
  type MessageReply,
  overloadedReply,
  type Reply,
  type ReplyBlock,
  type ReplyBreak,
  rateLimitedReply,
  textReply,
  tooLongReply,
  toolReply,
} from "./reply.ts";
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
