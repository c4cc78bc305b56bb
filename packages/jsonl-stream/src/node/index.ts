export {
  type Appended,
  type AppendFile,
  type AppendFileOptions,
  openAppendFile,
  type Span,
} from "./append-file.ts";
export { type FileCalls, type FileFacts, nodeFileCalls } from "./file-calls.ts";
export { type FileView, openView } from "./file-view.ts";
export type { OpenMode } from "./regular-file.ts";
export { createWhole, type ReplaceWholeOptions, replaceWhole, type WholeFileOptions } from "./whole-file.ts";
