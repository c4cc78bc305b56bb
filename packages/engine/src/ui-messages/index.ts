export { type LiveStreams, liveStreams } from "./live-streams.ts";
export { uiMessages } from "./ui-messages.ts";
export {
  receiveUiMessages,
  type SaveUiOptions,
  saveUiMessages,
  type UiTurn,
  type UiTurnOptions,
  uiTurn,
} from "./ui-turn.ts";
export { showUiVersion, type UiVersions, uiVersions } from "./versions.ts";
