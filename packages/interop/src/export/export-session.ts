import { jsonPieces, jsonText } from "@espalier/jsonl-stream";
import {
  buildSessionContext,
  type ContextMessage,
  type Entry,
  type Redact,
  type Redactor,
  type RequestFormat,
  redactMessage,
  referenceIssues,
  type SessionContext,
  type SessionHeader,
  type SessionIssue,
  sessionName,
} from "@espalier/session-tree";
import { aiSdkFormat } from "../formats/ai-sdk.ts";
import { anthropicNative } from "../formats/anthropic.ts";
import { writeRequest } from "../formats/conversation.ts";
import { openaiChatNative, openaiResponsesNative } from "../formats/openai.ts";
import { exportMarkdown, omittedFromPath, omittedPhrase } from "./markdown.ts";
import { type ExportableSession, ExportSource, rowsAlong } from "./source.ts";

/**
 * - `json`: one `SessionDocument`; `jsonl`: lines of the session format, which open as a session
 * - `markdown`: a document for people
 * - `anthropic`, `openai` (Chat Completions), `openai-responses`, `ai-sdk`: the request that is made of the context
 */
export type ExportFormat = "json" | "jsonl" | "markdown" | "ai-sdk" | keyof typeof nativeFormats;

/** Options of an export. */
export interface ExportOptions {
  format: ExportFormat;
  /**
   * Last entry of the path; null for the empty path before the first entry. Default: the leaf. `json` and `jsonl` have
   * the whole session unless it is given; then they have the path and the entries attached to it.
   */
  at?: string | null | undefined;
  /**
   * True: a `markdown` document has all branches instead of one path, and also bookkeeping of agents. Other formats
   * ignore it.
   */
  all?: boolean | undefined;
  /**
   * Called with every text of people, models and tools, including paths and names; never with ids, signatures and
   * images. If it changes reasoning, the signature is left out.
   */
  redact?: Redact | undefined;
}

/**
 * Writes a session as text, in pieces of about one entry each. The same log always gives the same text, for a running
 * session and for one that was opened again. The whole tree must be loaded (`await session.load()`). Returns the number
 * of entries in the text: for `json` and `jsonl` those written, for `markdown` those shown, for a request those of the
 * context.
 *
 * @throws EspalierError `unknown-entry`; for requests `empty-context`; both before the first piece
 */
export function* exportSession(
  session: ExportableSession,
  options: ExportOptions,
): Generator<string, number> {
  const { format, at, all = false, redact } = options;
  const source = new ExportSource(session, at, redact);
  const rows =
    at === undefined ? Array.from({ length: source.tree.length }, (_, row) => row) : rowsAlong(source);
  if (format === "json") return yield* exportJson(source, rows);
  if (format === "jsonl") return yield* exportJsonl(source, rows);
  if (format === "markdown") return yield* exportMarkdown(source, all);
  return yield* exportRequest(source, format === "ai-sdk" ? aiSdkFormat : nativeFormats[format]);
}

/**
 * Names the entries that a document for people, or a `json` or `jsonl` of one path, does not have: `12 entries of other
 * branches`; empty when it has all of them, and for requests.
 *
 * @throws EspalierError `unknown-entry`
 */
export function omittedEntries(
  session: ExportableSession,
  { format, at, all = false }: Pick<ExportOptions, "format" | "at" | "all">,
): string[] {
  const source = new ExportSource(session, at, undefined);
  if (format === "markdown") return all ? [] : omittedFromPath(source);
  const isWhole = at === undefined || !(format === "json" || format === "jsonl");
  return omittedPhrase(isWhole ? 0 : source.tree.length - rowsAlong(source).length, "of other branches");
}

/**
 * Writes lines of the session format. Entries are the log's own bytes; the header, and every line of a redacted export,
 * are written again. A redacted export has only the position of an unreadable line, because its secrets cannot be
 * recognized. Returns the number of entries.
 */
function* exportJsonl(source: ExportSource, rows: readonly number[]): Generator<string, number> {
  const { tree, header } = source;
  if (header) yield `${jsonText(header)}\n`;
  for (const row of rows) {
    yield source.redactor
      ? `${jsonText(source.entryAt(row))}\n`
      : `${decoder.decode(tree.bytesAt(row)).trimEnd()}\n`;
  }
  return rows.length;
}

const decoder = new TextDecoder();

/** A session, or one path of it, as one JSON value. */
export interface SessionDocument {
  format: "espalier-session";
  /** Version of this form. */
  version: 1;
  /** First line of the log; null when it has none. */
  session: SessionHeader | null;
  name: string | null;
  leafId: string | null;
  /** Entries in file order, each from its line; an unreadable one has the type `damaged`. */
  entries: Entry[];
  /** Damage of lines and references; empty for an undamaged session. */
  issues: SessionIssue[];
  /** Number of entries of the session that are not on the exported path; absent when the document has all entries. */
  leftOut?: number;
}

/** Writes a {@link SessionDocument}, one entry per line; returns the number of entries. */
function* exportJson(source: ExportSource, rows: readonly number[]): Generator<string, number> {
  const { tree, header, endId } = source;
  const name = sessionName(tree);
  const leftOut = tree.length - rows.length || undefined;
  const fields = {
    format: "espalier-session",
    version: 1,
    session: header,
    name: name === undefined ? null : source.text(name),
    leafId: endId,
    leftOut,
    entries: entriesOf(source, rows),
    issues: [...tree.issues, ...referenceIssues(tree)],
  } satisfies Record<keyof SessionDocument, unknown>;
  yield* jsonPieces(fields, "\n");
  yield "\n";
  return rows.length;
}

function* entriesOf(source: ExportSource, rows: readonly number[]): Generator<Entry> {
  for (const row of rows) yield source.entryAt(row);
}

/**
 * Formats for `buildRequest`, by their names on the command line: those of `@espalier/session-tree`, extended so that
 * blocks for one provider alone (documents, citations, tools that it runs itself) are sent back to that provider
 * unchanged.
 */
export const nativeFormats = {
  anthropic: anthropicNative,
  openai: openaiChatNative,
  "openai-responses": openaiResponsesNative,
} as const;

/**
 * Writes the request for the context at the end of the path, one message a line. Returns the number of entries of the
 * context.
 *
 * @throws EspalierError `empty-context` when the context has no message for a model
 */
function* exportRequest(source: ExportSource, format: RequestFormat<object>): Generator<string, number> {
  const context = buildSessionContext(source.tree, source.endId);
  const visible = source.redactor ? redactContext(context, source.redactor) : context;
  yield* jsonPieces(writeRequest(visible, {}, format), "\n");
  yield "\n";
  return new Set(context.sources).size;
}

/**
 * Returns a redacted context. From the first changed message on, each message is marked as after a change
 * (`prefixChanged`), so that the request leaves out signed reasoning, which can no longer be sent.
 */
function redactContext(context: SessionContext, redactor: Redactor): SessionContext {
  let changed = false;
  const prefixChanged: boolean[] = [];
  const messages = context.messages.map((message, index): ContextMessage => {
    const redacted = redactMessage(message, redactor);
    changed ||= redacted !== message;
    prefixChanged.push(changed || context.prefixChanged[index] === true);
    return redacted;
  });
  return { ...context, messages, prefixChanged };
}
