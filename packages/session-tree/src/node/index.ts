export { FileLog } from "./file-log.ts";
export { type FileStoreOptions, fileStore } from "./file-store.ts";
export { type Processes, type ProcessIdentity, systemProcesses } from "./process-identity.ts";
export {
  idInFileName,
  offloadFolder,
  projectKey,
  sessionBelongings,
  sessionFileName,
  sessionPath,
} from "./session-files.ts";
export { makeFolder, type SearchedFolders, type SessionFile, sessionFiles } from "./session-folders.ts";
