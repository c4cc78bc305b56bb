export type { Appended } from "./append-file.ts";
export { type AppendFile, type AppendFileOptions, encodeBriefly, openAppendFile } from "./append-file.ts";
export type { Span } from "./file-tail.ts";
export type { OpenMode } from "./files.ts";
export {
  closeFile,
  type FileCalls,
  type FileFacts,
  type FileView,
  nodeFileCalls,
  openView,
  syncFolderOf,
  systemCode,
  uninterrupted,
} from "./files.ts";
export {
  createWhole,
  discard,
  type ReplaceWholeOptions,
  replaceWhole,
  type WholeFileOptions,
} from "./whole-file.ts";
