// Separate from continue-session.ts: browsers export too, but do not continue a session.
import { EspalierError, jsonText, wellFormedJson } from "@espalier/jsonl-stream";
import { type Redact, type SessionHeader, sessionName } from "@espalier/session-tree";
import { claudeCodeTarget } from "../claude-code/exporter.ts";
import { codexTarget } from "../codex/exporter.ts";
import { type FormatIssue, FormatIssues } from "../formats/conversation.ts";
import { uuidFromText } from "../import/entry.ts";
import { piTarget } from "../pi/pi-sessions.ts";
import { type PathItem, type PathRules, preparePath } from "./native-path.ts";
import { type ExportableSession, ExportSource } from "./source.ts";

/** An agent whose session files can be written. */
export type NativeAgent = "claude-code" | "codex" | "pi";

/** Path of a session for another agent's file. */
export interface NativeSession {
  /** Id of the new session. */
  id: string;
  /** Working folder of the other agent. */
  cwd: string;
  /** Time, ISO 8601, UTC. */
  timestamp: string;
  /** Header of the source session; null when its log has none. */
  header: SessionHeader | null;
  name: string | undefined;
  items: readonly PathItem[];
  issues: FormatIssues;
  source: ExportSource;
}

/** Writer of one agent's session files. */
export interface NativeTarget extends Omit<PathRules, "isForeignContext"> {
  agent: NativeAgent;
  /** Returns whether a custom message describes the tools and settings of this agent. */
  isOwnContext(customType: string): boolean;
  /**
   * Returns the id of a session that goes back to this agent: its own if the agent accepts it, else one made from it.
   * Default: it gets a new id too.
   */
  returningId?(id: string): string;
  /** Begins a file. */
  file(session: NativeSession): NativeFile;
}

/** Lines of one file, in order. */
export interface NativeFile {
  /** Lines before those of the path. */
  header(): Iterable<object>;
  linesOf(item: PathItem): Iterable<object>;
  /** Lines after those of the path. */
  end(): Iterable<object>;
}

const TARGETS: Readonly<Record<NativeAgent, NativeTarget>> = {
  "claude-code": claudeCodeTarget,
  codex: codexTarget,
  pi: piTarget,
};

/** Names of the agents whose session files can be written. */
export const nativeAgents = Object.keys(TARGETS) as NativeAgent[];

/**
 * Returns the id that a session keeps when it goes back to the agent from which it was imported; undefined when it becomes a
 * fork, with a new id.
 */
export const returningId = (
  agent: NativeAgent,
  header: SessionHeader | null | undefined,
): string | undefined =>
  header?.importedFrom?.agent === agent ? TARGETS[agent].returningId?.(header.id) : undefined;

/** Options of {@link exportNative}. */
export interface NativeOptions {
  agent: NativeAgent;
  /** Last entry of the path. Default: the leaf. Null is before the first entry: there is nothing to export. */
  at?: string | null | undefined;
  /** Redaction, as in `ExportOptions`. */
  redact?: Redact | undefined;
  /** Id of the new session. Default: the session's own if it was imported from this agent, else one made from it. */
  sessionId?: string | undefined;
  /** Working folder of the other agent. Default: the session's. */
  cwd?: string | undefined;
  /** Time of the new session, ISO 8601. Default: that of the source session. */
  timestamp?: string | undefined;
}

/** Result of {@link exportNative}. */
export interface NativeReport {
  agent: NativeAgent;
  /** Id of the new session. */
  sessionId: string;
  /** Number of entries of the path that have a line in the file. */
  entries: number;
  /** Differences between the path and the file; `path` is the id of the first entry concerned. */
  issues: FormatIssue[];
}

/**
 * Writes the path to one entry as a session file of another agent; each piece is a line. Compactions have the agent's own form,
 * and each call is followed by its results. A file of Claude Code or Codex has signed and encrypted reasoning only of its own
 * provider; a file of Pi has all signed reasoning, and no encrypted reasoning of Codex. The whole tree must be loaded
 * (`await session.load()`).
 *
 * @throws EspalierError `unknown-entry`; `empty-context` when no model reads anything on the path; both before the
 * first piece
 */
export function* exportNative(
  session: ExportableSession,
  options: NativeOptions,
): Generator<string, NativeReport> {
  const { agent, at, redact, timestamp } = options;
  const source = new ExportSource(session, at, redact);
  const target = TARGETS[agent];
  const issues = new FormatIssues();
  const others = Object.values(TARGETS).filter((other) => other !== target);
  const items = preparePath(
    source,
    { ...target, isForeignContext: (customType) => others.some((other) => other.isOwnContext(customType)) },
    issues,
  );
  if (!items.some(({ message, kept }) => message || kept))
    throw new EspalierError(
      "empty-context",
      "There is nothing to export: no entry on this path has content for a model. Choose another entry.",
    );
  const { header } = source;
  const ownId = header?.id ?? "";
  const id = options.sessionId ?? returningId(agent, header) ?? uuidFromText(`${agent}/${ownId}`);
  if (id !== ownId) issues.add("changed", "id", ownId, "The new session has a new id.");
  const name = sessionName(source.tree);
  const file = target.file({
    id,
    cwd: options.cwd ?? header?.cwd ?? "",
    timestamp: timestamp ?? (header?.timestamp || new Date(0).toISOString()),
    header,
    name: name === undefined ? undefined : source.text(name),
    items,
    issues,
    source,
  });
  const text = (line: object): string => `${wellFormedJson(jsonText(line))}\n`;
  const written = new Set<string>();
  for (const line of file.header()) yield text(line);
  for (const item of items)
    for (const line of file.linesOf(item)) {
      written.add(item.entry.id);
      yield text(line);
    }
  for (const line of file.end()) yield text(line);
  return { agent, sessionId: id, entries: written.size, issues: issues.list() };
}
