export { FileLog, fileStore, headerOfFile } from "../store/file-store.ts";
export {
  factsOf,
  makeFolder,
  offloadFolder,
  projectKey,
  readDerived,
  sessionFileName,
  sessionFiles,
  sessionPath,
  writeDerived,
} from "../store/files.ts";
export {
  type Processes,
  type ProcessIdentity,
  systemProcesses,
  takeFileLease,
  takeFileLeaseSync,
} from "../store/lease.ts";
