export {
  type Appended,
  type AppendFile,
  type AppendFileOptions,
  encodeBriefly,
  openAppendFile,
  type Span,
} from "./append-file.ts";
export {
  closeFile,
  type FileCalls,
  type FileFacts,
  type FileView,
  nodeFileCalls,
  type OpenMode,
  openView,
  syncFolderOf,
  syncFolderOfAsync,
  systemCode,
  uninterrupted,
  withView,
} from "./files.ts";
export {
  createWhole,
  createWholeAsync,
  digestOf,
  discard,
  linkNew,
  type ReplaceWholeOptions,
  replaceWhole,
  type WholeFileOptions,
} from "./whole-file.ts";
