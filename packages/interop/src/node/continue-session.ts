import { randomUUID } from "node:crypto";
import { existsSync, mkdirSync, realpathSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { EspalierError } from "@espalier/jsonl-stream";
import { createWhole } from "@espalier/jsonl-stream/node";
import type { SessionHeader } from "@espalier/session-tree";
import { factsOf } from "@espalier/session-tree/node";
import {
  exportNative,
  type NativeAgent,
  type NativeOptions,
  type NativeReport,
  returningId,
} from "../export/export-native.ts";
import type { ExportableSession } from "../export/source.ts";
import { type Environment, type LocalAgent, localAgents } from "./local-agents.ts";
import { findFiles } from "./sources.ts";

/** Options of {@link continueSession}. */
export interface ContinueOptions extends Omit<NativeOptions, "timestamp" | "sessionId"> {
  /** Environment variables that name the folders of agents. Default: `process.env`. */
  env?: Environment;
  /** File to write. Default: a file among the agent's own sessions. */
  out?: string | undefined;
}

/** A session that another agent can resume. */
export interface ContinuedSession extends NativeReport {
  /** Absolute path of the file. */
  file: string;
  /** Real path of the folder in which the agent works. */
  cwd: string;
  /**
   * Shell command that resumes it, with `cd` if the current folder is another one; null for a rollout at `out`, which
   * Codex does not find.
   */
  command: string | null;
}

/**
 * Writes the path to one entry as a session file of another agent, in that agent's own folder or at `out`. The file appears
 * whole or not at all, with mode 0600, and no file is overwritten. In the agent's own folder, the new session gets another id
 * if the agent has a session with the usual one.
 *
 * @throws EspalierError `not-found` if the session's folder is missing, or the agent was never used here; `exists` for
 *   `out`; `unknown-entry`, `empty-context`; errors of writing a file
 */
export function continueSession(session: ExportableSession, options: ContinueOptions): ContinuedSession {
  const { env = process.env, out, ...chosen } = options;
  const { header } = "tree" in session ? session.tree : session;
  const cwd = workingFolder(
    options.cwd ?? header?.cwd ?? "",
    out === undefined ? options.agent : undefined,
    env,
  );
  const now = new Date();
  const place = PLACES[options.agent];
  const sessionId = out === undefined ? freeId(options.agent, header, env) : undefined;
  const pieces = exportNative(session, { ...chosen, cwd, sessionId, timestamp: now.toISOString() });
  const first = pieces.next();
  const file = out === undefined ? place.file({ id: sessionId!, cwd, now, env }) : resolve(out);
  if (out === undefined) makeFolder(dirname(file));
  let report: NativeReport | undefined;
  function* chunks(): Generator<Uint8Array, void> {
    const encoder = new TextEncoder();
    let piece = first;
    for (; !piece.done; piece = pieces.next()) yield encoder.encode(piece.value);
    report = piece.value;
  }
  createWhole(file, chunks());
  const command = place.command(report!.sessionId, file, out === undefined);
  const isHere = realpathSync(process.cwd()) === cwd;
  return { ...report!, file, cwd, command: command && !isHere ? `cd ${quoted(cwd)} && ${command}` : command };
}

/** @throws EspalierError `write-failed` */
function makeFolder(folder: string): void {
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 });
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException;
    const message = `The folder ${folder} cannot be created (${code ?? "see cause"}); check its place and permissions, or write a file with --out.`;
    throw new EspalierError("write-failed", message, { cause });
  }
}

/** Facts that decide the place of a session. */
interface NewSession {
  id: string;
  cwd: string;
  now: Date;
  env: Environment;
}

/** Place of an agent's new session, and the command that resumes it. */
interface NativePlace {
  file(session: NewSession): string;
  command(id: string, file: string, isNative: boolean): string | null;
}

