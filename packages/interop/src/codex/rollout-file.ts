import { parseLine, scanLines } from "@espalier/jsonl-stream";
import { isRecord } from "@espalier/session-tree";
import { type SourceFile, sourceName } from "../import-source.ts";
import { type RolloutLine, readRolloutLine } from "./rollout-line.ts";

type Fields = Record<string, unknown>;

/** The part of another file that comes before this one. */
export interface HistoryBase {
  segment: string;
  /** Bytes of it. */
  endOffset: number;
  endOrdinal: number | undefined;
}

/** How many lines are looked at for the header. */
const LINES = 50;

/** A rollout and what its header says. */
export class RolloutFile {
  readonly source: SourceFile;
  /** The payload of the first header; empty where there is none. */
  readonly meta: Fields;
  readonly timestamp: string | undefined;
  /** True when there is a line of a rollout at all. */
  readonly isRollout: boolean;

  constructor(source: SourceFile) {
    this.source = source;
    const lines = firstLines(source);
    const header = lines.find(({ type }) => type === "session_meta");
    this.meta = header?.payload ?? {};
    this.timestamp = textOf(this.meta["timestamp"]) ?? lines.find(({ timestamp }) => timestamp)?.timestamp;
    this.isRollout = lines.length > 0;
  }

  /** The id of the thread, which several files may share. */
  get threadId(): string {
    return textOf(this.meta["id"]) ?? idsInName(this.source.path).thread ?? sourceName(this.source.path);
  }

  /** The id of this file, by which others name it. */
  get segment(): string {
    return idsInName(this.source.path).segment ?? this.threadId;
  }

  get forkedFrom(): string | undefined {
    return textOf(this.meta["forked_from_id"]);
  }

  get base(): HistoryBase | undefined {
    const base = this.meta["history_base"];
    if (!isRecord(base) || typeof base["thread_id"] !== "string") return undefined;
    const { end_byte_offset: offset, end_ordinal_exclusive: ordinal } = base;
    return {
      segment: base["thread_id"],
      endOffset: typeof offset === "number" ? offset : 0,
      endOrdinal: typeof ordinal === "number" ? ordinal : undefined,
    };
  }
}

const ID = "[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}";
const NAME = new RegExp(`(${ID})(?:_(${ID}))?$`);

/** The ids in the name of a rollout: of the thread, and of the segment, which is the thread's where it names none. */
export function idsInName(path: string): { thread?: string; segment?: string } {
  const [, thread, segment] = NAME.exec(sourceName(path)) ?? [];
  return thread === undefined ? {} : { thread, segment: segment ?? thread };
}

const textOf = (value: unknown): string | undefined =>
  typeof value === "string" && value !== "" ? value : undefined;

function firstLines({ view }: SourceFile): RolloutLine[] {
  const lines: RolloutLine[] = [];
  let seen = 0;
  for (const { bytes } of scanLines(view, { blockSize: 1 << 16 })) {
    if (++seen > LINES) break;
    const parsed = parseLine(bytes);
    const line = parsed.ok ? readRolloutLine(parsed.value) : undefined;
    if (line) lines.push(line);
    if (line?.type === "session_meta") break;
  }
  return lines;
}
