export { type HtmlOptions, htmlOf } from "../export/html.ts";
export type { ViewerSessions } from "./open-sessions.ts";
export { type ServeOptions, serveViewer, type ViewerServer } from "./serve-viewer.ts";
export { ViewerError, type ViewerErrorCode } from "./viewer-error.ts";
