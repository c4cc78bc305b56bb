import { isRecord } from "@espalier/session-tree";
import { firstLines, type SiblingFiles, type SourceFile, sourceName } from "../import/draft.ts";
import { ScratchSpace } from "../scratch/space.ts";

type Fields = Record<string, unknown>;

/** A line of a rollout, in the same form for all versions. */
export interface RolloutLine {
  type: string;
  payload: Fields;
  timestamp: string | undefined;
  /** Position in the history of the thread; old files have none. */
  ordinal: number | undefined;
  metadata: Fields;
}

/** Types of items that the first versions wrote without an envelope. */
const BARE_ITEMS = new Set(
  `message reasoning function_call function_call_output custom_tool_call custom_tool_call_output local_shell_call
  web_search_call`.split(/\s+/),
);

/** Reads a parsed line; undefined when it is not a line of a rollout. */
export function readRolloutLine(value: unknown): RolloutLine | undefined {
  if (!isRecord(value)) return undefined;
  const { type, payload, ordinal, metadata, role, id, record_type: recordType } = value;
  const timestamp = typeof value["timestamp"] === "string" ? value["timestamp"] : undefined;
  if (typeof type === "string" && isRecord(payload))
    return {
      type,
      payload,
      timestamp,
      ordinal: typeof ordinal === "number" ? ordinal : undefined,
      metadata: isRecord(metadata) ? metadata : {},
    };
  const bare = { payload: value, timestamp, ordinal: undefined, metadata: {} };
  if (typeof type === "string" && BARE_ITEMS.has(type) && (type !== "message" || typeof role === "string"))
    return { type: "response_item", ...bare };
  if (type === undefined && typeof id === "string" && timestamp !== undefined)
    return { type: "session_meta", ...bare };
  return typeof recordType === "string" ? { type: `record.${recordType}`, ...bare } : undefined;
}

/** Returns the kind of a line: its type, and the type of its payload. */
export const kindOfRollout = ({ type, payload }: RolloutLine): string =>
  typeof payload["type"] === "string" ? `${type}/${payload["type"]}` : type;

/** Returns the texts of an item's content, joined by newlines; empty when there are none. */
export function itemText({ content }: Fields): string {
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) return "";
  return content
    .flatMap((part) => (isRecord(part) && typeof part["text"] === "string" ? [part["text"]] : []))
    .join("\n");
}

/** Returns a text that is not empty; undefined for any other value. */
export const textOf = (value: unknown): string | undefined =>
  typeof value === "string" && value !== "" ? value : undefined;

/** Beginning of another rollout that this rollout continues. */
export interface HistoryBase {
  /** Id of the other file. */
  segment: string;
  /** Length of the beginning in bytes; 0 when the header has none. */
  endOffset: number;
  /** Ordinal of the first line after the beginning; undefined when the header has none. */
  endOrdinal: number | undefined;
}

/** A rollout and its header. */
export interface RolloutFile {
  source: SourceFile;
  /** Payload of the first header; empty when there is none. */
  meta: Fields;
  /** Time of the header, or else of the first line that has one. */
  timestamp: string | undefined;
  /** Id of the thread, which several files may share. */
  threadId: string;
  /** Id of this file, by which other files name it. */
  segment: string;
  /** Id of the thread from which this one was forked; undefined for no fork. */
  forkedFrom: string | undefined;
  base: HistoryBase | undefined;
  /** The session from which this file was exported; undefined for a file that Codex began. */
  origin: { sessionId: string; until: string } | undefined;
}

/** Header field of an exported file, which Codex ignores: id of the session, and the latest time of the copied lines. */
export const ORIGIN = "espalier_fork";

const ID = "[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}";
const NAME = new RegExp(`(${ID})(?:_(${ID}))?$`);

/**
 * Returns the ids in the name of a rollout: of the thread, and of the segment, which by default has the thread's id.
 */
function idsInName(path: string): { thread?: string; segment?: string } {
  const [, thread, segment] = NAME.exec(sourceName(path)) ?? [];
  return thread === undefined ? {} : { thread, segment: segment ?? thread };
}

