import { isRecord } from "@espalier/session-tree";
import { FieldScan } from "./field-scan.ts";
import type { Line } from "./hearing.ts";
import { LineMark } from "./line-kind.ts";

/** What a line says of its place. */
export interface LineFacts {
  type: string;
  /** The line's own id; empty when it has none. Ids are bytes, good until the next line is read. */
  id: Uint8Array;
  /** The id of the line that it follows. */
  parentId: Uint8Array | undefined;
  marks: number;
  /** The id of the answer that the line is a part of. */
  message: Uint8Array | undefined;
  forkedFrom: unknown;
}

/** The fields that are looked for, with their number in a scan. */
const FIELD = {
  type: 0,
  uuid: 1,
  parentUuid: 2,
  isSidechain: 3,
  isMeta: 4,
  isCompactSummary: 5,
  subtype: 6,
  message: 7,
  forkedFrom: 8,
} as const;

const NO_BYTES = new Uint8Array();
const encoder = new TextEncoder();

/** Reads the facts of lines, most of them from the bytes alone. */
export class LineFactsReader {
  readonly #scan = new FieldScan(Object.keys(FIELD));
  readonly #answer = new FieldScan(["id"], { mayStop: true });

  /** Undefined for a line that only parsing can tell of. */
  read(block: Uint8Array, start: number, end: number): LineFacts | undefined {
    return this.#scan.scan(block, start, end) ? this.#scanned(block) : undefined;
  }

  #scanned(block: Uint8Array): LineFacts | undefined {
    const scan = this.#scan;
    if (!scan.isPlainText(FIELD.type)) return undefined;
    const hasId = scan.isGiven(FIELD.uuid);
    const hasParent = scan.isGiven(FIELD.parentUuid);
    if ((hasId && !scan.isPlainText(FIELD.uuid)) || (hasParent && !scan.isPlainText(FIELD.parentUuid)))
      return undefined;
    if (scan.isGiven(FIELD.forkedFrom)) return undefined;
    const type = scan.text(FIELD.type);
    return {
      type,
      id: hasId ? scan.textBytes(FIELD.uuid) : NO_BYTES,
      parentId: hasParent ? scan.textBytes(FIELD.parentUuid) : undefined,
      marks: marksOf({
        sidechain: scan.isTrue(FIELD.isSidechain),
        synthetic: scan.isTrue(FIELD.isMeta),
        summary: scan.isTrue(FIELD.isCompactSummary),
        boundary: scan.isPlainText(FIELD.subtype) && isBoundary(type, scan.text(FIELD.subtype)),
      }),
      message: type === "assistant" ? this.#answerId(block) : undefined,
      forkedFrom: undefined,
    };
  }

  #answerId(block: Uint8Array): Uint8Array | undefined {
    const from = this.#scan.starts[FIELD.message]!;
    const answer = this.#answer;
    if (from < 0 || !answer.scan(block, from, this.#scan.ends[FIELD.message]!) || !answer.isPlainText(0))
      return undefined;
    return answer.textBytes(0);
  }
}

/** The same facts, of a line that was parsed. */
export function factsOf(line: Line): LineFacts {
  const { type, uuid, parentUuid, message, subtype } = line;
  const name = typeof type === "string" ? type : "";
  const answerId = name === "assistant" && isRecord(message) ? message["id"] : undefined;
  return {
    type: name,
    id: typeof uuid === "string" ? encoder.encode(uuid) : NO_BYTES,
    parentId: typeof parentUuid === "string" ? encoder.encode(parentUuid) : undefined,
    marks: marksOf({
      sidechain: line["isSidechain"] === true,
      synthetic: line["isMeta"] === true,
      summary: line["isCompactSummary"] === true,
      boundary: isBoundary(name, subtype),
    }),
    message: typeof answerId === "string" && answerId !== "" ? encoder.encode(answerId) : undefined,
    forkedFrom: line["forkedFrom"] ?? undefined,
  };
}

const isBoundary = (type: string, subtype: unknown): boolean =>
  type === "system" && subtype === "compact_boundary";

function marksOf(is: Record<"sidechain" | "synthetic" | "summary" | "boundary", boolean>): number {
  return (
    (is.sidechain ? LineMark.sidechain : 0) |
    (is.synthetic ? LineMark.synthetic : 0) |
    (is.summary ? LineMark.summary : 0) |
    (is.boundary ? LineMark.boundary : 0)
  );
}
