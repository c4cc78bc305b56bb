import { EspalierError } from "@espalier/jsonl-stream";
import { customAlphabet } from "nanoid";
import type { ContextMessage, UserContent } from "./message.ts";

/** Fields that every entry has. A kind of your own extends it: `interface Note extends BaseEntry { type: "garden.note"; … }`. */
export interface BaseEntry {
  /** Kind of the entry, such as `message`. */
  type: string;
  /** Unique in its session; ours have 12 letters and digits (71 bits). */
  id: string;
  /** The entry this one follows; null for a root. */
  parentId: string | null;
  /** ISO 8601, UTC. */
  timestamp: string;
  /** The entry whose effect this one takes back, when an undo or a redo wrote it. */
  undoes?: string;
}

/** The fields that the log fills in when they are left out. */
export type FilledIn = "id" | "parentId" | "timestamp";

/** An entry to append: `id`, `parentId` and `timestamp` may be left out. */
export type NewEntry<E extends BaseEntry = BaseEntry> = Omit<E, FilledIn> & Partial<Pick<E, FilledIn>>;

/** A change of what an earlier entry says from here on: null leaves it out. */
export interface ContextEdit {
  /** The entry whose say changes, above the edit on its path. */
  targetId: string;
  /** Null leaves it out; else the content that replaces its own, under the same role. */
  replacement: null | { content: UserContent };
}

/** The model and the thinking level at a place of a path. */
export interface Settings {
  /** Null where nothing on the path names one. */
  model: { provider: string; modelId: string } | null;
  /** `off` where nothing on the path names one. */
  thinkingLevel: string;
}

/** Behaviour of a kind of entry; everything but `movesLeaf` is optional. */
export interface EntryBehaviour<E extends BaseEntry> {
  /** False for entries beside the conversation (labels, names, usage): appending one leaves the leaf. */
  movesLeaf: boolean;
  /** Messages of the entry for a model, before edits. None by default. */
  toMessages?(entry: E): ContextMessage[];
  /** The first entry that stays visible: what comes before it on the path is hidden. The own id keeps nothing. */
  firstKept?(entry: E): string;
  /** Edit of another entry that this one makes. */
  edit?(entry: E): ContextEdit;
  /** The settings that hold from this entry on; an absent key leaves what held before. */
  settings?(entry: E): Partial<Settings>;
  /** The settings that entries of this kind may name: who looks for one far up a path reads no others. Default: none. */
  mayName?: readonly (keyof Settings)[];
  /** Target of an entry that moves the leaf. */
  leafTarget?(entry: E): string | null;
  /**
   * Durability of an append of this entry, unless the caller says otherwise. `flush` by default; what a person or a
   * provider cannot give again is `fsync`.
   */
  durability?(entry: E): "flush" | "fsync";
  /** One line for a list of entries. Default: its fields. */
  draw?(entry: E): string;
  /** Problem of an entry of this type, in one clause ("`summary` is not text"); undefined when it is sound. */
  problem?(entry: E): string | undefined;
}

/** A kind of entry: makes them, recognises them, and answers for them. */
export interface EntryKind<E extends BaseEntry = BaseEntry> extends EntryBehaviour<E> {
  /** The `type` of its entries. */
  readonly type: E["type"];
  /**
   * Returns whether an entry is of this kind and sound, so that its fields are what `E` says. A line of the same type
   * with a `problem` is not: it may lack anything.
   */
  is(entry: BaseEntry): entry is E;
  /** A new entry of this kind; the log gives it an id, a parent and a time. */
  of(fields: Omit<E, FilledIn | "type"> & Partial<Pick<E, FilledIn>>): NewEntry<E>;
}

/** Makes a kind of entry out of its type and what it says of itself. */
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

/** Own fields of an entry of any kind: without `type` and those that the log fills in. */
export function entryFields(entry: BaseEntry): Record<string, unknown> {
  const { type: _type, id: _id, parentId: _parentId, timestamp: _timestamp, ...fields } = entry;
  return fields;
}

const ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/** Letters and digits in an id: 62^12 is 71 bits, so that no set of all ids is needed to pick a fresh one. */
export const ID_LENGTH = 12;

/** A fresh id for an entry or a session: {@link ID_LENGTH} letters and digits, random. */
export const createId: () => string = /* @__PURE__ */ customAlphabet(ALPHABET, ID_LENGTH);

