export type { ViewerSessions } from "./open-sessions.ts";
export {
  type HtmlOptions,
  htmlOf,
  type ServeOptions,
  serveViewer,
  type ViewerServer,
} from "./serve-viewer.ts";
export { ViewerError, type ViewerErrorCode } from "./viewer-error.ts";
