export { type LiveStreams, liveStreams } from "./live-streams.ts";
export { receiveUiMessages, type SaveUiOptions, saveUiMessages } from "./save.ts";
export { uiMessages } from "./ui-messages.ts";
export { type UiTurn, type UiTurnOptions, uiTurn } from "./ui-turn.ts";
export { showUiVersion, type UiVersions, uiVersions } from "./versions.ts";
