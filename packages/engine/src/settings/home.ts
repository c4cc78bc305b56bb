import { homedir } from "node:os";
import { join, resolve } from "node:path";

/** Folder of sessions, settings and trust: `ESPALIER_HOME`, or `~/.espalier`. */
export function espalierHome(environment: NodeJS.ProcessEnv = process.env): string {
  return environment["ESPALIER_HOME"] ? resolve(environment["ESPALIER_HOME"]) : join(homedir(), ".espalier");
}

/**
 * Sessions folder of the Pi coding agent: `PI_CODING_AGENT_SESSION_DIR`, or `sessions` in `PI_CODING_AGENT_DIR`, or in
 * `~/.pi/agent`.
 */
export function piSessions(): string {
  const { PI_CODING_AGENT_SESSION_DIR: sessions, PI_CODING_AGENT_DIR: folder } = process.env;
  return sessions ? resolve(sessions) : join(folder || join(homedir(), ".pi", "agent"), "sessions");
}

/** Default folders of sessions: the engine's own, and the Pi coding agent's. */
export const sessionFolders = (home: string): string[] => [join(home, "sessions"), piSessions()];
