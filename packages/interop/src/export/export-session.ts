import { jsonText } from "@espalier/jsonl-stream";
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
import { exportMarkdown } from "./markdown.ts";
import { type ExportableSession, ExportSource, rowsAlong } from "./source.ts";

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

/** Options of an export. */
export interface ExportOptions {
  format: ExportFormat;
  /**
   * The entry in which the path ends; default: the leaf. `json` and `jsonl` hold the whole session unless it is given,
   * and then the path with what stands beside it.
   */
  at?: string | null | undefined;
  /** All branches in a `markdown` document instead of one path, and bookkeeping of agents too. Other formats do not ask. */
  all?: boolean | undefined;
  /**
   * Called with every text of people, models and tools, paths and names among them; never with ids, signatures and
   * pictures. Where it changes reasoning, the signature is left out.
   */
  redact?: Redact | undefined;
}

/**
 * A session as text in pieces of about one entry each. The same log gives the same text, whether the session runs or was
 * opened again. The whole tree has to be within reach (`await session.load()`). Returns how many entries the text tells:
 * those of the file, of the path, or of the context.
 *
 * @throws EspalierError `unknown-entry`; for requests `empty-context`; both before the first piece
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
  return yield* exportRequest(source, format === "ai-sdk" ? aiSdkFormat : nativeFormats[format]);
}

/**
 * Lines of the session format. Lines are the log's own bytes; redacted ones are written anew, and one that can no longer
 * be read gives its place only, since nobody can say what of it is to be hidden. Returns how many entries those are.
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

/** A whole session as one JSON value. */
export interface SessionDocument {
  format: "espalier-session";
  /** Of this shape. */
  version: 1;
  /** The first line; null where the log has none. */
  session: SessionHeader | null;
  name: string | null;
  leafId: string | null;
  /** In file order, each as its line says; one that can no longer be read has the type `damaged`. */
  entries: Entry[];
  /** Damage of lines and references; empty for a sound session. */
  issues: SessionIssue[];
}

/** A {@link SessionDocument}, one entry a line; returns how many those are. */
function* exportJson(source: ExportSource, rows: readonly number[]): Generator<string, number> {
  const { tree, header, endId } = source;
  const name = sessionName(tree);
  yield* jsonFields({
    format: "espalier-session",
    version: 1,
    session: header,
    name: name === undefined ? null : source.text(name),
    leafId: endId,
    entries: entriesOf(source, rows),
    issues: [...tree.issues, ...referenceIssues(tree)],
  } satisfies Record<keyof SessionDocument, unknown>);
  return rows.length;
}

function* entriesOf(source: ExportSource, rows: readonly number[]): Generator<Entry> {
  for (const row of rows) yield source.entryAt(row);
}

/**
 * Formats for `buildRequest`, by the names that the command line gives them: those of `@espalier/session-tree`, and
 * blocks that only one provider knows (documents, citations, tools that it runs itself) go back to that provider as they
 * were.
 */
export const nativeFormats = {
  anthropic: anthropicNative,
  openai: openaiChatNative,
  "openai-responses": openaiResponsesNative,
} as const;

/**
 * The request that the context at the end of the path makes, one message a line. Returns how many entries the context
 * is made of.
 * @throws EspalierError `empty-context` when nothing there says anything to a model
 */
function* exportRequest(source: ExportSource, format: RequestFormat<object>): Generator<string, number> {
  const context = buildSessionContext(source.tree, source.endId);
  const visible = source.redactor ? redactContext(context, source.redactor) : context;
  yield* jsonFields(writeRequest(visible, {}, format));
  return new Set(context.sources).size;
}

/** A redacted context. Reasoning that was signed behind a change cannot be sent any more. */
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

/**
 * An object as JSON text in pieces: each field on a line, and each element of a field that is a list or a generator, so
 * that a long list is never one string. Fields that are undefined are left out.
 */
function* jsonFields(fields: object): Generator<string> {
  let separator = "{\n";
  for (const [name, value] of Object.entries(fields)) {
    if (value === undefined) continue;
    yield `${separator}${JSON.stringify(name)}: `;
    if (isIterable(value)) yield* jsonList(value);
    else yield jsonText(value);
    separator = ",\n";
  }
  yield separator === "{\n" ? "{}\n" : "\n}\n";
}

function* jsonList(values: Iterable<unknown>): Generator<string> {
  let separator = "[\n";
  for (const value of values) {
    yield `${separator}${jsonText(value)}`;
    separator = ",\n";
  }
  yield separator === "[\n" ? "[]" : "\n]";
}

const isIterable = (value: unknown): value is Iterable<unknown> =>
  typeof value === "object" && value !== null && Symbol.iterator in value;