/** Reads the header of a rollout, among its first 50 lines. */
export function openRollout(source: SourceFile): RolloutFile {
  let firstTime: string | undefined;
  let meta: Fields = {};
  for (const { value } of firstLines(source.view)) {
    const line = readRolloutLine(value);
    firstTime ??= textOf(line?.timestamp);
    if (line?.type !== "session_meta") continue;
    meta = line.payload;
    break;
  }
  const { thread, segment } = idsInName(source.path);
  const threadId = textOf(meta["id"]) ?? thread ?? sourceName(source.path);
  const forkedFrom = textOf(meta["forked_from_id"]);
  return {
    source,
    meta,
    timestamp: textOf(meta["timestamp"]) ?? firstTime,
    threadId,
    segment: segment ?? threadId,
    forkedFrom: forkedFrom === threadId ? undefined : forkedFrom,
    base: readBase(meta["history_base"]),
    origin: readOrigin(meta[ORIGIN]),
  };
}

function readBase(base: unknown): HistoryBase | undefined {
  if (!isRecord(base) || typeof base["thread_id"] !== "string") return undefined;
  const { thread_id: segment, end_byte_offset: offset, end_ordinal_exclusive: ordinal } = base;
  return {
    segment,
    endOffset: typeof offset === "number" ? offset : 0,
    endOrdinal: typeof ordinal === "number" ? ordinal : undefined,
  };
}

function readOrigin(origin: unknown): RolloutFile["origin"] {
  const { session_id: sessionId, until } = isRecord(origin) ? origin : {};
  return typeof sessionId === "string" && typeof until === "string" ? { sessionId, until } : undefined;
}

/** File in which Codex stores the names of its threads. */
export const THREAD_INDEX = "session_index.jsonl";

/** Other rollouts, found by the ids in lines. */
export class RolloutLibrary {
  /** Scratch space for the turns of threads. */
  readonly scratch: ScratchSpace;
  readonly #siblings: SiblingFiles;
  /** Names of threads, which are in no rollout. */
  #names: Map<string, string> | undefined;
  /** Paths by the id of the segment. */
  #paths: Map<string, string> | undefined;

  constructor(siblings: SiblingFiles) {
    this.#siblings = siblings;
    this.scratch = siblings.scratch ?? new ScratchSpace();
  }

  /** Opens the file with this id: of a segment, or the first file of a thread. Undefined when it cannot be opened. */
  open(segment: string): RolloutFile | undefined {
    this.#paths ??= pathsById(this.#siblings.files);
    const path = this.#paths.get(segment);
    const source = path === undefined ? undefined : this.#siblings.open(path);
    return source && openRollout(source);
  }

  /** Opens the other files of the thread of a file. */
  othersOf({ threadId, source }: RolloutFile): RolloutFile[] {
    return this.#siblings.files.flatMap((path) => {
      const isOther = path !== source.path && idsInName(path).thread === threadId;
      const other = isOther ? this.#siblings.open(path) : undefined;
      return other ? [openRollout(other)] : [];
    });
  }

  /** Returns the newest name of a thread; undefined when it has none. */
  nameOf(threadId: string): string | undefined {
    this.#names ??= this.#readNames();
    return this.#names.get(threadId);
  }

  #readNames(): Map<string, string> {
    const names = new Map<string, string>();
    for (const path of this.#siblings.files) {
      const source = path.endsWith(THREAD_INDEX) ? this.#siblings.open(path) : undefined;
      for (const { value } of source ? firstLines(source.view, Number.POSITIVE_INFINITY) : []) {
        const { id, thread_name } = isRecord(value) ? value : {};
        if (typeof id === "string" && typeof thread_name === "string" && thread_name !== "")
          names.set(id, thread_name);
      }
    }
    return names;
  }
}

/** Returns paths by id. A compressed copy counts only when there is no other file. */
function pathsById(files: readonly string[]): Map<string, string> {
  const paths = new Map<string, string>();
  for (const path of files) {
    const { segment } = idsInName(path);
    const known = segment === undefined ? undefined : paths.get(segment);
    if (segment !== undefined && (known === undefined || known.endsWith(".zst"))) paths.set(segment, path);
  }
  return paths;
}
