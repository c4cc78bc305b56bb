export { type AppendFile, encodeBriefly, openAppendFile } from "./append-file.ts";
export {
  closeFile,
  type FileCalls,
  type FileFacts,
  type FileView,
  nodeFileCalls,
  openView,
  syncFolderOf,
  syncFolderOfAsync,
  systemCode,
  uninterrupted,
  withView,
} from "./files.ts";
export { createWhole, createWholeAsync, digestOf, discard, linkNew, replaceWhole } from "./whole-file.ts";