const PLACES: Readonly<Record<NativeAgent, NativePlace>> = {
  "claude-code": {
    file: ({ id, cwd, env }) => join(sessionFolder("claude-code", env), projectName(cwd), `${id}.jsonl`),
    command: (id, file, isNative) => `claude --resume ${isNative ? id : quoted(file)}`,
  },
  codex: {
    file({ id, now, env }) {
      const [date, time] = localTime(now).split("T") as [string, string];
      const name = `rollout-${date}T${time}-${id}.jsonl`;
      return join(sessionFolder("codex", env), ...date.split("-"), name);
    },
    command: (id, _file, isNative) => (isNative ? `codex resume ${id}` : null),
  },
  pi: {
    file({ id, cwd, now, env }) {
      const folder = sessionFolder("pi", env);
      const name = `${now.toISOString().replace(/[:.]/g, "-")}_${id}.jsonl`;
      // This folder has no subfolders for projects.
      if (env["PI_CODING_AGENT_SESSION_DIR"]) return join(folder, name);
      return join(folder, `--${cwd.replace(/^[/\\]/, "").replace(/[/\\:]/g, "-")}--`, name);
    },
    command: (_id, file) => `pi --session ${quoted(file)}`,
  },
};

const localAgent = (agent: NativeAgent): LocalAgent => localAgents.find((local) => local.agent === agent)!;

/** Returns the folder of an agent's sessions. */
const sessionFolder = (agent: NativeAgent, env: Environment): string => localAgent(agent).folders(env)[0]!;

/** Returns the folder that an agent creates when it first starts; undefined if it exists, or the folder of sessions does. */
function missingHome(agent: NativeAgent, env: Environment): string | undefined {
  const folder = sessionFolder(agent, env);
  const home = existsSync(folder) ? folder : dirname(folder);
  return factsOf(home)?.isDirectory() ? undefined : home;
}

/** Id of a new session: that of a session that goes back, or a random one for a fork, or if the agent has that session. */
function freeId(agent: NativeAgent, header: SessionHeader | null | undefined, env: Environment): string {
  const id = returningId(agent, header);
  if (id === undefined) return randomUUID();
  const { folders, isSession } = localAgent(agent);
  const isTaken = (path: string): boolean => isSession(path) && basename(path).includes(id);
  // A folder that cannot be read has no sessions for the agent either.
  return folders(env).some((folder) => findFiles(folder, isTaken).length > 0) ? randomUUID() : id;
}

/**
 * Returns the real path of the folder to work in. If several folders are missing, one error names all of them.
 *
 * @param agent agent whose own folder gets the file; undefined for a file at another place
 * @throws EspalierError `not-found` for a folder that is missing, and for an agent that was never used
 */
function workingFolder(folder: string, agent: NativeAgent | undefined, env: Environment): string {
  const isThere = folder !== "" && factsOf(folder)?.isDirectory() === true;
  const home = agent === undefined ? undefined : missingHome(agent, env);
  if (isThere && home === undefined) return realpathSync(folder);
  const project =
    folder === "" ? "The session names no folder" : `The folder ${folder} of this session does not exist`;
  const name = agent === undefined ? "" : localAgent(agent).title;
  const message = isThere
    ? `${name} has no folder ${home}: it was never used here. Start it once, or write a file with --out.`
    : home === undefined
      ? `${project}; name another one with --cwd.`
      : `${project}, and ${name} has no folder ${home}: it was never used here. Start ${name} once in the folder to work in, then repeat this command there with --cwd .`;
  throw new EspalierError("not-found", message);
}

/** Maximum length of a project's folder name in Claude Code; longer names are cut, and end in a hash. */
const LONGEST_NAME = 200;

/** Returns the name of a project's folder of sessions in Claude Code. */
function projectName(cwd: string): string {
  const path = cwd.normalize("NFC");
  const name = path.replace(/[^a-zA-Z0-9]/g, "-");
  if (name.length <= LONGEST_NAME) return name;
  let hash = 0;
  for (let at = 0; at < path.length; at++) hash = ((hash << 5) - hash + path.charCodeAt(at)) | 0;
  return `${name.slice(0, LONGEST_NAME)}-${Math.abs(hash).toString(36)}`;
}

/** Returns local time such as `2026-11-21T20-56-57`. */
function localTime(now: Date): string {
  const local = new Date(now.getTime() - now.getTimezoneOffset() * 60_000);
  return local.toISOString().slice(0, 19).replaceAll(":", "-");
}

/** Quotes a word of a shell command. */
const quoted = (word: string): string =>
  /^[\w./@%+=:,-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
