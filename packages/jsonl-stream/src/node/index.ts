export { type AppendFile, type AppendFileOptions, openAppendFile } from "./append-file.ts";
export type { Appended } from "./append-whole.ts";
export { createWhole } from "./create-whole.ts";
export type { WholeFileOptions } from "./draft.ts";
export { type FileCalls, type FileFacts, nodeFileCalls } from "./file-calls.ts";
export type { Span } from "./file-tail.ts";
export { type FileView, openView } from "./file-view.ts";
export type { OpenMode } from "./regular-file.ts";
export { type ReplaceWholeOptions, replaceWhole } from "./replace-whole.ts";
