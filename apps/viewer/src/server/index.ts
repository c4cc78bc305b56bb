export { type HtmlOptions, htmlOf } from "../export/html-of.ts";
export { type ServeOptions, serveViewer, type ViewerServer } from "./serve-viewer.ts";
export { ViewerError, type ViewerErrorCode } from "./viewer-error.ts";
export type { ViewerSessions } from "./viewer-sessions.ts";
