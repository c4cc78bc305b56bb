import { homedir } from "node:os";
import { join, resolve } from "node:path";

/** Where sessions, settings and trust are kept: `ESPALIER_HOME`, or `~/.espalier`. */
export function espalierHome(environment: NodeJS.ProcessEnv = process.env): string {
  return environment["ESPALIER_HOME"] ? resolve(environment["ESPALIER_HOME"]) : join(homedir(), ".espalier");
}

/** Where the Pi coding agent keeps its sessions: `PI_CODING_AGENT_DIR`, or `~/.pi/agent`, and `sessions` in it. */
export function piSessions(environment: NodeJS.ProcessEnv = process.env): string {
  return join(environment["PI_CODING_AGENT_DIR"] ?? join(homedir(), ".pi", "agent"), "sessions");
}

/** Where sessions are looked for when nobody says where: the engine's own, and the Pi coding agent's. */
export const sessionFolders = (home: string): string[] => [join(home, "sessions"), piSessions()];
