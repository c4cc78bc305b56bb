export { FileLog } from "./file-log.ts";
export { type FileStoreOptions, fileStore, type SessionFile, sessionFiles } from "./file-store.ts";
export {
  idInFileName,
  offloadFolder,
  projectKey,
  sessionBelongings,
  sessionFileName,
  sessionPath,
} from "./session-files.ts";
