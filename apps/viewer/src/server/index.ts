export type { ViewerSessions } from "./open-sessions.ts";
export { htmlOf, serveViewer, type ViewerServer } from "./serve-viewer.ts";
