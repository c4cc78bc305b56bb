export { type Diagnosis, diagnose, diagnoseTree } from "./diagnose.ts";
export { EngineError, type EngineErrorCode } from "./engine-error.ts";
export { fillMessage, type MessageDraft } from "./fill-message.ts";
export type { ForkOptions, ForkResult } from "./fork-session.ts";
export { espalierHome, piSessions } from "./home.ts";
export { type ListedSession, listSessions } from "./list-sessions.ts";
export type { NavigateOptions, NavigateResult } from "./navigate.ts";
export {
  type CreateOptions,
  createSession,
  deleteSession,
  type OpenOptions,
  openSession,
  type StoreOptions,
} from "./open-session.ts";
export { PIN, pinnedOn } from "./pins.ts";
export { paced, type ReplayOptions, type ReplayStep, replay } from "./replay.ts";
export { Session } from "./session.ts";
export { type LastAct, lastAct } from "./undo.ts";
