import { EspalierError } from "@espalier/jsonl-stream";
import { customAlphabet } from "nanoid";
import type { ContextMessage, UserContent } from "./message.ts";

/**
 * Fields that every entry has. Extend it for a kind of your own: `interface Note extends BaseEntry { type:
 * "garden.note"; … }`.
 */
export interface BaseEntry {
  /** Kind of the entry, such as `message`. */
  type: string;
  /** Unique in its session. Ids that Espalier makes have 12 letters and digits (71 bits). */
  id: string;
  /** Id of the entry that this entry follows; null for a root. */
  parentId: string | null;
  /** Time at which the entry was made, ISO 8601, UTC. */
  timestamp: string;
  /** Id of the entry whose effect this entry reverts. Set on entries that an undo or a redo wrote. */
  undoes?: string;
}

/** Fields that an append fills in when they are left out. */
export type FilledIn = "id" | "parentId" | "timestamp";

/** An entry to append: `id`, `parentId` and `timestamp` may be left out. */
export type NewEntry<E extends BaseEntry = BaseEntry> = Omit<E, FilledIn> & Partial<Pick<E, FilledIn>>;

/** Change of an earlier entry's content in the context. It applies at the edit's own entry and at all entries below it. */
export interface ContextEdit {
  /** Id of the entry to change: an entry above the edit on the same path. */
  targetId: string;
  /**
   * Null removes the entry's messages from the context. Otherwise this content replaces that of its user, assistant,
   * toolResult and custom messages; the roles stay, and messages of other roles stay as they are.
   */
  replacement: null | { content: UserContent };
}

/** Model and thinking level at one entry of a path. */
export interface Settings {
  /** Null when no entry on the path names a model. */
  model: { provider: string; modelId: string } | null;
  /** `off` when no entry on the path names a level. */
  thinkingLevel: string;
}

/** Behaviour of a kind of entry; everything but `movesLeaf` is optional. */
export interface EntryBehaviour<E extends BaseEntry> {
  /**
   * True when an appended entry of this kind becomes the leaf. False for entries outside the conversation (labels,
   * names, usage), and for a kind with `leafTarget`, which moves the leaf to another entry.
   */
  movesLeaf: boolean;
  /** Messages of the entry for a model, before edits. Default: none. Not called for an entry with a `problem`. */
  toMessages?(entry: E): ContextMessage[];
  /**
   * Id of the first entry that stays visible. All entries above that entry on the path are hidden. With the id of the
   * compaction itself, all entries above the compaction are hidden. An id that is not on the path has no effect.
   */
  firstKept?(entry: E): string;
  /** Edit that this entry makes to another entry. */
  edit?(entry: E): ContextEdit;
  /** Settings that apply from this entry on. An absent key keeps the earlier value. */
  settings?(entry: E): Partial<Settings>;
  /** Settings that entries of this kind can name. A search for a setting up the path skips all other kinds. Default: none. */
  mayName?: readonly (keyof Settings)[];
  /** Id of the new leaf, for a kind that moves the leaf to another entry; null for the position before the first entry. */
  leafTarget?(entry: E): string | null;
  /**
   * Durability of an append of this entry, unless the caller chooses another. Default `flush`. Use `fsync` for content
   * that a person or a provider cannot give a second time.
   */
  durability?(entry: E): "flush" | "fsync";
  /** Name for people in a narrow list, at most five characters. Default: none, and lists show the type or `·`. */
  title?: string;
  /**
   * Text that shows the entry in a list, which makes one line of it. Default: its fields. Not called for an entry with
   * a `problem`.
   */
  draw?(entry: E): string;
  /** Problem of an entry of this type, as one clause ("`summary` is not text"); undefined when the entry is valid. */
  problem?(entry: E): string | undefined;
}

