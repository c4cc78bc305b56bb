// Fakes and test suites for authors of stores, summarizers and agents.
export { type ScriptedTurn, scriptedModel } from "@espalier/agent/testing";
export { type OpenaiReply, startOpenaiServer } from "@espalier/engine/testing";
export {
  checkAnthropicRequest,
  type Expectation,
  faultStore,
  growEntries,
  growTree,
  type StoreUnderTest,
  storeConformance,
  testHeader,
  testLine,
} from "@espalier/session-tree/testing";
export {
  callingAnswer,
  cutOffAnswer,
  emptyAnswer,
  failingAnswer,
  hangingAnswer,
  largerAnswer,
  type ReplyBlock,
  refusingAnswer,
  scriptedSummarizer,
  startMessagesServer,
  textReply,
  toolReply,
} from "@espalier/summarizer/testing";
