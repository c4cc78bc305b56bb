export { FileLog, type FileStoreOptions, fileStore, headerOfFile } from "../store/file-store.ts";
export {
  factsOf,
  makeFolder,
  offloadFolder,
  projectKey,
  readDerived,
  type SearchedFolders,
  type SessionFile,
  sessionFileName,
  sessionFiles,
  sessionPath,
  writeDerived,
} from "../store/files.ts";
export {
  type FileLeaseOptions,
  type Processes,
  type ProcessIdentity,
  systemProcesses,
  takeFileLease,
  takeFileLeaseSync,
} from "../store/lease.ts";
