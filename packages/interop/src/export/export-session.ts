import type { Redact } from "@espalier/session-tree";
import { exportJson } from "./export-json.ts";
import { exportJsonl } from "./export-jsonl.ts";
import { exportMarkdown } from "./export-markdown.ts";
import { exportRequest, requestExports } from "./export-request.ts";
import { type ExportableSession, ExportSource } from "./export-source.ts";
import { rowsAlong } from "./path-lines.ts";

/**
 * - `json`: one `SessionDocument`; `jsonl`: lines of the session format, which open as a session
 * - `markdown`: a document for people
 * - `anthropic`, `openai` (Chat Completions), `openai-responses`, `ai-sdk`: the request that the context makes
 */
export type ExportFormat =
  | "json"
  | "jsonl"
  | "markdown"
  | "anthropic"
  | "openai"
  | "openai-responses"
  | "ai-sdk";

/** What is exported, and how. */
export interface ExportOptions {
  format: ExportFormat;
  /**
   * The entry in which the path ends; default: the leaf. `json` and `jsonl` hold the whole session unless it is given,
   * and then the path with what stands beside it.
   */
  at?: string | null | undefined;
  /** All branches in a `markdown` document instead of one path. Other formats do not ask. */
  all?: boolean | undefined;
  /**
   * Asked of every text that people, models and tools said, paths and names among them; never of ids, signatures and
   * pictures. Where it changes reasoning, the signature is left out.
   */
  redact?: Redact | undefined;
}

/**
 * A session as text in pieces of about one entry each. The same log gives the same text, whether the session runs or was
 * opened again. The whole tree has to be within reach (`await session.load()`). Returns how many entries the text tells:
 * those of the file, of the path, or of the context.
 *
 * @throws SessionTreeError `unknown-entry`; for requests `empty-context`; both before the first piece
 */
export function* exportSession(
  session: ExportableSession,
  options: ExportOptions,
): Generator<string, number> {
  const { format, at, all = false, redact } = options;
  const source = new ExportSource(session, at, redact);
  const rows = at === undefined ? source.allRows() : rowsAlong(source);
  if (format === "json") return yield* exportJson(source, rows);
  if (format === "jsonl") return yield* exportJsonl(source, rows);
  if (format === "markdown") return yield* exportMarkdown(source, all);
  return yield* exportRequest(source, requestExports[format]);
}