/** Pattern of a session id, which becomes part of a file name. */
const SESSION_ID = /^[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?$/;

/** True when an id is safe as a part of a file name (at most 128 of `[A-Za-z0-9._-]`, no dot at either end). */
export function isSessionId(id: string): boolean {
  return id.length <= 128 && SESSION_ID.test(id);
}

/**
 * The id of an entry of an old file, whose lines carry none: the same for the same session and line every time, spread
 * over the same alphabet and length as a random one.
 */
export function deriveId(sessionId: string, lineNumber: number): string {
  let low = 0x811c9dc5;
  let high = 0x01000193;
  for (const unit of `${sessionId}:${lineNumber}`) {
    const code = unit.codePointAt(0)!;
    low = Math.imul(low ^ code, 0x01000193);
    high = Math.imul(high ^ (code + 0x9e3779b9), 0x85ebca6b) ^ (high >>> 13);
  }
  // 64 bits end after 11 characters. The line number fills what is left, and keeps lines apart.
  const rest = [mix(high), mix(low ^ high), lineNumber >>> 0];
  let id = "";
  for (let i = 0; i < ID_LENGTH; i++) id += ALPHABET[divide(rest, ALPHABET.length)];
  return id;
}

/** Divides a number of several times 32 bits, the highest first, and returns what is left over. */
function divide(words: number[], by: number): number {
  let left = 0;
  for (let at = 0; at < words.length; at++) {
    const value = left * 2 ** 32 + words[at]!;
    words[at] = Math.floor(value / by);
    left = value % by;
  }
  return left;
}

/** The finaliser of MurmurHash3: every input bit reaches every output bit. */
function mix(value: number): number {
  let hash = value >>> 0;
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return (hash ^ (hash >>> 16)) >>> 0;
}

let lastAt = Number.NaN;
let last = "";

/** Now, as entries say it: ISO 8601, UTC. Made once a millisecond: writing a date costs as much as checking an entry. */
export function timestamp(): string {
  const now = Date.now();
  if (now !== lastAt) {
    lastAt = now;
    last = new Date(now).toISOString();
  }
  return last;
}

/** The version this code writes; files of a newer one are read and never written. */
export const FORMAT_VERSION = 3;

/** Origin of a session that is a fork or the run of a sub-agent. */
export interface ParentLink {
  sessionId: string;
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

/** The first line of a session. Keys that are not named here are kept. */
export interface SessionHeader {
  type: "session";
  version: number;
  id: string;
  /** ISO 8601, UTC. */
  timestamp: string;
  /** The folder the agent worked in. */
  cwd: string;
  /** Absolute path of the session this one was forked from, as Pi writes it. */
  parentSession?: string;
  parent?: ParentLink;
  importedFrom?: ImportSource;
  /** The program that made the file, with its version. */
  writer?: string;
}

/**
 * Reads a header from a parsed first line; undefined when the line is none. A missing version is 1 (the first files
 * had no such field), a missing id or folder is empty: what a reader can do without does not stop it.
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

/** Writer in the headers of new sessions: this program, with the version of its packages. */
export const WRITER = "espalier/0.1.0";

/**
 * Kinds of damage in a log. None of them stops a reader.
 *
 * - `torn-tail`: the last line has no end and does not parse: a write that was cut
 * - `unterminated-tail`: the last line has no end, and parses: it counts
 * - `corrupt`: a line that is no entry, or whose body cannot be read
 * - `salvaged`: an entry found behind a torn one on the same line
 * - `glued`: an entry on the line of a whole header or entry, without a newline between them; both count
 * - `duplicate-id`: a second entry with an id that is taken
 * - `identical-duplicate`: the same line again; it counts once
 * - `orphan`: the parent is missing, below, or the entry itself; it is a root of its own
 * - `bad-reference`: a first kept entry, edit, label or leaf that names nothing above it (or, for the first two, not on its path)
 * - `invalid-entry`: a known type that lacks what its type needs
 * - `duplicate-header`: a second header line
 * - `no-header`, `version`: readable, and not to be written
 * - `blank-beginning`: blank lines before the header; they say nothing
 * - `large-line`, `large-file`: fine, and worth knowing
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

/** One problem of a line, and its position. Messages never quote the line. */
export interface SessionIssue {
  kind: SessionIssueKind;
  /** From 1; null where lines were not counted, as for a reference that names nothing. */
  line: number | null;
  /** Of the line's first byte. */
  offset: number;
  /** The entry it is about, when there is one. */
  id: string | null;
  message: string;
}

/** Kinds that `doctor` mentions without calling the session damaged. */
const HARMLESS: ReadonlySet<SessionIssueKind> = new Set([
  "glued",
  "identical-duplicate",
  "blank-beginning",
  "large-line",
  "large-file",
]);

/** Returns whether an issue is damage: something is lost, uncertain, or prevents writing. */
export function isDamage(issue: SessionIssue): boolean {
  return !HARMLESS.has(issue.kind);
}

/** Returns whether a log with this header is in a format of before the current one. */
export const isOldFormat = (header: SessionHeader | undefined): header is SessionHeader =>
  header !== undefined && header.version < FORMAT_VERSION;

/**
 * Names a session: a string and `{ id }` are its exact id, the one in its header; `{ file }` is what it is kept under, as
 * `ref` of a log or of a listing says: the path of a file, or the name in another store. An id is never read as a path,
 * nor is the beginning of one an id.
 */
export type SessionRef = string | { readonly id: string } | { readonly file: string };

/**
 * A {@link SessionRef} in one of its two shapes.
 * @throws EspalierError `not-found` for what names no session
 */
export function sessionRef(ref: SessionRef): { id: string } | { file: string } {
  if (typeof ref === "string") return { id: ref };
  const { id, file } = (ref ?? {}) as { id?: unknown; file?: unknown };
  if (typeof id === "string" && file === undefined) return { id };
  if (typeof file === "string" && id === undefined) return { file };
  throw new EspalierError(
    "not-found",
    "A session is named by its id or by { file }; give one of the two, as a text.",
  );
}