/** A kind of entry: makes and recognizes entries of one type, and defines their behaviour. */
export interface EntryKind<E extends BaseEntry = BaseEntry> extends EntryBehaviour<E> {
  /** The `type` of its entries. */
  readonly type: E["type"];
  /**
   * Returns whether an entry is of this kind and valid, so that its fields match `E`. False for an entry of the same
   * type with a `problem`: any of its fields can be missing.
   */
  is(entry: BaseEntry): entry is E;
  /** Makes a new entry of this kind. An append adds the id, the parent and the timestamp where they are missing. */
  of(fields: Omit<E, FilledIn | "type"> & Partial<Pick<E, FilledIn>>): NewEntry<E>;
}

/** Makes a kind of entry from its type and its behaviour. */
/* @__NO_SIDE_EFFECTS__ */
export function defineEntry<E extends BaseEntry>(
  type: E["type"],
  behaviour: EntryBehaviour<E>,
): EntryKind<E> {
  return {
    ...behaviour,
    type,
    is: (entry): entry is E => entry.type === type && behaviour.problem?.(entry as E) === undefined,
    of: (fields) => ({ type, ...fields }) as unknown as NewEntry<E>,
  };
}

/**
 * Returns an entry: the draft, with its missing id, parent (`leafId`) and timestamp (`now`) filled in. The four common
 * fields come first in the line, whatever their order in the draft, because readers look for them there.
 */
export function fillIn(draft: NewEntry, leafId: string | null, now: string): BaseEntry {
  const entry = { type: "", id: "", parentId: leafId, timestamp: now, ...(draft as Partial<BaseEntry>) };
  // A draft can have `undefined` for a missing field.
  if (draft.id === undefined) entry.id = createId();
  if (draft.parentId === undefined) entry.parentId = leafId;
  if (draft.timestamp === undefined) entry.timestamp = now;
  return entry as BaseEntry;
}

/**
 * Returns the result of `read`, which reads a caller's drafts: a getter of a draft can throw any value.
 * @throws EspalierError `invalid-entry` for every thrown value except an error with a `code`, which is thrown unchanged
 */
export function readDrafts<Result>(read: () => Result): Result {
  try {
    return read();
  } catch (cause) {
    if (cause instanceof Error && typeof (cause as { code?: unknown }).code === "string") throw cause;
    const reason = cause instanceof Error ? cause.message : String(cause);
    const message = `The entry cannot be read: ${reason.replace(/[.;]$/, "")}; give it plain values.`;
    throw new EspalierError("invalid-entry", message, { cause });
  }
}

/** Returns the fields of an entry's kind: all except `type`, `id`, `parentId` and `timestamp`. */
export function entryFields(entry: BaseEntry): Record<string, unknown> {
  const { type: _type, id: _id, parentId: _parentId, timestamp: _timestamp, ...fields } = entry;
  return fields;
}

/** Characters of an id. */
export const ID_ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/** Letters and digits in an id. 62^12 is 71 bits, so a new id is unique without a list of all ids. */
export const ID_LENGTH = 12;

/** Returns a new random id for an entry or a session: {@link ID_LENGTH} letters and digits. */
export const createId: () => string = /* @__PURE__ */ customAlphabet(ID_ALPHABET, ID_LENGTH);

