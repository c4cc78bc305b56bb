// Every model of the AI SDK, for turns and for summaries, and the messages of its pages; needs `ai`.
export {
  type AiSdkParams,
  type AiSdkProviderOptions,
  aiSdk,
  type TokenPrices,
} from "@espalier/engine/ai-sdk";
export {
  type LiveStreams,
  liveStreams,
  receiveUiMessages,
  type SaveUiOptions,
  saveUiMessages,
  showUiVersion,
  type UiTurn,
  type UiTurnOptions,
  type UiVersions,
  uiMessages,
  uiTurn,
  uiVersions,
} from "@espalier/engine/ui-messages";