/** Pattern of a session id, which becomes part of a file name. It has no limit of length. */
const SESSION_ID = /^[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?$/;

/**
 * Returns whether an id is safe as a part of a file name: 1 to 128 characters of `[A-Za-z0-9._-]`, with a letter or
 * digit at both ends.
 */
export function isSessionId(id: string): boolean {
  return id.length <= 128 && SESSION_ID.test(id);
}

/**
 * Returns the id of an entry in an old file, whose lines have no ids. The same session and line number always give the
 * same id. Alphabet and length are those of a random id.
 */
export function deriveId(sessionId: string, lineNumber: number): string {
  let low = 0x811c9dc5;
  let high = 0x01000193;
  for (const unit of `${sessionId}:${lineNumber}`) {
    const code = unit.codePointAt(0)!;
    low = Math.imul(low ^ code, 0x01000193);
    high = Math.imul(high ^ (code + 0x9e3779b9), 0x85ebca6b) ^ (high >>> 13);
  }
  // Two hashes have 64 of the 71 bits of an id. The line number is the lowest word: ids of lines less than 4,096 (the
  // power of two in 62^12) apart always differ.
  const rest = [mixBits(high), mixBits(low ^ high), lineNumber >>> 0];
  let id = "";
  for (let i = 0; i < ID_LENGTH; i++) id += ID_ALPHABET[divide(rest, ID_ALPHABET.length)];
  return id;
}

/** Divides a number in place and returns the remainder. `words` are its 32-bit words, the highest first. */
function divide(words: number[], by: number): number {
  let left = 0;
  for (let at = 0; at < words.length; at++) {
    const value = left * 2 ** 32 + words[at]!;
    words[at] = Math.floor(value / by);
    left = value % by;
  }
  return left;
}

/** Mixes 32 bits with the finalizer of MurmurHash3: every input bit affects every output bit. */
export function mixBits(value: number): number {
  let hash = value >>> 0;
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return (hash ^ (hash >>> 16)) >>> 0;
}

let lastAt = Number.NaN;
let last = "";

/**
 * Returns the current time as ISO 8601 in UTC. Formats it at most once per millisecond, because formatting costs as
 * much as checking an entry.
 */
export function timestamp(): string {
  const now = Date.now();
  if (now !== lastAt) {
    lastAt = now;
    last = new Date(now).toISOString();
  }
  return last;
}

/** Format version that this program writes. Files of a newer version can be read, and are never written. */
export const FORMAT_VERSION = 3;

/** Origin of a session that is a fork or the run of a sub-agent. */
export interface ParentLink {
  /** Id of the session from which this one was forked, or for which the sub-agent works. */
  sessionId: string;
  /** Id of the entry in that session; null when there is none. */
  entryId: string | null;
  kind: "fork" | "subagent";
}

/** Source of an imported session. */
export interface ImportSource {
  agent: string;
  version?: string;
  id: string;
  /** SHA-256 of the source's bytes, hex. */
  digest: string;
}

/** The first line of a session. Keys that are not listed here are kept. */
export interface SessionHeader {
  type: "session";
  version: number;
  id: string;
  /** Time at which the session was created, ISO 8601, UTC. */
  timestamp: string;
  /** Working folder of the agent. */
  cwd: string;
  /** Absolute path of the session from which this session was forked, in Pi's form. */
  parentSession?: string;
  parent?: ParentLink;
  importedFrom?: ImportSource;
  /** The program that made the file, with its version. */
  writer?: string;
}

/**
 * Reads a header from a parsed first line; undefined when the line is not a header. A missing version is read as 1,
 * because the first files had no version. A missing id, timestamp or folder is read as an empty text, so that the file
 * stays readable.
 */
export function parseHeader(value: unknown): SessionHeader | undefined {
  if (typeof value !== "object" || value === null || (value as { type?: unknown }).type !== "session")
    return undefined;
  const header = value as Partial<SessionHeader>;
  return {
    ...(header as SessionHeader),
    version: typeof header.version === "number" ? header.version : 1,
    id: typeof header.id === "string" ? header.id : "",
    timestamp: typeof header.timestamp === "string" ? header.timestamp : "",
    cwd: typeof header.cwd === "string" ? header.cwd : "",
  };
}

/** The `writer` in headers of new sessions: this program and the version of its packages. */
export const WRITER = "espalier/0.1.0";

/**
 * Kinds of problems in a log. A log with any of them can still be read. {@link isDamage} separates damage from
 * information.
 *
 * - `torn-tail`: the last line has no newline and is not an entry, because a write was cut off; it does not count
 * - `unterminated-tail`: the last line has no newline, but parses; it counts
 * - `corrupt`: a line, or a part of one, that is not an entry. A whole line whose type, id and parent can be read keeps
 *   its position in the tree, without content
 * - `salvaged`: an entry after a torn one on the same line; it counts
 * - `glued`: an entry on the line of a whole header or entry, without a newline between them; both count
 * - `duplicate-id`: an entry with the id of an earlier, different entry; both count
 * - `identical-duplicate`: the same line a second time; it counts once
 * - `orphan`: no entry above has the parent's id: the parent is missing, is further down in the file, or is the entry
 *   itself; the entry counts as a root
 * - `bad-reference`: a label or leaf entry that names no entry above it in the file, or a compaction or edit that names
 *   no entry above it on its path
 * - `invalid-entry`: an entry of a known type with a missing or wrong field, according to the `problem` of its kind
 * - `duplicate-header`: a header after the first header or entry; it does not count
 * - `no-header`: an entry comes before any header; the log can be read, but not written
 * - `version`: the format is newer than this program writes; the log can be read, but not written
 * - `blank-beginning`: blank lines before the header; they have no meaning
 * - `large-line`, `large-file`: not damage, reported as information
 */
export type SessionIssueKind =
  | "torn-tail"
  | "unterminated-tail"
  | "corrupt"
  | "salvaged"
  | "glued"
  | "duplicate-id"
  | "identical-duplicate"
  | "orphan"
  | "bad-reference"
  | "invalid-entry"
  | "duplicate-header"
  | "no-header"
  | "version"
  | "blank-beginning"
  | "large-line"
  | "large-file";

/** One problem of a line, and its position. The message never quotes the content of an entry. */
export interface SessionIssue {
  kind: SessionIssueKind;
  /** Line number, from 1; null when lines were not counted, as for a reference to a missing entry. */
  line: number | null;
  /** Offset of the first byte of the line, or of the part of the line that has the problem. */
  offset: number;
  /** Id of the entry with the problem; null when the problem is not that of one entry, or the id cannot be read. */
  id: string | null;
  message: string;
}

/** Kinds that `doctor` reports without calling the session damaged. */
const HARMLESS: ReadonlySet<SessionIssueKind> = new Set([
  "glued",
  "identical-duplicate",
  "blank-beginning",
  "large-line",
  "large-file",
]);

/** Returns whether an issue is damage: data is lost or uncertain, or the log cannot be written. */
export function isDamage(issue: SessionIssue): boolean {
  return !HARMLESS.has(issue.kind);
}

/**
 * Throws for a log that can only be read.
 * @throws EspalierError `no-header`; `version` for a format newer than this program writes
 */
export function assertWritable({ header, ref }: { header: SessionHeader | undefined; ref: string }): void {
  if (!header)
    throw new EspalierError(
      "no-header",
      `${ref} has no session header, so it can only be read; \`espalier doctor ${ref} --repair FILE\` writes a repaired copy.`,
    );
  if (header.version > FORMAT_VERSION) {
    throw new EspalierError(
      "version",
      `${ref} has format version ${header.version}, newer than this program writes (${FORMAT_VERSION}); it can only be read.`,
    );
  }
}

/**
 * Names a session. A string and `{ id }` are the exact id in its header. `{ file }` is the `ref` of a log or of a
 * listing: the path of a file, or the name in another store. An id is never read as a path, and the beginning of an id
 * is not accepted.
 */
export type SessionRef = string | { readonly id: string } | { readonly file: string };

/**
 * Returns a {@link SessionRef} as an object.
 * @throws EspalierError `not-found` for a value that is not a {@link SessionRef}
 */
export function sessionRef(ref: SessionRef): { id: string } | { file: string } {
  if (typeof ref === "string") return { id: ref };
  const { id, file } = (ref ?? {}) as { id?: unknown; file?: unknown };
  if (typeof id === "string" && file === undefined) return { id };
  if (typeof file === "string" && id === undefined) return { file };
  throw new EspalierError(
    "not-found",
    "A session is named by a string with its id, { id } or { file }; give one of these, with a string.",
  );
}

/** Returns a count with commas between thousands: 124,661. */
export const formatCount = (count: number): string => count.toLocaleString("en-US");

/** Returns a count with its noun: "1 message", "914 messages". `plural` defaults to the noun with an `s`. */
export const formatMany = (count: number, noun: string, plural = `${noun}s`): string =>
  `${formatCount(count)} ${count === 1 ? noun : plural}`;
